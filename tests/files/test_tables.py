"""Tables of scattered points: gridded by named columns, written back with one row a grid point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fieldbench.errors import RequestError
from fieldbench.files import Completion, Wanted, read, write

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


def load(file: Path) -> pd.DataFrame:
    return pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)


def test_rows_on_a_grid_become_that_grid(file: Path, ocean: Any) -> None:
    content = read(file, Wanted(coordinates=COLUMNS))
    assert content.name == "temp"
    assert [axis.name for axis in content.axes] == list(COLUMNS)
    np.testing.assert_allclose(content.values, ocean.values.transpose(2, 1, 0))


def test_written_with_one_row_a_grid_point(file: Path, ocean: Any) -> None:
    content = read(file, Wanted(coordinates=COLUMNS))
    target = file.with_name(f"out{file.suffix}")
    completed = np.nan_to_num(content.values, nan=7.0)
    files = write(file, target, Completion(content, completed, np.full(completed.shape, 0.5), {"method": "tnn"}))
    frame = load(target)
    assert list(frame.columns) == ["lon", "lat", "depth", "temp", "observed", "temp_std"]
    assert len(frame) == 60
    assert (frame["temp"][~frame["observed"].astype(bool)] == 7).all()
    assert frame["observed"].sum() == len(rows(ocean))
    again = read(target, Wanted(coordinates=COLUMNS, variable="temp"))
    np.testing.assert_allclose(again.values, completed)
    if file.suffix == ".csv":
        assert json.loads((file.with_name("out.csv.json")).read_text()) == {"method": "tnn"}
        assert files == [target, file.with_name("out.csv.json")]
    else:
        import pyarrow.parquet

        metadata = pyarrow.parquet.read_schema(target).metadata
        assert json.loads(metadata[b"fieldbench"]) == {"method": "tnn"}


def test_points_where_the_field_does_not_exist_are_not_written(file: Path) -> None:
    content = read(file, Wanted(coordinates=COLUMNS))
    completed = np.nan_to_num(content.values, nan=7.0)
    completed[0] = np.nan
    target = file.with_name(f"out{file.suffix}")
    write(file, target, Completion(content, completed))
    assert len(load(target)) == 48


def test_a_field_called_observed_keeps_its_column(tmp_path: Path) -> None:
    source, target = tmp_path / "p.csv", tmp_path / "out.csv"
    frame = pd.DataFrame({"x": [0, 0, 1], "observed_std": [0, 1, 0], "observed": [1.5, 2.5, 3.5]})
    frame.to_csv(source, index=False)
    content = read(source, Wanted(coordinates=("x", "observed_std"), variable="observed"))
    write(source, target, Completion(content, np.nan_to_num(content.values, nan=7.0), np.full((2, 2), 0.5)))
    made = load(target)
    assert list(made.columns) == ["x", "observed_std", "observed", "observed_2", "observed_std_2"]
    assert made["observed"].tolist() == [1.5, 2.5, 3.5, 7.0]
    assert made["observed_2"].tolist() == [True, True, True, False]


def test_scattered_points_are_averaged_into_the_wanted_grid(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [0.0, 0.2, 4.0, 2.1], "y": [0.0, 0.1, 2.0, 1.9], "v": [1.0, 3.0, 5.0, 7.0]})
    frame.to_csv(tmp_path / "p.csv", index=False)
    content = read(tmp_path / "p.csv", Wanted(coordinates=("x", "y"), grid=(3, 2)))
    assert content.axes[0].coordinates.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(content.values, [[2, np.nan], [np.nan, 7], [np.nan, 5]])


def test_scattered_points_without_a_grid_are_a_question(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame({"x": rng.random(400), "y": rng.random(400), "v": 1.0}).to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(RequestError, match=r"400 rows lie on no grid .* such as grid=20x20"):
        read(tmp_path / "p.csv", Wanted(coordinates=("x", "y")))


def test_mask_and_validity_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "x": [0, 0, 1, 1, 2, 3, 3],
            "y": [0, 1, 0, 1, 0, 0, 1],
            "v": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            "good": [1, 0, 1, 1, 1, np.nan, 1],  # what is not known to be good is as good as hidden
            "water": [1, 1, 1, 0, 1, 1, np.nan],
        }
    )
    frame.to_csv(tmp_path / "p.csv", index=False)
    content = read(tmp_path / "p.csv", Wanted(coordinates=("x", "y"), mask="good", valid="water"))
    np.testing.assert_array_equal(content.values, [[1, np.nan], [3, 4], [5, np.nan], [np.nan, 7]])
    np.testing.assert_array_equal(content.valid, [[True, True], [True, False], [True, True], [True, False]])
    assert np.argwhere(content.missing).tolist() == [[0, 1], [2, 1], [3, 0]]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(), r"coordinates=\(lon,lat,depth\); its columns are station, lon"),
        (Wanted(coordinates=("lon", "latt")), "column 'latt' is not there; did you mean 'lat'"),
        (Wanted(coordinates=("lon", "station")), "'station' holds no numbers"),
        (Wanted(coordinates=("lon", "lon")), "'lon' is named twice"),
        (Wanted(coordinates=("lon", "lat")), r"variable=depth\|temp"),
        (Wanted(coordinates=COLUMNS, mask="station"), "column 'station' holds no numbers, as a mask should"),
        (Wanted(coordinates=COLUMNS, valid="station"), "column 'station' holds no numbers, as a mask should"),
        (Wanted(coordinates=COLUMNS, grid=(3, 3)), "grid has 2 numbers, coordinates 3 columns"),
    ],
)
def test_what_is_asked_of_a_table_must_be_there(file: Path, wanted: Wanted, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read(file, wanted)


def test_a_row_without_coordinates_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"x": [0.0, np.nan], "v": [1.0, 2.0]}).to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(RequestError, match="'x' has missing"):
        read(tmp_path / "p.csv", Wanted(coordinates=("x",)))
