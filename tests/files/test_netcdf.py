"""NetCDF by the CF conventions, read and written, against xarray's own decoding."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import netcdf_file

from fieldbench.errors import RequestError
from fieldbench.files import Completion, Selector, read, write

xarray = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
pytest.importorskip("h5netcdf")

ENGINES = {"h5netcdf": None, "scipy": "NETCDF3_64BIT"}
NO_FILL = {"_FillValue": None}


def dataset(ocean: Any) -> Any:
    packed = {"dtype": "i2", "scale_factor": 0.001, "add_offset": 15.0, "_FillValue": -32768}
    data = xarray.Dataset(
        {
            "temp": (
                ("time", "depth", "lat", "lon"),
                ocean.values[np.newaxis],
                {"units": "degree_Celsius", "standard_name": "sea_water_temperature", "cell_methods": "time: mean"},
                packed,
            ),
            "salt": (("depth", "lat", "lon"), np.where(ocean.valid, 34.5, np.nan), {"units": "1e-3"}),
            "mask_rho": (("lat", "lon"), ocean.valid[0].astype("i4"), {"long_name": "1 is water"}),
            "station": (("lat",), np.array([b"BRUN", b"KIEL", b"SYLT", b"RIGA"])),
            "grade": (("lat", "digit"), np.array([[b"a", b"b"]] * 4)),
            "temp_std": (("lat",), np.full(4, 0.125), {"long_name": "error of the instrument"}, NO_FILL),
        },
        coords={
            "time": ("time", [12.5], {"units": "days since 2020-01-01", "calendar": "standard"}),
            "depth": ("depth", ocean.depth, {"units": "m", "positive": "down"}),
            "lat": ("lat", ocean.lat, {"units": "degrees_north"}),
            "lon": ("lon", ocean.lon, {"units": "degrees_east"}),
        },
        attrs={"title": "an example", "Conventions": "CF-1.8", "history": "2020-01-01 made"},
    )
    for name in ("time", "depth", "lat", "lon"):
        data[name].encoding["_FillValue"] = None  # xarray would add one
    return data


@pytest.fixture(params=ENGINES)
def file(request: pytest.FixtureRequest, tmp_path: Path, ocean: Any) -> Path:
    path = tmp_path / f"{request.param}.nc"
    dataset(ocean).to_netcdf(path, engine=request.param, format=ENGINES[request.param])
    return path


SELECTOR = Selector(variable="temp", valid="mask_rho")


def test_packed_values_fill_values_and_coordinates_are_decoded(file: Path, ocean: Any) -> None:
    gridded = read(file, SELECTOR)
    np.testing.assert_allclose(gridded.values, ocean.values, atol=0.0005)
    np.testing.assert_array_equal(np.isnan(gridded.values), np.isnan(ocean.values))
    np.testing.assert_array_equal(gridded.valid, ocean.valid)
    assert [(axis.name, axis.unit) for axis in gridded.axes] == [
        ("depth", "m"),
        ("lat", "degrees_north"),
        ("lon", "degrees_east"),
    ]
    assert gridded.axes[2].coordinates.tolist() == ocean.lon.tolist()
    assert (gridded.variable.unit, gridded.quantity) == ("degree_Celsius", "sea_water_temperature")


def test_the_variable_of_most_dimensions_is_the_field(file: Path) -> None:
    assert read(file).name == "temp"


def test_decoding_agrees_with_xarray(file: Path) -> None:
    with xarray.open_dataset(file, engine=file.stem) as decoded:
        for name in ("temp", "salt"):
            np.testing.assert_allclose(read(file, Selector(variable=name)).values, decoded[name].squeeze().values)


def test_written_back_everything_else_is_as_it_was(file: Path, ocean: Any) -> None:
    gridded = read(file, SELECTOR)
    target = file.with_name("out.nc")
    completed = np.where(ocean.valid, np.where(np.isnan(gridded.values), 40.0, gridded.values), np.nan)
    deviation = np.where(ocean.valid, 0.5, np.nan)
    note = {"method": "thin-plate", "estimated_rmse": 0.25}
    write(file, target, Completion(gridded, completed, deviation, note))
    # The instrument's error keeps its name.
    assert _stored_names(target) - _stored_names(file) == {"temp_std_2", "temp_filled"}
    with xarray.open_dataset(file, engine=file.stem) as before, xarray.open_dataset(target, engine=file.stem) as after:
        np.testing.assert_allclose(after["temp"].values[0], completed, rtol=1e-6)  # 40 would not fit the packing
        np.testing.assert_allclose(after["temp_std_2"].values[0], deviation)
        assert after["temp"].dims == before["temp"].dims
        assert after["temp"].attrs == {
            **before["temp"].attrs,
            "ancillary_variables": "temp_std_2 temp_filled",
            "fieldbench_method": "thin-plate",
            "fieldbench_estimated_rmse": 0.25,
        }
        assert after["temp_std_2"].dims == before["temp"].dims
        assert after["temp_std_2"].attrs["units"] == "degree_Celsius"
        assert after["temp_std_2"].attrs["standard_name"] == "sea_water_temperature standard_error"
        assert after["temp_filled"].attrs["standard_name"] == "sea_water_temperature status_flag"
        assert after["temp_filled"].attrs["flag_meanings"] == "as_it_was filled"
        np.testing.assert_array_equal(after["temp_filled"].values[0], np.isnan(ocean.values) & ocean.valid)
        newest, _, older = after.attrs.pop("history").partition("\n")
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ fieldbench .* complete: gaps filled in temp by thin-plate", newest
        )
        assert older == before.attrs.pop("history")
        added = ["temp", "temp_std_2", "temp_filled"]
        xarray.testing.assert_identical(before.drop_vars("temp"), after.drop_vars(added))
    raw = [xarray.open_dataset(path, engine=file.stem, decode_cf=False) for path in (file, target)]
    assert raw[1].sizes == raw[0].sizes
    for name in ("salt", "mask_rho", "station", "grade", "lat", "lon", "depth", "time"):
        before, after = (data[name] for data in raw)
        assert after.dtype == before.dtype
        assert after.dims == before.dims
        assert {**after.attrs, "_FillValue": None} == {**before.attrs, "_FillValue": None}
        assert ("_FillValue" in after.attrs) == ("_FillValue" in before.attrs) == (name == "salt")
    for data in raw:
        data.close()
    np.testing.assert_allclose(read(target, SELECTOR).values, completed, rtol=1e-6)


def _stored_names(file: Path) -> set[str]:
    """Of the variables, by h5py or scipy itself."""
    if file.read_bytes()[:3] == b"CDF":
        with netcdf_file(file, mmap=False) as data:
            return set(data.variables)
    with h5py.File(file) as data:
        return set(data)


def test_groups_compression_and_unlimited_dimensions_are_kept(tmp_path: Path, ocean: Any) -> None:
    source, target = tmp_path / "in.nc", tmp_path / "out.nc"
    encoding = {"dtype": "i2", "scale_factor": 0.001, "add_offset": 15.0, "_FillValue": -32768, "zlib": True}
    data = xarray.Dataset({"t": (("time", "y", "x"), ocean.values, {}, encoding)})
    data.to_netcdf(source, engine="h5netcdf", unlimited_dims=["time"])
    flags = xarray.Dataset({"flag": (("z",), np.arange(3, dtype="i1"), {"flag_meanings": "good odd bad"})})
    flags.to_netcdf(source, engine="h5netcdf", group="quality", mode="a")
    gridded = read(source)
    completed = np.where(ocean.valid, np.nan_to_num(gridded.values, nan=40.0), np.nan)
    write(source, target, Completion(gridded, completed, np.full(completed.shape, 0.5)))
    with xarray.open_dataset(target, engine="h5netcdf", group="quality") as kept:
        xarray.testing.assert_identical(kept.load(), flags)
    with xarray.open_dataset(target, engine="h5netcdf") as made:
        np.testing.assert_allclose(made["t"].values, completed, rtol=1e-6)
        assert made.encoding["unlimited_dims"] == {"time"}
        assert made["t"].dims == made["t_std"].dims == ("time", "y", "x")
        assert made["t"].encoding["zlib"]
    with h5py.File(target) as stored:
        references = stored["time"].attrs["REFERENCE_LIST"]["dataset"]
        assert {stored[item].name for item in references} == {"/t", "/t_std", "/t_filled"}


def test_the_kind_of_netcdf_is_kept(file: Path) -> None:
    gridded = read(file, SELECTOR)
    target = file.with_name("out.nc")
    write(file, target, Completion(gridded, np.nan_to_num(gridded.values)))
    assert target.read_bytes()[:3] == file.read_bytes()[:3]


def test_a_fill_value_of_floats_is_kept(tmp_path: Path, ocean: Any) -> None:
    source, target = tmp_path / "in.nc", tmp_path / "out.nc"
    data = xarray.Dataset({"t": (("z", "y", "x"), ocean.values.astype("f4"))})
    data["t"].encoding = {"_FillValue": np.float32(1e20)}
    data.to_netcdf(source, engine="h5netcdf")
    gridded = read(source)
    assert np.isnan(gridded.values).sum() == np.isnan(ocean.values).sum()
    write(source, target, Completion(gridded, np.where(ocean.valid, np.nan_to_num(gridded.values), np.nan)))
    with xarray.open_dataset(target, engine="h5netcdf", decode_cf=False) as raw:
        assert raw["t"].dtype == np.float32
        assert raw["t"].attrs["_FillValue"] == np.float32(1e20)
        assert (raw["t"].values == np.float32(1e20)).sum() == (~ocean.valid).sum()


def test_values_outside_the_valid_range_are_missing(tmp_path: Path) -> None:
    values = np.array([[1.0, 2.0, 99.0], [-5.0, 3.0, 4.0]])
    attributes = {"valid_min": 0.0, "valid_max": 10.0, "missing_value": 4.0}
    xarray.Dataset({"t": (("y", "x"), values, attributes)}).to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    np.testing.assert_array_equal(read(tmp_path / "t.nc").values, [[1, 2, np.nan], [np.nan, 3, np.nan]])


FLOATS = np.array([[0.1, 0.2, 0.3], [-0.5, 0.4, 0.05]], dtype="f4")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("attributes", "missing"),
    [
        ({"missing_value": 0.2}, [[0, 1]]),
        ({"_FillValue": np.float32(0.2)}, [[0, 1]]),
        ({"valid_max": 0.4}, []),
        ({"valid_min": 0.1}, [[1, 0], [1, 2]]),
        ({"valid_range": np.array([0.05, 0.3])}, [[1, 0], [1, 1]]),
    ],
)
def test_attributes_in_double_precision_are_those_of_single_precision_numbers(
    tmp_path: Path, engine: str, attributes: dict[str, Any], missing: list[list[int]]
) -> None:
    """No single-precision number is 0.2, and the one nearest to 0.4 is larger; the limits count as valid (CF 2.5.1)."""
    file = tmp_path / "t.nc"
    data = xarray.Dataset({"t": (("y", "x"), FLOATS, attributes, {} if "_FillValue" in attributes else NO_FILL)})
    data.to_netcdf(file, engine=engine, format=ENGINES[engine])
    assert np.argwhere(np.isnan(read(file).values)).tolist() == missing


PACKED = {
    "unsigned bytes": (np.arange(250, 256, dtype="u1").view("i1"), {"_Unsigned": "true", "_FillValue": np.int8(-1)}),
    "signed bytes": (np.arange(-3, 3, dtype="i1").view("u1"), {"_Unsigned": "false", "_FillValue": np.uint8(255)}),
    "scaled floats": (np.array([20, 21, 22, 23, 24, np.nan], dtype="f4"), {}),
    "shorts": (np.arange(6, dtype="i2"), {"_FillValue": np.int16(5)}),
    "floats with a double offset": (np.arange(6, dtype="f4"), {"missing_value": np.float32(5)}),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stored", PACKED)
def test_packed_numbers_are_read_as_xarray_reads_them_and_written_back_unpacked(
    tmp_path: Path, engine: str, stored: str
) -> None:
    numbers, attributes = PACKED[stored]
    if engine == "scipy" and numbers.dtype.kind == "u":
        pytest.skip("NetCDF 3 has no unsigned bytes")
    source, target = tmp_path / "in.nc", tmp_path / "out.nc"
    attributes = {"scale_factor": 0.5, "add_offset": 3.25, **attributes}
    encoding = {} if "_FillValue" in attributes else NO_FILL
    data = xarray.Dataset({"t": (("y", "x"), numbers.reshape(2, 3), attributes, encoding)})
    data.to_netcdf(source, engine=engine, format=ENGINES[engine])
    gridded = read(source)
    with xarray.open_dataset(source, engine=engine) as decoded:
        np.testing.assert_allclose(gridded.values, decoded["t"].values)
    assert np.isnan(gridded.values).sum() == 1
    completed = np.nan_to_num(gridded.values, nan=-7.125)
    completed[0, 0] = np.nan
    write(source, target, Completion(gridded, completed))
    np.testing.assert_array_equal(read(target).values, completed)
    with xarray.open_dataset(target, engine=engine) as decoded:
        np.testing.assert_array_equal(decoded["t"].values, completed)


def test_one_time_of_several(tmp_path: Path, ocean: Any) -> None:
    source, target = tmp_path / "in.nc", tmp_path / "out.nc"
    both = np.stack([ocean.values, ocean.values + 1])
    xarray.Dataset({"t": (("time", "z", "y", "x"), both)}).to_netcdf(source, engine="h5netcdf")
    gridded = read(source, Selector(at=("time=1",)))
    np.testing.assert_array_equal(gridded.values, ocean.values + 1)
    write(source, target, Completion(gridded, np.nan_to_num(gridded.values)))
    with xarray.open_dataset(target, engine="h5netcdf") as after:
        np.testing.assert_array_equal(after["t"].values[0], ocean.values)
        np.testing.assert_array_equal(after["t"].values[1], np.nan_to_num(ocean.values + 1))


def test_coordinates_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    coordinates = {
        "station": ("station", np.array([b"BRUN", b"KIEL"])),
        "lon": ("lon", [1.0, 0.0, 1.0], {"units": "degrees_east"}),
    }
    for engine, kind in ENGINES.items():
        file = tmp_path / f"{engine}.nc"
        data = xarray.Dataset({"t": (("station", "lon", "z"), np.ones((2, 3, 4)))}, coords=coordinates)
        data.to_netcdf(file, engine=engine, format=kind)
        gridded = read(file)
        assert [(axis.name, axis.unit, len(axis)) for axis in gridded.axes] == [
            ("station", "", 2),
            ("lon", "", 3),
            ("z", "", 4),
        ]
        assert gridded.remarks == (
            "the coordinates 'station' are not numbers; positions along station are counted instead",
            "the coordinates 'lon' repeat 1 (positions 0 and 2); positions along lon are counted instead",
        )
    shutil.copyfile(tmp_path / "h5netcdf.nc", tmp_path / "t.h5")
    assert len(read(tmp_path / "t.h5").remarks) == 2  # z has only a name, which is nothing to remark


def test_coordinates_are_not_to_be_named(file: Path) -> None:
    with pytest.raises(RequestError, match="leave out coordinates"):
        read(file, Selector(variable="salt", coordinates=("depth", "lat", "lon")))


def test_a_mask_of_other_dimensions_is_refused(tmp_path: Path) -> None:
    data = xarray.Dataset({"t": (("y", "x"), np.ones((2, 3))), "m": (("z",), np.ones(2))})
    data.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with pytest.raises(RequestError, match="dimension 'z', which t has not"):
        read(tmp_path / "t.nc", Selector(variable="t", mask="m"))


def test_a_mask_of_transposed_dimensions_fits(tmp_path: Path) -> None:
    mask = np.array([[1, 0], [1, 1], [0, 1]])
    data = xarray.Dataset({"t": (("y", "x"), np.ones((2, 3))), "m": (("x", "y"), mask)})
    data.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    gridded = read(tmp_path / "t.nc", Selector(variable="t", mask="m"))
    np.testing.assert_array_equal(~np.isnan(gridded.values), mask.T == 1)


def test_several_variables_are_listed_with_their_dimensions(tmp_path: Path) -> None:
    data = xarray.Dataset({"t": (("y", "x"), np.ones((2, 3))), "s": (("y", "x"), np.ones((2, 3)))})
    data.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with pytest.raises(RequestError, match=r"t \(y 2, x 3\), s \(y 2, x 3\)"):
        read(tmp_path / "t.nc")


def test_what_describes_other_variables_is_no_field(tmp_path: Path) -> None:
    plane = (("y", "x"), np.ones((2, 3)))
    data = xarray.Dataset(
        {
            "t": (*plane, {"coordinates": "lat lon", "ancillary_variables": "t_error", "cell_measures": "area: area"}),
            "lat": plane,
            "lon": plane,
            "t_error": plane,
            "area": plane,
            "quality": (*plane, {"flag_meanings": "good bad"}),
            "x_bounds": (("x", "edge"), np.ones((3, 2))),
        },
        coords={"x": ("x", [0.0, 1.0, 2.0], {"bounds": "x_bounds"})},
    )
    data.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    assert read(tmp_path / "t.nc").name == "t"
    assert read(tmp_path / "t.nc", Selector(variable="t_error")).name == "t_error"


def test_a_file_of_classes_alone_has_them_as_its_field(tmp_path: Path) -> None:
    classes = np.array([[1, 2, -1], [2, 2, 1]], dtype="i4")
    cover = (("y", "x"), classes, {"_FillValue": np.int32(-1), "flag_values": np.array([1, 2], dtype="i4")})
    xarray.Dataset({"cover": cover}).to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    assert read(tmp_path / "t.nc").classes == (1, 2)
