"""Tables of scattered points: gridded by named columns, written back with one row a grid point."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fieldbench.errors import RequestError
from fieldbench.files import Completion, Selector, read, write
from fieldbench.files.rows import numbers

COLUMNS = ("lon", "lat", "depth")


def rows(ocean: Any) -> pd.DataFrame:
    """Every observed entry as a row, in random order."""
    depth, lat, lon = np.argwhere(~np.isnan(ocean.values)).T
    frame = pd.DataFrame(
        {
            "station": [f"s{index}" for index in range(len(depth))],
            "lon": ocean.lon[lon],
            "lat": ocean.lat[lat],
            "depth": ocean.depth[depth],
            "temp": ocean.values[depth, lat, lon],
        }
    )
    return frame.sample(frac=1, random_state=0)


@pytest.fixture(params=[".csv", ".parquet"])
def file(request: pytest.FixtureRequest, tmp_path: Path, ocean: Any) -> Path:
    path = tmp_path / f"points{request.param}"
    if request.param == ".csv":
        rows(ocean).to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        rows(ocean).to_parquet(path)
    return path


def saved(folder: Path, columns: Any) -> Path:
    """A text table of these columns."""
    pd.DataFrame(columns).to_csv(folder / "p.csv", index=False)
    return folder / "p.csv"


def load(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, float_precision="round_trip") if file.suffix == ".csv" else pd.read_parquet(file)


def test_rows_on_a_grid_become_that_grid(file: Path, ocean: Any) -> None:
    gridded = read(file, Selector(coordinates=COLUMNS))
    assert gridded.name == "temp"
    assert [axis.name for axis in gridded.axes] == list(COLUMNS)
    np.testing.assert_allclose(gridded.values, ocean.values.transpose(2, 1, 0))


def test_written_with_one_row_a_grid_point(file: Path, ocean: Any) -> None:
    gridded = read(file, Selector(coordinates=COLUMNS))
    target = file.with_name(f"out{file.suffix}")
    completed = np.nan_to_num(gridded.values, nan=7.0)
    files = write(file, target, Completion(gridded, completed, np.full(completed.shape, 0.5), {"method": "tnn"}))
    frame = load(target)
    assert list(frame.columns) == ["lon", "lat", "depth", "temp", "observed", "temp_std"]
    assert len(frame) == 60
    assert (frame["temp"][~frame["observed"].astype(bool)] == 7).all()
    assert frame["observed"].sum() == len(rows(ocean))
    again = read(target, Selector(coordinates=COLUMNS, variable="temp"))
    np.testing.assert_allclose(again.values, completed)
    if file.suffix == ".csv":
        assert json.loads((file.with_name("out.csv.json")).read_text()) == {"method": "tnn"}
        assert files == [target, file.with_name("out.csv.json")]
    else:
        import pyarrow.parquet

        metadata = pyarrow.parquet.read_schema(target).metadata
        assert json.loads(metadata[b"fieldbench"]) == {"method": "tnn"}


def test_points_where_the_field_does_not_exist_are_not_written(file: Path) -> None:
    gridded = read(file, Selector(coordinates=COLUMNS))
    completed = np.nan_to_num(gridded.values, nan=7.0)
    completed[0] = np.nan
    target = file.with_name(f"out{file.suffix}")
    write(file, target, Completion(gridded, completed))
    assert len(load(target)) == 48


def test_a_field_called_observed_keeps_its_column(tmp_path: Path) -> None:
    source, target = tmp_path / "p.csv", tmp_path / "out.csv"
    frame = pd.DataFrame({"x": [0, 0, 1], "observed_std": [0, 1, 0], "observed": [1.5, 2.5, 3.5]})
    frame.to_csv(source, index=False)
    gridded = read(source, Selector(coordinates=("x", "observed_std"), variable="observed"))
    write(source, target, Completion(gridded, np.nan_to_num(gridded.values, nan=7.0), np.full((2, 2), 0.5)))
    made = load(target)
    assert list(made.columns) == ["x", "observed_std", "observed", "observed_2", "observed_std_2"]
    assert made["observed"].tolist() == [1.5, 2.5, 3.5, 7.0]
    assert made["observed_2"].tolist() == [True, True, True, False]


def test_scattered_points_are_averaged_into_the_wanted_grid(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0.0, 0.2, 4.0, 2.1], "y": [0.0, 0.1, 2.0, 1.9], "v": [1.0, 3.0, 5.0, 7.0]})
    gridded = read(file, Selector(coordinates=("x", "y"), grid=(3, 2)))
    assert gridded.axes[0].coordinates.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(gridded.values, [[2, np.nan], [np.nan, 7], [np.nan, 5]])


def test_a_grid_by_its_step(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0.1, 0.2, 1.1], "y": [7.0, 12.0, 21.0], "v": [1.0, 3.0, 5.0]})
    gridded = read(file, Selector(coordinates=("x", "y"), step=(0.5, 5.0)))
    assert [axis.coordinates.tolist() for axis in gridded.axes] == [[0, 0.5, 1, 1.5], [5, 10, 15, 20, 25]]
    assert gridded.values[0, 0] == 1
    same = read(file, Selector(coordinates=("x", "y"), step=(0.5,)))
    assert [len(axis) for axis in same.axes] == [4, 29]


@pytest.mark.parametrize("count", [20, 150, 400])
def test_scattered_rows_without_a_gap_are_a_question(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    file = saved(tmp_path, {"x": rng.random(count), "y": rng.random(count), "v": 1.0})
    message = rf"{count} rows lie on no grid .*--at POINTS.csv.*--grid 20x20.*--grid step=0.5"
    with pytest.raises(RequestError, match=message):
        read(file, Selector(coordinates=("x", "y")))


def profiles() -> pd.DataFrame:
    """853 rows of 30 profiles with depths of their own, some of them without a value."""
    rng = np.random.default_rng(0)
    station = np.sort(rng.integers(30, size=853))
    depth = rng.permutation(10_000)[:853] / 10
    temp = 20 - depth / 100 + station / 10
    temp[rng.random(853) < 0.2] = np.nan
    names = np.array([f"s{index}" for index in range(30)])
    return pd.DataFrame(
        {"name": names[station], "km": station * 7.5, "depth": depth, "temp": temp, "bottle": range(853)}
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_scattered_rows_are_completed_where_they_lack_a_value(tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / f"p{suffix}", tmp_path / f"out{suffix}"
    frame = profiles()
    frame.to_csv(source, index=False) if suffix == ".csv" else frame.to_parquet(source)
    gridded = read(source, Selector(coordinates=("km", "depth"), variable="temp"))
    assert gridded.missing.sum() == frame["temp"].isna().sum()
    assert gridded.valid.sum() == 853
    made = np.where(
        gridded.valid, 20 - gridded.axes[1].coordinates / 100 + gridded.axes[0].coordinates[:, None] / 75, np.nan
    )
    write(source, target, Completion(gridded, made, np.full(made.shape, 0.5)))
    written = load(target)
    assert list(written.columns) == [*frame.columns, "observed", "temp_std"]
    pd.testing.assert_frame_equal(written[["name", "km", "depth", "bottle"]], frame[["name", "km", "depth", "bottle"]])
    assert written["observed"].tolist() == frame["temp"].notna().tolist()
    np.testing.assert_allclose(written["temp"], 20 - frame["depth"] / 100 + frame["km"] / 75)
    kept = frame["temp"].notna()
    assert written["temp"][kept].tolist() == frame["temp"][kept].tolist()


def test_scattered_rows_are_completed_at_the_points_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 150))
    file = saved(tmp_path, {"x": x, "y": y, "v": x + 2 * y})
    points = pd.DataFrame({"buoy": ["a", "b", "c"], "y": [0.5, y[3], 0.25], "x": [0.5, x[3], 0.75]})
    points.to_csv(tmp_path / "at.csv", index=False)
    gridded = read(file, Selector(coordinates=("x", "y"), points=tmp_path / "at.csv"))
    assert (int((~np.isnan(gridded.values)).sum()), int(gridded.missing.sum())) == (150, 2)
    plane = gridded.axes[0].coordinates[:, None] + 2 * gridded.axes[1].coordinates
    target = tmp_path / "out.csv"
    write(file, target, Completion(gridded, np.where(gridded.valid, plane, np.nan), plane))
    written = load(target)
    assert list(written.columns) == ["buoy", "y", "x", "v", "observed", "v_std"]
    np.testing.assert_allclose(written["v"], points["x"] + 2 * points["y"])
    points.drop(columns="x").to_csv(tmp_path / "at.csv", index=False)
    with pytest.raises(RequestError, match=r"the points have no column 'x', which .* has; they have buoy, y"):
        read(file, Selector(coordinates=("x", "y"), points=tmp_path / "at.csv"))


def test_rows_at_one_buoy_keep_their_own_values(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0.1, 0.1, 0.7, 0.35], "y": [0.3, 0.3, 0.9, 0.77], "v": [1.0, 3.0, 5.0, np.nan]})
    gridded = read(file, Selector(coordinates=("x", "y")))
    assert gridded.values[0, 0] == 2
    made = np.where(gridded.valid, np.nan_to_num(gridded.values, nan=7.0), np.nan)
    write(file, tmp_path / "out.csv", Completion(gridded, made))
    assert load(tmp_path / "out.csv")["v"].tolist() == [1, 3, 5, 7]
    write(file, tmp_path / "smooth.csv", Completion(gridded, np.where(gridded.valid, 4.0, np.nan)))
    assert load(tmp_path / "smooth.csv")["v"].tolist() == [4, 4, 4, 4]


def test_a_grid_too_large_for_memory_rounds_positions_and_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((500, 3)), columns=list("xyz")).assign(v=1.0)
    frame.loc[7, "v"] = np.nan
    file = saved(tmp_path, frame)
    gridded = read(file, Selector(coordinates=tuple("xyz")))
    assert gridded.values.size <= 4_000_000
    assert gridded.missing.sum() == 1
    assert all(line.startswith("positions along ") and " are rounded to 0.00" in line for line in gridded.remarks)


def test_a_code_is_a_gap_of_scattered_rows(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0.1, 0.7, 0.35], "y": [0.3, 0.9, 0.77], "v": [1.0, 5.0, -999.0]})
    gridded = read(file, Selector(coordinates=("x", "y"), missing=(-999.0,)))
    assert gridded.missing.sum() == 1
    write(file, tmp_path / "out.csv", Completion(gridded, np.where(gridded.missing, 7.0, gridded.values)))
    assert load(tmp_path / "out.csv")["v"].tolist() == [1, 5, 7]


def test_a_time_series_is_its_own_grid(tmp_path: Path) -> None:
    file = saved(tmp_path, {"t": [0.1, 3.7, 2.2], "v": [1.0, np.nan, 2.0]})
    gridded = read(file, Selector(coordinates=("t",)))
    np.testing.assert_array_equal(gridded.values, [1, 2, np.nan])


TIDY = "lon,lat,temp\n10.5,50,1.5\n10.5,51,\n11.5,50,2.5\n11.5,51,3.25\n"
SPELLINGS = {
    "semicolons and decimal commas": "lon;lat;temp\n10,5;50;1,5\n10,5;51;\n11,5;50;2,5\n11,5;51;3,25\n",
    "tabs": TIDY.replace(",", "\t"),
    "tabs and decimal commas": TIDY.replace(",", "\t").replace(".", ","),
    "spaces": TIDY.replace("51,\n", "51,--\n").replace(",", "   "),
    "comments": "# from a cruise\n# of 2020, in May\n" + TIDY + "# the end\n",
    "names in the last comment": "% cruise\n% " + TIDY,
    "names of one letter": "# a cruise\n" + TIDY.replace("lon,lat,temp", "x,y,v"),
    "two dashes": TIDY.replace("51,\n", "51,--\n"),
    "blanks after commas": TIDY.replace(",", ", "),
    "a row of units": TIDY.replace("temp\n", "temp\ndegrees_east,degrees_north,degC\n"),
    "a mark of the byte order": "\ufeff" + TIDY,
    "carriage returns": TIDY.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_tables_as_people_write_them(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "p.csv").write_bytes(SPELLINGS[spelling].encode())
    names = ("x", "y") if spelling == "names of one letter" else ("lon", "lat")
    gridded = read(tmp_path / "p.csv", Selector(coordinates=names))
    assert [axis.coordinates.tolist() for axis in gridded.axes] == [[10.5, 11.5], [50, 51]]
    np.testing.assert_array_equal(gridded.values, [[1.5, np.nan], [2.5, 3.25]])


def test_a_table_with_tabs_is_written_with_tabs(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(TIDY.replace(",", "\t"))
    gridded = read(tmp_path / "p.tsv", Selector(coordinates=("lon", "lat")))
    made = Completion(gridded, np.array([[1.5, 2.0], [2.5, 3.25]]), None, {"method": "nearest"})
    written = write(tmp_path / "p.tsv", tmp_path / "q.tsv", made)
    assert [path.name for path in written] == ["q.tsv", "q.tsv.json"]
    assert (tmp_path / "q.tsv").read_text().splitlines()[2] == "10.5\t51.0\t2.0\tFalse"


def test_latin_letters_of_old(tmp_path: Path) -> None:
    text = TIDY.replace("lon,", "L\xe4nge,")
    (tmp_path / "p.csv").write_bytes(text.encode("latin-1"))
    assert read(tmp_path / "p.csv", Selector(coordinates=("L\xe4nge", "lat"))).axes[0].name == "L\xe4nge"


DATES = {
    "days": ["2024-02-28", "2024-02-29", "2024-03-01"],
    "German days": ["28.02.2024", "29.02.2024", "01.03.2024"],
    "minutes": ["2024-02-28T12:00", "2024-02-28T18:30", "2024-03-01T00:00"],
    "UTC": ["2024-02-28T12:00Z", "2024-02-28T18:30Z", "2024-03-01T00:00Z"],
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("dates", DATES)
def test_dates_are_coordinates(tmp_path: Path, suffix: str, dates: str) -> None:
    source, target = tmp_path / f"p{suffix}", tmp_path / f"out{suffix}"
    frame = pd.DataFrame({"when": DATES[dates] * 2, "x": [0] * 3 + [1] * 3, "v": [1.0, 2, 3, 4, np.nan, 6]})
    if suffix == ".csv":
        frame.to_csv(source, index=False)
    else:
        frame.assign(when=pd.to_datetime(frame["when"], dayfirst=dates == "German days")).to_parquet(source)
    gridded = read(source, Selector(coordinates=("when", "x")))
    days = [0, 1, 2] if "days" in dates else [0.5, 18.5 / 24, 2]
    np.testing.assert_allclose(gridded.axes[0].coordinates, days)
    assert gridded.axes[0].unit == "days since 2024-02-28" + ("Z" if dates == "UTC" else "")
    write(source, target, Completion(gridded, np.nan_to_num(gridded.values, nan=7.0)))
    written = load(target)
    when = pd.to_datetime(written["when"])
    selector = pd.to_datetime(pd.Series(DATES[dates]), dayfirst=dates == "German days")
    assert (when.dt.tz is None) == (dates != "UTC")
    assert (when.tolist()) == [date for date in selector for _ in range(2)]
    assert written["v"].tolist() == [1, 4, 2, 7, 3, 6]


def test_dates_that_can_be_read_in_two_ways_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("when,v\n03/04/2024,1\n04/04/2024,\n")
    with pytest.raises(RequestError, match="'when' holds no numbers, nor dates such as 2024-01-31T12:00"):
        read(tmp_path / "p.csv", Selector(coordinates=("when",)))


def test_several_columns_are_completed_together(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0, 0, 1], "y": [0, 1, 0], "t": [1.0, 2, 3], "s": [4.0, np.nan, 6]})
    several = [read(file, Selector(coordinates=("x", "y"), variable=name)) for name in "ts"]
    made = [Completion(gridded, np.nan_to_num(gridded.values, nan=9.0), None, {"method": "tnn"}) for gridded in several]
    write(file, tmp_path / "out.csv", *made)
    written = load(tmp_path / "out.csv")
    assert written["t"].tolist() == [1, 2, 3, 9]
    assert written["s"].tolist() == [4, 9, 6, 9]
    assert written["observed"].tolist() == [True, True, True, False]
    assert written["observed_2"].tolist() == [True, False, True, False]
    assert json.loads((tmp_path / "out.csv.json").read_text()) == {"t": {"method": "tnn"}, "s": {"method": "tnn"}}


def test_a_second_field_called_observed_does_not_take_the_marks_of_the_first(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0, 0, 1], "y": [0, 1, 0], "t": [1.0, 2, 3], "observed": [4.0, np.nan, 6]})
    several = [read(file, Selector(coordinates=("x", "y"), variable=name)) for name in ("t", "observed")]
    write(file, tmp_path / "out.csv", *(Completion(one, np.nan_to_num(one.values, nan=9.0)) for one in several))
    written = load(tmp_path / "out.csv")
    assert written["observed"].tolist() == [4, 9, 6, 9]
    assert written["observed_2"].tolist() == [True, True, True, False]
    assert written["observed_3"].tolist() == [True, False, True, False]


def test_mask_and_validity_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "x": [0, 0, 1, 1, 2, 3, 3],
            "y": [0, 1, 0, 1, 0, 0, 1],
            "v": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            "good": [1, 0, 1, 1, 1, np.nan, 1],  # what is not known to be good is as good as unobserved
            "water": [1, 1, 1, 0, 1, 1, np.nan],
        }
    )
    file = saved(tmp_path, frame)
    gridded = read(file, Selector(coordinates=("x", "y"), mask="good", valid="water"))
    np.testing.assert_array_equal(gridded.values, [[1, np.nan], [3, 4], [5, np.nan], [np.nan, 7]])
    np.testing.assert_array_equal(gridded.valid, [[True, True], [True, False], [True, True], [True, False]])
    assert np.argwhere(gridded.missing).tolist() == [[0, 1], [2, 1], [3, 0]]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (Selector(), "by coordinates; its columns are station, lon"),
        (Selector(coordinates=("lon", "latt")), "column 'latt' is not there; did you mean 'lat'"),
        (Selector(coordinates=("lon", "station")), "'station' holds no numbers"),
        (Selector(coordinates=("lon", "lon")), "'lon' is named twice"),
        (Selector(coordinates=("lon", "lat")), r"variable=depth\|temp"),
        (Selector(coordinates=COLUMNS, mask="station"), "column 'station' holds no numbers, as a mask should"),
        (Selector(coordinates=COLUMNS, valid="station"), "column 'station' holds no numbers, as a mask should"),
        (Selector(coordinates=COLUMNS, grid=(3, 3)), "grid has 2 numbers, coordinates 3 columns"),
    ],
)
def test_what_is_asked_of_a_table_must_be_there(file: Path, selector: Selector, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read(file, selector)


def test_a_row_without_coordinates_is_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0.0, np.nan], "v": [1.0, 2.0]})
    with pytest.raises(RequestError, match="'x' has missing"):
        read(file, Selector(coordinates=("x",)))


TABLE = "lon,lat,temp,note\n0,0,,calm\n0,1,10.5,calm\n1,0,11,calm\n1,1,12.25,calm\n"
ON_TWO_BY_TWO = [[np.nan, 10.5], [11, 12.25]]


@pytest.mark.parametrize(
    "content",
    [
        TABLE.encode("utf-16"),
        TABLE.replace("calm", "calm… sea").encode("cp1252"),  # in Latin-1 this letter ends a line
        TABLE.replace("calm", '"calm\n# sea, 3 ""Bft"""').encode(),
        TABLE.replace("calm\n", "calm,\n").encode(),  # a separator more in each row than among the names
        TABLE.replace("note", '"note; free"').encode(),
        ("sep=;\n" + TABLE.replace(",", ";")).encode(),
        TABLE.replace(",", ";").replace(".", ",").encode(),
        TABLE.replace("10.5", '"10,5"').replace("12.25", '"12,25"').encode(),
        TABLE.replace(",", ";").replace(".", ",").replace("\n0;1", "\n0;0;;\n" * 30 + "0;1", 1).encode(),
    ],
)
def test_tables_as_programs_write_them(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.csv").write_bytes(content)
    gridded = read(tmp_path / "p.csv", Selector(coordinates=("lon", "lat"), variable="temp"))
    np.testing.assert_array_equal(gridded.values, ON_TWO_BY_TWO)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lon,lat,temp\n0,0,1,5\n0,1,2,6\n", "its rows have more columns than the line of their names"),
        ("lon,lat,temp\n0,0,1\n0,1,<0.1\n", "row 2 has '<0.1', and where nothing was measured a cell is empty"),
        ('lon,lat,temp\n0,0,3\n0,1,"1,234.5"\n', "row 2 has '1,234.5'"),
        ("lon,lat,temp,temp \n0,0,1,3\n", "has 2 columns 'temp'; each name may stand once"),
    ],
)
def test_what_a_table_has_too_much_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(RequestError, match=re.escape(said)):
        read(tmp_path / "p.csv", Selector(coordinates=("lon", "lat"), variable="temp"))


@pytest.mark.parametrize(
    "dates",
    [
        ["2024-03-31 00:30:00 UTC", "2024-03-31 03:30:00 UTC"],
        ["2024-03-31T01:30:00+01:00", "2024-03-31T05:30:00+02:00"],
    ],
)
def test_dates_of_any_zone(tmp_path: Path, dates: list[str]) -> None:
    file = saved(tmp_path, {"time": np.repeat(dates, 2), "x": [0, 1, 0, 1], "t": [1, 2, 3, 4]})
    (time, _) = read(file, Selector(coordinates=("time", "x"))).axes
    np.testing.assert_allclose(24 * time.coordinates, [0.5, 3.5])
    assert time.unit == "days since 2024-03-31Z"


def test_a_column_of_decimals_or_of_numbers_and_none() -> None:
    for values in ([Decimal("1.5"), Decimal(2), None, Decimal(3)], [1.5, 2, None, 3.0]):
        frame = pd.DataFrame({"x": [0, 0, 1, 1], "y": [0, 1, 0, 1], "v": pd.Series(values, dtype=object)})
        assert numbers(frame["v"], "the table")[0].tolist() == pytest.approx([1.5, 2, np.nan, 3], nan_ok=True)


def test_points_keep_a_column_that_is_called_like_the_field(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).uniform(0, 9, size=(2, 20))
    file = saved(tmp_path, {"x": x, "y": y, "temp": np.arange(20.0)})
    points = tmp_path / "points.csv"
    pd.DataFrame({"x": [x[3], 5.0], "y": [y[3], 5.0], "temp": ["calm", "wind"]}).to_csv(points, index=False)
    gridded = read(file, Selector(coordinates=("x", "y"), points=points))
    write(file, tmp_path / "out.csv", Completion(gridded, np.nan_to_num(gridded.values, nan=7.0)))
    made = load(tmp_path / "out.csv")
    assert made["temp"].tolist() == ["calm", "wind"]
    assert made["temp_completed"].tolist() == [3, 7]  # what was measured there, and what was made
    assert made["observed"].tolist() == [True, False]


def test_a_fault_of_the_points_is_theirs(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).uniform(0, 9, size=(2, 20))
    file, points = saved(tmp_path, {"x": x, "y": y, "temp": x}), tmp_path / "points.csv"
    pd.DataFrame({"x": [1.0, np.nan], "y": [5.0, 5.0]}).to_csv(points, index=False)
    with pytest.raises(RequestError, match="the points: the column 'x' has missing or infinite coordinates"):
        read(file, Selector(coordinates=("x", "y"), points=points))


def test_a_grid_that_no_memory_holds_is_refused_at_once(tmp_path: Path) -> None:
    file = saved(tmp_path, {"x": [0.0, 1.0, 2.0], "y": [0.0, 3.0, 4.0], "v": [1, 2, 3]})
    with pytest.raises(RequestError, match=r"grid: 8e\+14 points are too many"):
        read(file, Selector(coordinates=("x", "y"), step=(1e-7,)))


def test_named_rows_of_parquet_are_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": [0, 0, 1], "y": [0, 1, 0], "v": [1.0, 2, 3]}).set_index(["x", "y"])
    frame.to_parquet(tmp_path / "p.parquet")
    gridded = read(tmp_path / "p.parquet", Selector(coordinates=("x", "y")))
    np.testing.assert_array_equal(gridded.values, [[1, 2], [3, np.nan]])
