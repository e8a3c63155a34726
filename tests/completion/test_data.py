"""``fieldbench.complete``: what is given comes back with its gaps filled, as what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fieldbench
from fieldbench.registry import Sources

SOURCES = Sources.from_environment([str(Path(__file__).with_name("candidates.py"))])
TRUTH = 3.0 + 0.5 * np.indices((12, 10))[0] - 0.25 * np.indices((12, 10))[1]
HIDDEN = np.random.default_rng(0).random(TRUTH.shape) < 0.4
GAPPY = np.where(HIDDEN, np.nan, TRUTH)


def complete(data: Any, method: str = "plane", **how: Any) -> fieldbench.CompletedData:
    return fieldbench.complete(data, method, budget=0, sources=SOURCES, device="cpu", **how)


def test_an_array_with_nan() -> None:
    given = GAPPY.copy()
    made = complete(given)
    assert type(made.values) is np.ndarray
    np.testing.assert_allclose(made.values, TRUTH)
    np.testing.assert_array_equal(made.values[~HIDDEN], TRUTH[~HIDDEN])
    np.testing.assert_array_equal(made.deviation, np.where(HIDDEN, 0.25, 0))
    np.testing.assert_array_equal(made.filled, HIDDEN)
    np.testing.assert_array_equal(given, GAPPY)  # what was given is not changed
    assert (made.method, made.metric, str(made)) == ("plane", "rmse", "Completed with plane")


def test_the_comparison_is_beside_it() -> None:
    made = fieldbench.complete(GAPPY, candidates=["zero", "plane"], budget=60, sources=SOURCES, device="cpu")
    assert made.comparison["method"].tolist() == ["plane", "zero"]
    assert max(made.expected_error, made.comparison["expected"][0]) < 1e-9
    assert list(made.by_distance.columns) == ["nearest", "farthest", "withheld", "error", "gaps"]
    assert made.by_distance["gaps"].sum() == HIDDEN.sum()
    assert fieldbench.complete(GAPPY, "zero", budget=0, sources=SOURCES, device="cpu").deviation is None


def test_precision_and_whole_numbers_are_kept() -> None:
    assert complete(GAPPY.astype("f4")).values.dtype == np.float32
    counts = np.indices((6, 5)).sum(axis=0)
    made = complete(counts, "zero", mask=counts != 3)
    assert made.values.dtype == counts.dtype
    np.testing.assert_array_equal(made.values, np.where(counts == 3, 0, counts))


def test_masks_and_limits_are_those_of_the_command() -> None:
    sea = np.ones(TRUTH.shape, dtype=bool)
    sea[:3] = False
    coded = np.where(HIDDEN, -999.0, TRUTH)
    made = complete(coded, missing=[-999], valid=sea, within=(0.0, 4.0), max_gap=["1"])
    assert not made.filled[:3].any()
    assert (made.values[made.filled] <= 4).all()
    np.testing.assert_array_equal(made.values[:3], coded[:3])
    assert any("lie where valid says that there is no field" in line for line in made.remarks)
    unasked = complete(np.where(np.arange(120).reshape(12, 10) == 7, np.nan, coded))
    assert any("entries of data are exactly -999" in line for line in unasked.remarks)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_a_masked_array(dtype: str) -> None:
    truth = (4 * TRUTH).astype(dtype)
    land = np.zeros(TRUTH.shape, dtype=bool)
    land[:2] = True
    given = np.ma.array(np.where(HIDDEN | land, 77, truth), mask=HIDDEN | land)
    made = complete(given, valid=~land)
    assert isinstance(made.values, np.ma.MaskedArray)
    assert isinstance(made.deviation, np.ma.MaskedArray)
    if dtype != "i4":
        assert made.values.dtype == given.dtype
    np.testing.assert_array_equal(np.ma.getmaskarray(made.values), land)
    np.testing.assert_allclose(made.values[~land], truth[~land], rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(made.filled), HIDDEN & ~land)


def data_array(**how: Any) -> Any:
    xarray = pytest.importorskip("xarray")
    times = np.datetime64("2024-02-28T12:00") + np.arange(12) * np.timedelta64(1, "D")
    about = {"units": "degC", "standard_name": "sea_water_temperature"}
    coordinates = {"time": times, "lat": ("lat", np.arange(10.0), {"units": "degrees_north"})}
    return xarray.DataArray(GAPPY, coordinates, ("time", "lat"), "temp", about, **how)


@pytest.mark.parametrize("dask", [False, True])
def test_a_data_array(dask: bool) -> None:
    given = data_array()
    if dask:
        pytest.importorskip("dask.array")
        given = given.chunk({"time": 5})
    made = complete(given, max_gap=["1d"])
    near = ~HIDDEN
    near[1:] |= ~HIDDEN[:-1]
    near[:-1] |= ~HIDDEN[1:]
    assert (made.values.chunks, made.deviation.chunks) == (given.chunks, given.chunks)
    np.testing.assert_allclose(made.values.values, np.where(near, TRUTH, np.nan))
    for name in ("time", "lat"):
        np.testing.assert_array_equal(made.values[name].values, given[name].values)
    assert made.values.name == "temp"
    assert made.values.attrs["units"] == "degC"
    assert made.values.attrs["fieldbench_method"] == "plane"
    assert made.deviation.name == "temp_std"
    assert made.deviation.attrs["standard_name"] == "sea_water_temperature standard_error"
    np.testing.assert_array_equal(made.filled.values, HIDDEN & near)
    assert "fieldbench_method" not in given.attrs


def test_masks_of_data_arrays_fit_by_their_dimensions() -> None:
    xarray = pytest.importorskip("xarray")
    sea = xarray.DataArray(np.arange(10) > 2, dims="lat")
    made = complete(data_array(), valid=sea)
    assert int(made.values.isnull().sum()) == HIDDEN[:, :3].sum()


def test_a_data_array_out_of_order_and_with_one_time() -> None:
    given = data_array().isel(lat=[3, 0, 2, 1, 9, 8, 7, 6, 5, 4]).expand_dims("level")
    made = complete(given)
    np.testing.assert_allclose(made.values.values[0], TRUTH[:, [3, 0, 2, 1, 9, 8, 7, 6, 5, 4]])
    assert made.values.dims == ("level", "time", "lat")


DAYS = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 30, 31, 32])


@pytest.mark.parametrize("kind", ["dates", "dates of a zone", "durations", "dates of a model"])
def test_times_of_any_kind_are_days(kind: str) -> None:
    """Three weeks without a measurement are a gap that two days do not reach across."""
    pytest.importorskip("xarray")
    times: Any = np.timedelta64(12, "h") + DAYS * np.timedelta64(1, "D")
    if kind.startswith("dates"):
        times = np.datetime64("2024-02-28T12:00") + times
    if kind == "dates of a zone":
        times = np.array(pd.DatetimeIndex(times).tz_localize("Europe/Berlin").tolist(), dtype=object)
    if kind == "dates of a model":  # which have a 30th of February
        cftime = pytest.importorskip("cftime")
        times = cftime.num2date(DAYS, "days since 2024-02-28 12:00", "360_day")
    given = data_array().isel(lat=[0, 1]).assign_coords(time=times)
    given[:] = np.where(np.isin(DAYS, [0, 32])[:, np.newaxis], TRUTH[:, :2], np.nan)
    made = complete(given, max_gap=["2d"])
    assert made.remarks[0] == "12 gaps are farther from an observation than max-gap says, and stay missing"
    assert DAYS[made.values.notnull().all("lat").values].tolist() == [0, 1, 2, 30, 31, 32]
    np.testing.assert_array_equal(made.values["time"].values, times)


def test_dates_of_which_one_is_missing_are_counted() -> None:
    pytest.importorskip("xarray")
    times = np.datetime64("2024-02-28T12:00") + DAYS * np.timedelta64(1, "D")
    for missing in (slice(3, 4), slice(None)):
        times[missing] = "NaT"
        made = complete(data_array().assign_coords(time=times))
        assert len(made.remarks) == 1
        assert "positions along time are counted instead" in made.remarks[0]
        assert np.isfinite(made.values.values).all()


def test_coordinates_of_texts_are_counted() -> None:
    pytest.importorskip("xarray")
    made = complete(data_array().assign_coords(time=np.array(list("abcdefghijkl"), dtype=object)))
    assert made.remarks == ("the coordinates 'time' are not numbers; positions along time are counted instead",)


def test_a_valid_range_that_estimates_leave_goes_and_is_told() -> None:
    pytest.importorskip("xarray")
    given = data_array().assign_attrs(valid_max=4.0)
    made = complete(given)
    beyond = int((HIDDEN & (made.values > 4)).sum())
    assert beyond
    assert any(f"{beyond} completed values" in line and "valid range (-inf to 4)" in line for line in made.remarks)
    assert "valid_max" not in made.values.attrs
    packed = complete(given.assign_attrs(valid_max=100.0, scale_factor=0.1))  # 10, were the values unpacked
    assert packed.values.attrs["valid_max"] == 100
    assert not complete(given.assign_attrs(valid_max="none", scale_factor=None)).remarks
    inside = complete(given.assign_attrs(valid_max=1e6))
    assert inside.values.attrs["valid_max"] == 1e6
    assert not inside.remarks


def test_a_valid_range_in_packed_numbers_goes_with_the_packing(tmp_path: Path) -> None:
    """xarray unpacks the values and not the range."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    file = tmp_path / "a.nc"
    packed = {"dtype": "i2", "scale_factor": 0.25, "add_offset": 10.0, "_FillValue": np.int16(-99)}
    given = data_array().assign_attrs(valid_max=np.int16(-8))  # 8, beyond all values
    given.to_dataset(name="t").to_netcdf(file, engine="h5netcdf", encoding={"t": packed})
    with xarray.open_dataset(file, engine="h5netcdf") as opened:
        made = complete(opened["t"])
    assert not made.remarks
    assert "valid_max" not in made.values.attrs
    np.testing.assert_allclose(made.values, TRUTH)


def long_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(80), "y": rng.random(80), "name": "a"}, index=np.arange(80) * 2)
    return frame.assign(temp=np.where(rng.random(80) < 0.3, np.nan, 1 + frame["x"]))


def test_a_long_table_comes_back_row_by_row() -> None:
    given = long_table()
    made = complete(given, "nearest", coordinates=["x", "y"], variable="temp")
    assert made.values.index.tolist() == given.index.tolist()
    assert list(made.values.columns) == ["x", "y", "name", "temp", "observed"]
    assert made.values["temp"].notna().all()
    assert made.filled.tolist() == given["temp"].isna().tolist()
    known = given["temp"].notna()
    assert made.values["temp"][known].tolist() == given["temp"][known].tolist()
    assert set(made.values["temp"]) <= set(given["temp"][known])
    assert given["temp"].isna().any()


def test_rows_measured_where_the_field_does_not_exist_stay_as_they_are() -> None:
    given = long_table().assign(sea=np.arange(80) > 9)
    made = complete(given, "nearest", coordinates=["x", "y"], variable="temp", valid="sea")
    assert "lie where sea says that there is no field; they are not used, and stay as they are" in made.remarks[0]
    np.testing.assert_array_equal(made.values["temp"][:10], given["temp"][:10])
    np.testing.assert_array_equal(made.values["observed"], given["temp"].notna())
    assert made.values["temp"][10:].notna().all()


def test_a_long_table_is_completed_at_points() -> None:
    points = pd.DataFrame({"x": [0.2, 0.4], "y": [0.1, 0.9]})
    made = complete(long_table().dropna(), "kriging", coordinates=["x", "y"], variable="temp", points=points)
    np.testing.assert_allclose(made.values["temp"], 1 + points["x"], atol=0.1)
    assert made.deviation.tolist() == made.values["temp_std"].tolist()
    assert made.filled.tolist() == [True, True]


@pytest.mark.parametrize(
    ("data", "how", "message"),
    [
        ([1.0, np.nan], {}, "builtins.list has no gaps to fill; give a numpy array"),
        (TRUTH, {}, "data has no gap to fill"),
        (GAPPY, {"coordinates": ["x"]}, "are for tables; leave them out"),
        (GAPPY, {"axes": [fieldbench.Axis.regular("x", 3)]}, r"the axes have \[3\] positions, the data \[12, 10\]"),
        (GAPPY, {"valid": np.ones(3)}, r"valid has shape \(3,\), which does not fit"),
        (pd.DataFrame({"x": [1.0]}), {}, "name the columns that say where a row is"),
    ],
)
def test_a_wrong_request_is_one_clear_line(data: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(fieldbench.RequestError, match=message):
        complete(data, **how)


def test_one_text_or_number_stands_for_a_list_of_one() -> None:
    coded = np.where(HIDDEN, -999.0, TRUTH)
    one, several = complete(coded, missing=-999, max_gap="12"), complete(coded, missing=[-999], max_gap=["12"])
    np.testing.assert_array_equal(one.values, several.values)
    np.testing.assert_array_equal(complete(coded, missing=-999, max_gap=2).filled, one.filled)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"within": 5}, "within 5: give two numbers"),
        ({"within": (-5, -1), "positive": True}, "within -5 -1 holds no value above zero"),
    ],
)
def test_limits_that_are_none(how: dict[str, Any], said: str) -> None:
    with pytest.raises(fieldbench.FieldbenchError, match=said):
        complete(GAPPY, **how)


@pytest.mark.parametrize("scale", [1e-300, 1e-160])
def test_values_whose_squares_no_number_holds_are_refused(scale: float) -> None:
    with pytest.raises(fieldbench.FieldbenchError, match="whose squared errors no number holds"):
        fieldbench.complete(scale * GAPPY, candidates=["zero", "plane"], budget=5, sources=SOURCES, device="cpu")


def test_a_table_with_columns_of_our_names() -> None:
    x, y = (part.ravel() for part in np.indices(TRUTH.shape))
    frame = pd.DataFrame({"x": x, "y": y, "observed_temp": GAPPY.ravel(), "observed": 1, "observed_temp_std": 2})
    made = complete(frame, variable="observed_temp", coordinates=("x", "y"))
    np.testing.assert_allclose(made.values["observed_temp"], TRUTH.ravel())
    np.testing.assert_array_equal(made.filled, HIDDEN.ravel())
    points = pd.DataFrame({"x": [0.5, 1.0], "y": [0.5, 2.0], "observed": [7, 8]})
    at = complete(frame.sample(60, random_state=0), variable="observed_temp", coordinates=("x", "y"), points=points)
    assert at.values["observed"].tolist() == [7, 8]
    assert len(at.filled) == len(at.deviation) == 2


def test_a_mask_of_a_table_is_one_of_its_columns() -> None:
    frame = pd.DataFrame({"x": [0, 1, 2], "y": [0, 1, 2], "t": [1.0, np.nan, 2]})
    for wrong in ("QC", np.ones(3, dtype=bool)):
        with pytest.raises(fieldbench.FieldbenchError, match=r"the column .* is not there"):
            complete(frame, variable="t", coordinates=("x", "y"), mask=wrong)


def test_numbers_that_a_file_had_packed_are_not_packed_again(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    how = {"dtype": "u1", "scale_factor": 0.1, "add_offset": 0.0, "_FillValue": 255}
    xarray.Dataset({"t": (("y", "x"), GAPPY)}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"t": how})
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as data:
        made = complete(data["t"].load())
    for part in (made.values, made.deviation, made.filled):
        part.to_netcdf(tmp_path / "out.nc", engine="h5netcdf")
        with xarray.open_dataarray(tmp_path / "out.nc", engine="h5netcdf") as again:
            np.testing.assert_array_equal(again.values, part.values)


def test_a_mask_with_a_dimension_of_its_own_is_refused() -> None:
    xarray = pytest.importorskip("xarray")
    data = xarray.DataArray(GAPPY, dims=("y", "x"))
    with pytest.raises(fieldbench.FieldbenchError, match="a mask has the dimension 'z', which the data has not"):
        complete(data, valid=xarray.DataArray(np.ones((12, 10, 2)), dims=("y", "x", "z")))
