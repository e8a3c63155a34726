"""Every kind of NetCDF that people have: unwritten entries, filters, groups, CDF-5, curvilinear grids, and Zarr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldbench.errors import RequestError
from fieldbench.files import Completion, Selector, read, write

xarray = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
pytest.importorskip("h5netcdf")

PLAIN = {"_FillValue": None}


def complete(file: Path, selector: Selector | None = None, number: float = 7.0) -> tuple[Path, np.ndarray]:
    gridded = read(file, selector)
    made = np.nan_to_num(gridded.values, nan=number)
    target = file.with_name(f"out{file.suffix}")
    write(file, target, Completion(gridded, made, np.full(made.shape, 0.5), {"method": "tnn"}))
    return target, made


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
@pytest.mark.parametrize(
    ("dtype", "unwritten"),
    [("f4", 9.969209968386869e36), ("f8", 9.969209968386869e36), ("i2", -32767), ("i4", -(2**31) + 1)],
)
def test_entries_that_were_never_written_are_missing(tmp_path: Path, engine: str, dtype: str, unwritten: float) -> None:
    file = tmp_path / "a.nc"
    values = np.arange(12.0).reshape(3, 4)
    values[1, 1:] = unwritten
    data = xarray.Dataset({"t": (("y", "x"), values.astype(dtype), {}, PLAIN)})
    data.to_netcdf(file, engine=engine, format="NETCDF3_64BIT" if engine == "scipy" else None)
    assert np.argwhere(np.isnan(read(file).values)).tolist() == [[1, 1], [1, 2], [1, 3]]
    gridded = read(file, Selector(at=("y=0",)))
    target = tmp_path / "out.nc"
    write(file, target, Completion(gridded, gridded.values))
    with xarray.open_dataset(target, engine=engine) as other:  # what is still missing is said to be
        assert np.argwhere(np.isnan(other["t"].values)).tolist() == [[1, 1], [1, 2], [1, 3]]


def test_a_file_that_the_netcdf_library_left_unwritten(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    # In a process of its own: HDF5 of two libraries in one process may not get on.
    writing = """
import sys, netCDF4
with netCDF4.Dataset(sys.argv[1], "w") as data:
    data.createDimension("x", 4)
    data.createVariable("t", "f4", ("x",))[:2] = [1.0, 2.0]
"""
    subprocess.run([sys.executable, "-c", writing, str(tmp_path / "a.nc")], check=True)
    np.testing.assert_array_equal(read(tmp_path / "a.nc").values, [1, 2, np.nan, np.nan])


def test_cdf5_is_read_and_written(tmp_path: Path) -> None:
    netcdf4 = pytest.importorskip("netCDF4")
    with netcdf4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_64BIT_DATA") as data:
        data.createDimension("x", 4)
        variable = data.createVariable("t", "f4", ("x",), fill_value=-1.0)
        variable.units = "K"
        variable[:] = [1.0, -1.0, 3.0, 4.0]
        data.createVariable("many", "i8", ("x",))[:] = 2**40
    target, made = complete(tmp_path / "a.nc", Selector(variable="t"))
    assert target.read_bytes()[:4] == b"CDF\x05"
    with netcdf4.Dataset(target) as data:
        assert data["t"][:].tolist() == made.tolist() == [1, 7, 3, 4]
        assert data["t"].units == "K"
        assert (data["many"][:] == 2**40).all()
        assert data["t"].ancillary_variables == "t_std t_filled"


@pytest.mark.parametrize("filters", ["zstd", "gzip", "scaleoffset"])
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_filters_are_undone_and_kept(tmp_path: Path, filters: str, dtype: str) -> None:
    """Filters made for whole numbers of some bits (scale-offset) do not go on to the floats that replace them."""
    options: dict[str, Any] = {"gzip": {"compression": "gzip", "shuffle": True}, "scaleoffset": {"scaleoffset": 4}}.get(
        filters, {}
    )
    if filters == "zstd":
        options = dict(pytest.importorskip("hdf5plugin").Zstd(clevel=3))
    if filters == "scaleoffset" and dtype == "i2":
        options = {"scaleoffset": 0}
    values = np.arange(64).reshape(8, 8).astype(dtype)
    values[2, 3] = -1
    with h5py.File(tmp_path / "a.nc", "w") as data:
        item = data.create_dataset("t", data=values, chunks=(4, 4), fletcher32=filters != "scaleoffset", **options)
        item.attrs["_FillValue"] = values[2, 3]
        item.attrs["scale_factor"] = 0.5
        for index, name in enumerate("yx"):
            data[name] = np.arange(8.0)
            data[name].make_scale(name)
            item.dims[index].attach_scale(data[name])
    gridded = read(tmp_path / "a.nc")
    assert np.argwhere(np.isnan(gridded.values)).tolist() == [[2, 3]]
    target, made = complete(tmp_path / "a.nc", number=1 / 3)
    np.testing.assert_allclose(read(target, Selector(variable="t")).values, made, rtol=1e-7)
    with h5py.File(tmp_path / "a.nc") as before, h5py.File(target) as after:
        assert after["t"].chunks == after["t_std"].chunks == (4, 4)
        kinds = [
            {plan.get_filter(index)[0] for index in range(plan.get_nfilters())}
            for plan in (item.id.get_create_plist() for item in (before["t"], after["t"], after["t_std"]))
        ]
        assert kinds[1] == kinds[2] == kinds[0] - {6}


def test_a_variable_in_a_group_sees_the_coordinates_around_it(tmp_path: Path) -> None:
    file = tmp_path / "a.nc"
    xarray.Dataset(coords={"lat": ("lat", [10.0, 20.0, 30.0], {"units": "degrees_north"})}).to_netcdf(
        file, engine="h5netcdf"
    )
    with h5py.File(file, "r+") as data:
        item = data.create_dataset("model/t", data=np.array([[1.0, np.nan], [3, 4], [5, 6]]))
        item.attrs["units"] = "K"
        data["model/depth"] = [0.0, 50.0]
        data["model/depth"].make_scale("depth")
        item.dims[0].attach_scale(data["lat"])
        item.dims[1].attach_scale(data["model/depth"])
        data["model/good"] = np.array([[1, 1], [0, 1], [1, 1]], dtype="i4")
        for index in range(2):
            data["model/good"].dims[index].attach_scale(item.dims[index][0])
    for name in (None, "model/t"):
        gridded = read(file, Selector(variable=name, mask="good"))
        assert gridded.name == "model/t"
        assert [axis.coordinates.tolist() for axis in gridded.axes] == [[10, 20, 30], [0, 50]]
        assert int(np.isnan(gridded.values).sum()) == 2
    target, made = complete(file, Selector(variable="model/t"))
    with xarray.open_dataset(target, engine="h5netcdf", group="model") as group:
        np.testing.assert_array_equal(group["t"].values, made)
        assert set(group.data_vars) == {"t", "good", "t_std", "t_filled"}
        assert group["t"].attrs["ancillary_variables"] == "t_std t_filled"
    with pytest.raises(RequestError, match="no variable 'model/tt'; did you mean 'model/t'"):
        read(file, Selector(variable="model/tt"))


def curvilinear(rotated: bool) -> Any:
    eta, xi = np.meshgrid(np.arange(4), np.arange(6), indexing="ij")
    lat, lon = 45 + 0.01 * eta, 5 + 0.02 * xi + 0.001 * eta
    data = xarray.Dataset(
        {"t": (("eta", "xi"), np.where(eta == xi, np.nan, 1.0 * eta), {"coordinates": "latitude longitude"})},
        coords={
            "latitude": (("eta", "xi"), lat, {"units": "degrees_north"}),
            "longitude": (("eta", "xi"), lon, {"units": "degrees_east"}),
        },
    )
    if rotated:
        names = {"eta": "grid_latitude", "xi": "grid_longitude"}
        data = data.assign_coords(
            {key: (key, np.arange(data.sizes[key]), {"standard_name": name}) for key, name in names.items()}
        )
    return data


def test_a_curvilinear_grid_says_which_distance_is_used(tmp_path: Path) -> None:
    """A hundredth of a degree of latitude are 1.11 km, two of longitude at 45 degrees north 1.57 km."""
    curvilinear(False).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    gridded = read(tmp_path / "a.nc")
    assert [(axis.name, axis.unit) for axis in gridded.axes] == [("eta", "km"), ("xi", "km")]
    assert gridded.axes[0].spacing == pytest.approx(1.115, abs=0.005)
    assert gridded.axes[1].spacing == pytest.approx(1.572, abs=0.005)
    assert gridded.remarks == (
        "latitude and longitude are two-dimensional; distances are measured in steps of the grid, on average "
        "1.11 km along eta and 1.57 km along xi",
    )


def test_a_rotated_pole_says_which_distance_is_used(tmp_path: Path) -> None:
    curvilinear(True).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    gridded = read(tmp_path / "a.nc")
    assert gridded.axes[1].coordinates.tolist() == [0, 1, 2, 3, 4, 5]
    assert gridded.remarks == (
        "latitude and longitude are two-dimensional; distances are measured along eta and xi, in their own units",
    )


def must_write_zarr(version: int) -> None:
    zarr = pytest.importorskip("zarr")
    if int(zarr.__version__.partition(".")[0]) < version:
        pytest.skip("this zarr does not write it")


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_is_read_and_written(tmp_path: Path, ocean: Any, version: int) -> None:
    must_write_zarr(version)
    source, target = tmp_path / "a.zarr", tmp_path / "out.zarr"
    data = xarray.Dataset(
        {"t": (("z", "y", "x"), ocean.values, {"units": "K"}), "n": (("x",), np.arange(5))},
        coords={"z": ("z", ocean.depth, {"units": "m"})},
        attrs={"title": "an example"},
    )
    data["t"].encoding = {
        "dtype": "i2",
        "scale_factor": 0.001,
        "add_offset": 15.0,
        "_FillValue": -32768,
        "chunks": (1, 4, 5),
    }
    data.to_zarr(source, zarr_format=version, consolidated=version == 2)
    gridded = read(source, Selector(variable="t"))
    np.testing.assert_allclose(gridded.values, ocean.values, atol=0.0005)
    assert gridded.axes[0].coordinates.tolist() == [0, 10, 30]
    made = np.nan_to_num(gridded.values, nan=40.0)
    for overwrite in (False, True):
        written = write(source, target, Completion(gridded, made, made + 1, {"method": "tnn"}), overwrite=overwrite)
        assert written == [target]
    with pytest.raises(RequestError, match="exists; use --force"):
        write(source, target, Completion(gridded, made))
    with xarray.open_zarr(target) as after:
        np.testing.assert_allclose(after["t"].values, made, rtol=1e-6)
        np.testing.assert_allclose(after["t_std"].values, made + 1, rtol=1e-6)
        assert after["t"].attrs["fieldbench_method"] == "tnn"
        assert after.attrs["title"] == "an example"
        assert "gaps filled in t by tnn" in after.attrs["history"]
        assert after["n"].values.tolist() == [0, 1, 2, 3, 4]
    assert (target / "zarr.json").exists() == (version == 3)
    assert (source / ".zmetadata").exists() == (target / ".zmetadata").exists() == (version == 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "out.zarr"]


@pytest.mark.parametrize("version", [2, 3])
def test_groups_of_zarr_are_kept(tmp_path: Path, ocean: Any, version: int) -> None:
    must_write_zarr(version)
    source, target = tmp_path / "a.zarr", tmp_path / "out.zarr"
    options = {"zarr_format": version, "consolidated": False}
    xarray.Dataset({"n": (("k",), np.arange(5))}, coords={"z": ("z", ocean.depth)}).to_zarr(source, **options)
    model = xarray.Dataset({"t": (("z", "y", "x"), ocean.values), "s": (("y",), np.arange(4.0))})
    model.to_zarr(source, group="model", mode="a", **options)
    gridded = read(source, Selector(variable="model/t"))
    assert gridded.axes[0].coordinates.tolist() == [0, 10, 30]
    made = np.nan_to_num(gridded.values, nan=7.0)
    write(source, target, Completion(gridded, made, made + 1))
    with xarray.open_zarr(target, group="model", consolidated=False) as after:
        np.testing.assert_array_equal(after["t"].values, made)
        np.testing.assert_array_equal(after["t_std"].values, made + 1)
        assert after["s"].values.tolist() == [0, 1, 2, 3]
    with xarray.open_zarr(target, consolidated=False) as root:
        assert root["n"].values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
def test_what_is_still_missing_keeps_its_number(tmp_path: Path, engine: str) -> None:
    file, values = tmp_path / "a.nc", np.arange(24, dtype="f4").reshape(2, 3, 4)
    values[:, 0, :3] = [[-999, -1, 500], [-1, 500, -999]]  # a cloud, land, and beyond what is valid
    about = {"missing_value": np.float32(-1), "valid_max": np.float32(100)}
    data = xarray.Dataset({"t": (("time", "y", "x"), values, about, {"_FillValue": np.float32(-999)})})
    data.to_netcdf(file, engine=engine, format="NETCDF3_64BIT" if engine == "scipy" else None)
    gridded = read(file, Selector(at=("time=0",)))
    made = gridded.values.copy()
    made[0, 0] = 7
    write(file, tmp_path / "out.nc", Completion(gridded, made))
    with xarray.open_dataset(tmp_path / "out.nc", engine=engine, mask_and_scale=False) as other:
        values[0, 0, 0] = 7
        np.testing.assert_array_equal(other["t"].values, values)


def test_what_is_beyond_a_range_that_goes_does_not_become_a_value(tmp_path: Path) -> None:
    values = np.array([1, 500, np.nan, 3], dtype="f4")
    data = xarray.Dataset({"t": ("x", values, {"valid_max": np.float32(5)}, PLAIN)})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    gridded = read(tmp_path / "a.nc")
    write(tmp_path / "a.nc", tmp_path / "out.nc", Completion(gridded, np.where([0, 0, 1, 0], 6.0, gridded.values)))
    np.testing.assert_array_equal(read(tmp_path / "out.nc", Selector("t")).values, [1, np.nan, 6, 3])


def test_whole_numbers_of_more_than_53_bits_are_kept(tmp_path: Path) -> None:
    values = np.array([2**53 + 1, -1, 2**62 + 3, 5])
    data = xarray.Dataset({"t": ("x", values, {"_FillValue": -1})})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    target, _ = complete(tmp_path / "a.nc")
    with xarray.open_dataset(target, engine="h5netcdf", mask_and_scale=False) as other:
        assert other["t"].values.tolist() == [2**53 + 1, 7, 2**62 + 3, 5]


def test_packed_numbers_that_single_precision_cannot_tell_apart_become_double(tmp_path: Path) -> None:
    about = {"scale_factor": 0.01, "add_offset": 1e6, "_FillValue": np.int16(-1)}
    data = xarray.Dataset({"t": ("x", np.array([1, 2, -1, 4], dtype="i2"), about)})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    target, _ = complete(tmp_path / "a.nc")
    with xarray.open_dataset(target, engine="h5netcdf") as other:
        np.testing.assert_allclose(other["t"].values, [1e6 + 0.01, 1e6 + 0.02, 7, 1e6 + 0.04], rtol=1e-12)


def test_one_odd_variable_leaves_the_others_readable(tmp_path: Path) -> None:
    field = np.array([[1, np.nan], [3, 4]], dtype="f4")
    xarray.Dataset({"t": (("y", "x"), field)}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with h5py.File(tmp_path / "a.nc", "r+") as data:
        ragged = data.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("i4"), fillvalue=None)
        ragged[0] = [1, 2, 3]
        ragged.attrs["_FillValue"] = np.zeros(0, dtype="i4")
        ragged.dims[0].attach_scale(data["y"]) if "y" in data else None
    target, _ = complete(tmp_path / "a.nc", Selector("t"))
    with h5py.File(target) as data:
        assert data["ragged"][0].tolist() == [1, 2, 3]


def test_a_dimension_that_stands_twice_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    writing = """
import sys, netCDF4
with netCDF4.Dataset(sys.argv[1], "w") as data:
    data.createDimension("x", 3)
    data.createVariable("t", "f4", ("x", "x"))[:] = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
"""
    subprocess.run([sys.executable, "-c", writing, str(tmp_path / "a.nc")], check=True)
    with pytest.raises(RequestError, match="t has the dimension 'x' twice"):
        read(tmp_path / "a.nc")


def test_coordinates_of_other_names_along_a_dimension(tmp_path: Path) -> None:
    field = np.array([[1, np.nan, 3], [4, 5, 6]], dtype="f4")
    coordinates = {
        "lat": ("y", [40.0, 41.5], {"units": "degrees_north"}),
        "lon": ("x", [0.0, 0.5, 2.0], {"units": "degrees_east"}),
    }
    data = xarray.Dataset({"t": (("y", "x"), field, {"coordinates": "lat lon"})})
    for name, (dimension, values, about) in coordinates.items():
        data[name] = (dimension, values, about)
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    y, x = read(tmp_path / "a.nc", Selector("t")).axes
    assert (y.name, y.unit, y.coordinates.tolist()) == ("y", "degrees_north", [40, 41.5])
    assert (x.name, x.unit, x.coordinates.tolist()) == ("x", "degrees_east", [0, 0.5, 2])


def test_points_along_a_dimension_are_no_grid(tmp_path: Path) -> None:
    data = xarray.Dataset({"t": ("obs", np.array([1, np.nan, 3.0]), {"coordinates": "lat lon"})})
    for name in ("lat", "lon"):
        data[name] = ("obs", np.array([1.0, 5.0, 2.0]))
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    gridded = read(tmp_path / "a.nc", Selector("t"))
    assert any("lat and lon lie along obs, which is no grid" in line for line in gridded.remarks)


def test_an_attribute_of_several_texts_stays_readable(tmp_path: Path) -> None:
    data = xarray.Dataset({"t": ("x", np.array([1, np.nan, 3.0]))}, attrs={"history": ["first", "second"]})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    target, _ = complete(tmp_path / "a.nc")
    with xarray.open_dataset(target, engine="h5netcdf") as other:
        assert other.attrs["history"].splitlines()[1:] == ["first", "second"]


def test_both_ends_of_the_circle_are_one_position(tmp_path: Path) -> None:
    field = np.arange(26, dtype="f4").reshape(2, 13)
    field[0, 0] = field[1, -1] = np.nan
    lon = ("lon", np.linspace(0, 360, 13), {"units": "degrees_east"})
    xarray.Dataset({"t": (("y", "lon"), field)}, {"lon": lon}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    gridded = read(tmp_path / "a.nc", Selector("t"))
    np.testing.assert_array_equal(gridded.values[:, 0], gridded.values[:, -1])
    assert gridded.values[:, 0].tolist() == [12, 13]
    assert any("lon 0 and 360 are one position: 2 values" in line for line in gridded.remarks)
