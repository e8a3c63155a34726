"""HDF5: datasets by path, dimension scales as coordinates, everything else kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldbench.files import Completion, Selector, read, write

h5py = pytest.importorskip("h5py")


@pytest.fixture
def file(tmp_path: Path, ocean: Any) -> Path:
    path = tmp_path / "ocean.h5"
    with h5py.File(path, "w") as data:
        item = data.create_dataset("model/temp", data=np.where(np.isnan(ocean.values), -999.0, ocean.values))
        item.attrs.update({"units": "degC", "_FillValue": -999.0})
        for index, name in enumerate(("depth", "lat", "lon")):
            scale = data.create_dataset(name, data=getattr(ocean, name))
            scale.make_scale(name)
            scale.attrs["units"] = "m" if name == "depth" else "degrees"
            item.dims[index].attach_scale(scale)
        data.create_dataset("model/counts", data=np.arange(6).reshape(2, 3))
        data.create_dataset("sea", data=ocean.valid[0])
        data.attrs["title"] = "an example"
    return path


def test_a_dataset_is_found_by_its_path_with_its_scales(file: Path, ocean: Any) -> None:
    gridded = read(file, Selector(valid="sea"))
    assert gridded.name == "model/temp"
    np.testing.assert_array_equal(gridded.values, ocean.values)
    np.testing.assert_array_equal(gridded.valid, ocean.valid)
    assert [(axis.name, axis.unit) for axis in gridded.axes] == [("depth", "m"), ("lat", "degrees"), ("lon", "degrees")]
    assert gridded.axes[0].coordinates.tolist() == [0, 10, 30]
    assert gridded.variable.unit == "degC"


def test_written_back_everything_else_is_as_it_was(file: Path, ocean: Any) -> None:
    gridded = read(file, Selector(valid="sea"))
    target = file.with_name("out.h5")
    completed = np.where(ocean.valid, np.nan_to_num(gridded.values, nan=7), np.nan)
    write(file, target, Completion(gridded, completed, np.ones((3, 4, 5)), {"method": "tnn", "estimated_rmse": 0.5}))
    with h5py.File(target) as after, h5py.File(file) as before:
        np.testing.assert_array_equal(after["model/temp"][()], np.where(ocean.valid, completed, -999.0))
        assert after["model/temp"].dims[0][0][()].tolist() == [0, 10, 30]
        assert dict(after["model/temp"].attrs)["units"] == "degC"
        assert after["model/temp"].attrs["fieldbench_method"] == "tnn"
        assert (after["model/temp_std"][()] == 1).all()
        assert after.attrs["title"] == "an example"
        for name in ("model/counts", "sea", "lat"):
            np.testing.assert_array_equal(after[name][()], before[name][()])
    np.testing.assert_array_equal(read(target, Selector(variable="model/temp")).values, completed)


def test_an_integer_dataset_becomes_one_of_floats(file: Path) -> None:
    gridded = read(file, Selector(variable="model/counts"))
    target = file.with_name("out.h5")
    write(file, target, Completion(gridded, gridded.values + 0.5, None, {"method": "tnn"}))
    with h5py.File(target) as after:
        np.testing.assert_array_equal(after["model/counts"][()], np.arange(6).reshape(2, 3) + 0.5)
        assert after["model/counts"].attrs["fieldbench_method"] == "tnn"


@pytest.mark.parametrize(
    ("dtype", "packing", "factor"),
    [("i2", {}, 1.0), ("i4", {"scale_factor": 0.5}, 0.5), ("f4", {"scale_factor": 0.5}, 0.5), ("f8", {}, 1.0)],
)
def test_what_is_missing_stays_missing_in_every_type(
    tmp_path: Path, dtype: str, packing: dict[str, float], factor: float
) -> None:
    """The times that are not completed hold the fill value; so they do not become measurements.

    What was measured on land stays.
    """
    stored = np.full((2, 3, 4), 10, dtype=dtype)
    stored[0, 1, 2] = stored[1] = -999
    land = np.zeros((3, 4), dtype=bool)
    land[0] = True
    source, target = tmp_path / "in.h5", tmp_path / "out.h5"
    with h5py.File(source, "w") as data:
        item = data.create_dataset("t", data=stored, chunks=(1, 3, 4), maxshape=(None, 3, 4), compression="gzip")
        item.attrs.update({"_FillValue": np.array([-999], dtype=dtype), **packing})
        data["sea"] = ~land
        data["t_std"] = np.full(3, 0.125)
    gridded = read(source, Selector(variable="t", valid="sea", at=("x=0",)))
    assert np.argwhere(gridded.missing).tolist() == [[1, 2]]
    assert gridded.remarks == (
        "4 measured values of t lie where sea says that there is no field; they are not used, and stay as they are",
    )
    assert (gridded.values[1, 1], gridded.values[1, 3]) == (10 * factor, 10 * factor)
    completed = np.where(land, np.nan, np.nan_to_num(gridded.values, nan=7.5))
    write(source, target, Completion(gridded, completed, np.full((3, 4), 2.0)))
    expected = np.stack([np.where(land, 10 * factor, completed), np.full((3, 4), np.nan)])
    np.testing.assert_array_equal(read(target, Selector(variable="t")).values, expected)
    with h5py.File(target) as data:
        assert data["t"].dtype.kind == "f"
        assert (data["t"].compression, data["t"].maxshape) == ("gzip", (None, 3, 4))
        assert (data["t_std"][()] == 0.125).all()
        assert (data["t_std_2"][0] == 2).all()
