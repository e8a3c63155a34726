""".npy, .npz and both kinds of .mat: read as they are, written back with all else kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io.matlab
import scipy.sparse
from scipy.io import loadmat, savemat, whosmat

from fieldbench.errors import RequestError
from fieldbench.files import Completion, Selector, read, write

h5py = pytest.importorskip("h5py")

NOTE = {"method": "thin-plate", "estimated_rmse": 0.25}


def complete(values: np.ndarray, number: float = 7.0) -> np.ndarray:
    return np.where(np.isnan(values), number, values)


def save_mat_73(file: Path, arrays: dict[str, Any]) -> None:
    """What MATLAB's `save -v7.3` writes: HDF5 after a block of 512 bytes, dimensions in reverse."""
    with h5py.File(file, "w", userblock_size=512) as data:
        for name, array in arrays.items():
            item = data.create_dataset(name, data=np.asarray(array).T)
            item.attrs["MATLAB_class"] = np.bytes_("double")
        text = data.create_dataset("comment", data=np.array([[104], [105]], dtype=np.uint16))
        text.attrs["MATLAB_class"] = np.bytes_("char")


def load_mat_73(file: Path, name: str) -> np.ndarray:
    with h5py.File(file) as data:
        return data[name][()].T


def save_npz(file: Path, arrays: dict[str, Any]) -> None:
    np.savez(file, **arrays)


SAVERS = {"npz": save_npz, "mat": savemat, "73.mat": save_mat_73}


@pytest.fixture(params=SAVERS)
def several(request: pytest.FixtureRequest, tmp_path: Path, ocean: Any) -> Path:
    """A file of several arrays in each of three formats."""
    file = tmp_path / f"ocean.{request.param}"
    arrays = {
        "temp": ocean.values,
        "sea": ocean.valid.astype(float),
        "depth": ocean.depth,
        "lat": ocean.lat,
        "lon": ocean.lon,
        "temp_std": np.array([0.125]),
    }
    SAVERS[request.param](file, arrays)
    return file


def load(file: Path, name: str) -> np.ndarray:
    if file.suffix == ".npz":
        return np.load(file)[name]
    return load_mat_73(file, name) if ".73." in file.name else loadmat(file)[name]


def test_npy_is_one_array_with_nan_where_missing(tmp_path: Path, ocean: Any) -> None:
    np.save(tmp_path / "t.npy", ocean.values)
    gridded = read(tmp_path / "t.npy")
    np.testing.assert_array_equal(gridded.values, ocean.values)
    assert gridded.valid.all()
    assert gridded.missing.sum() == np.isnan(ocean.values).sum()
    assert [axis.name for axis in gridded.axes] == ["x", "y", "z"]


def test_npy_with_masks_from_other_files(tmp_path: Path, ocean: Any) -> None:
    np.save(tmp_path / "t.npy", np.nan_to_num(ocean.values, nan=-9))
    np.save(tmp_path / "observed.npy", ~np.isnan(ocean.values))
    np.save(tmp_path / "sea.npy", ocean.valid[0])  # of the wrong dimensions: the last two
    selector = Selector(mask=str(tmp_path / "observed.npy"), valid=str(tmp_path / "sea.npy"))
    gridded = read(tmp_path / "t.npy", selector)
    np.testing.assert_array_equal(gridded.values, ocean.values)
    np.testing.assert_array_equal(gridded.valid, ocean.valid)
    assert np.argwhere(gridded.missing).tolist() == [[0, 3, 4], [1, 2, 3]]


def test_npy_is_written_with_notes_beside_it(tmp_path: Path, ocean: Any) -> None:
    source, target = tmp_path / "t.npy", tmp_path / "out.npy"
    np.save(source, ocean.values.astype(np.float32))
    gridded = read(source)
    deviation = np.full(gridded.values.shape, 0.5)
    files = write(source, target, Completion(gridded, complete(gridded.values), deviation, NOTE))
    names = ["out.npy", "out.npy.json", "out_std.npy", "out_filled.npy"]
    assert [file.name for file in files] == names
    written = np.load(target)
    assert written.dtype == np.float32
    np.testing.assert_array_equal(written, complete(ocean.values.astype(np.float32)))
    assert json.loads((tmp_path / "out.npy.json").read_text()) == NOTE
    assert (np.load(tmp_path / "out_std.npy") == 0.5).all()
    np.testing.assert_array_equal(np.load(tmp_path / "out_filled.npy"), np.isnan(ocean.values))
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*names, "t.npy"])


def test_the_array_of_most_dimensions_is_the_field(several: Path, ocean: Any) -> None:
    gridded = read(several, Selector(valid="sea", coordinates=("depth", "lat", "lon")))
    assert gridded.name == "temp"
    np.testing.assert_array_equal(gridded.values, ocean.values)
    np.testing.assert_array_equal(gridded.valid, ocean.valid)
    assert gridded.axes[0].coordinates.tolist() == [0, 10, 30]
    assert [axis.name for axis in gridded.axes] == ["depth", "lat", "lon"]


def test_several_such_arrays_are_a_question(several: Path) -> None:
    with pytest.raises(RequestError, match=r"several variables: .*variable=NAME") as raised:
        read(several)
    assert "3 x 4 x 5" in str(raised.value)


def test_an_unknown_name_is_met_with_the_nearest(several: Path) -> None:
    with pytest.raises(RequestError, match="did you mean 'temp'"):
        read(several, Selector(variable="tempo"))
    with pytest.raises(RequestError, match="did you mean 'sea'"):
        read(several, Selector(variable="temp", valid="see"))


def test_coordinates_must_fit(several: Path) -> None:
    with pytest.raises(RequestError, match="has 4 entries; the dimension has 5"):
        read(several, Selector(variable="temp", coordinates=("depth", "lat", "lat")))
    with pytest.raises(RequestError, match="names 2 vectors"):
        read(several, Selector(variable="temp", coordinates=("depth", "lat")))
    with pytest.raises(RequestError, match="no vector 'lng'"):
        read(several, Selector(variable="temp", coordinates=("depth", "lat", "lng")))


def test_written_back_all_else_is_kept(several: Path, ocean: Any) -> None:
    gridded = read(several, Selector(variable="temp", valid="sea"))
    target = several.with_name(f"out{several.name.removeprefix('ocean')}")
    completed = np.where(ocean.valid, complete(ocean.values), np.nan)
    deviation = np.where(gridded.missing, 0.5, 0.0)
    assert write(several, target, Completion(gridded, completed, deviation, NOTE)) == [target]
    np.testing.assert_array_equal(load(target, "temp"), completed)
    np.testing.assert_array_equal(load(target, "temp_std_2"), deviation)
    for name in ("sea", "depth", "lat", "lon", "temp_std"):
        np.testing.assert_array_equal(load(target, name), load(several, name))
    np.testing.assert_array_equal(read(target, Selector(variable="temp")).values, completed)


def test_variables_of_matlab_keep_their_classes(tmp_path: Path) -> None:
    source, target = tmp_path / "in.mat", tmp_path / "out.mat"
    others = {
        "near": scipy.sparse.eye_array(3, format="csc"),
        "flag": np.array([[True, False]]),
        "counts": np.arange(3, dtype="i2"),
        "name": "hello",
        "cell": np.array([1, "a"], dtype=object),
        "about": {"a": 1},
    }
    savemat(source, {"t": np.array([[1.0, np.nan], [2, 3]]), **others})
    gridded = read(source, Selector(variable="t"))
    write(source, target, Completion(gridded, complete(gridded.values)))
    assert whosmat(target) == [*whosmat(source), ("t_filled", (2, 2), "logical"), ("fieldbench", (1,), "char")]
    assert (loadmat(target)["near"] != others["near"]).nnz == 0


@pytest.mark.parametrize("version", [5, 7.3])
def test_fields_of_matlab_structures_are_named_with_a_point(tmp_path: Path, version: float) -> None:
    source, target = tmp_path / "in.mat", tmp_path / "out.mat"
    temp, good = np.array([[1.0, np.nan, 3], [4, 5, -9]]), np.array([[True, True, True], [True, True, False]])
    if version == 5:
        savemat(source, {"model": {"temp": temp, "grid": {"x": np.arange(3.0)}, "good": good, "name": "hello"}})
    else:
        with h5py.File(source, "w", userblock_size=512) as data:
            data.create_group("model").attrs["MATLAB_class"] = np.bytes_("struct")
            for name, array, kind in (("temp", temp, "double"), ("good", good.astype("u1"), "logical")):
                data[f"model/{name}"] = array.T
                data[f"model/{name}"].attrs["MATLAB_class"] = np.bytes_(kind)
    gridded = read(source, Selector(mask="model.good"))  # a logical is not a field unless it is named
    assert gridded.name == "model.temp"
    np.testing.assert_array_equal(gridded.values, [[1, np.nan, 3], [4, 5, np.nan]])
    made = np.nan_to_num(gridded.values, nan=7.0)
    write(source, target, Completion(gridded, made, made + 1, NOTE))
    np.testing.assert_array_equal(read(target, Selector(variable="model.temp")).values, made)
    np.testing.assert_array_equal(read(target, Selector(variable="model_temp_std")).values, made + 1)
    np.testing.assert_array_equal(read(target, Selector(variable="model_temp_filled")).values, np.isnan(gridded.values))
    assert read(target, Selector(variable="model.good")).classes == (0.0, 1.0) or version == 5
    if version == 5:
        model = loadmat(target, simplify_cells=True)["model"]
        assert (model["name"], model["grid"]["x"].tolist(), model["good"].tolist()) == (
            "hello",
            [0, 1, 2],
            good.tolist(),
        )


def test_doubles_of_matlab_that_it_stored_as_bytes_stay_doubles(tmp_path: Path) -> None:
    """The whole numbers of `a`, in a file that MATLAB wrote."""
    source, target = tmp_path / "in.mat", tmp_path / "out.mat"
    ours = Path(scipy.io.matlab.__file__).parent / "tests" / "data" / "testmulti_7.4_GLNX86.mat"
    if not ours.is_file():
        pytest.skip("scipy is installed without the files of its tests")
    source.write_bytes(ours.read_bytes())
    gridded = read(source, Selector(variable="theta"))
    write(source, target, Completion(gridded, gridded.values))
    assert ("a", (3, 5), "double") in whosmat(source)
    assert ("a", (3, 5), "double") in whosmat(target)


def test_notes_are_kept_inside_the_file(several: Path, ocean: Any) -> None:
    gridded = read(several, Selector(variable="temp"))
    target = several.with_name(f"out{several.name.removeprefix('ocean')}")
    write(several, target, Completion(gridded, complete(gridded.values), None, NOTE))
    if ".73." in target.name:
        with h5py.File(target) as data:
            assert data["temp"].attrs["fieldbench_method"] == "thin-plate"
            assert data["temp"].attrs["fieldbench_estimated_rmse"] == 0.25
            assert bytes(data["temp"].attrs["MATLAB_class"]) == b"double"
    else:
        text = load(target, "fieldbench")
        assert json.loads(str(np.ravel(text)[0])) == NOTE


def test_dimensions_of_length_one_come_back(tmp_path: Path, ocean: Any) -> None:
    source, target = tmp_path / "t.npz", tmp_path / "out.npz"
    np.savez(source, temp=ocean.values[:, np.newaxis])
    gridded = read(source)
    assert gridded.values.shape == (3, 4, 5)
    write(source, target, Completion(gridded, complete(gridded.values)))
    np.testing.assert_array_equal(np.load(target)["temp"], complete(ocean.values)[:, np.newaxis])


def test_a_fixed_position_is_completed_alone(tmp_path: Path, ocean: Any) -> None:
    source, target = tmp_path / "t.npy", tmp_path / "out.npy"
    np.save(source, ocean.values)
    gridded = read(source, Selector(at=("x=1",)))
    np.testing.assert_array_equal(gridded.values, ocean.values[1])
    assert [axis.name for axis in gridded.axes] == ["y", "z"]
    write(source, target, Completion(gridded, complete(gridded.values)))
    written = np.load(target)
    np.testing.assert_array_equal(written[1], complete(ocean.values[1]))
    np.testing.assert_array_equal(written[[0, 2]], ocean.values[[0, 2]])


@pytest.mark.parametrize(
    ("at", "message"), [("x=3", "3 positions, 0 to 2"), ("t=0", "no dimension 't'"), ("x", "DIMENSION=INDEX")]
)
def test_a_position_must_exist(tmp_path: Path, ocean: Any, at: str, message: str) -> None:
    np.save(tmp_path / "t.npy", ocean.values)
    with pytest.raises(RequestError, match=message):
        read(tmp_path / "t.npy", Selector(at=(at,)))


def test_integers_become_floats_when_completed(tmp_path: Path) -> None:
    source, target = tmp_path / "t.npz", tmp_path / "out.npz"
    np.savez(source, counts=np.arange(6).reshape(2, 3), seen=np.array([[1, 1, 0], [1, 1, 1]]))
    gridded = read(source, Selector(variable="counts", mask="seen"))
    assert np.isnan(gridded.values[0, 2])
    write(source, target, Completion(gridded, complete(gridded.values, 2.5)))
    assert np.load(target)["counts"].tolist() == [[0, 1, 2.5], [3, 4, 5]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1.0, np.inf]]), "1 infinite"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.array(3.0), "single number"),
        (np.array([[1j, 2]]), "real numbers"),
    ],
)
def test_arrays_that_are_no_field(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(RequestError, match=message):
        read(tmp_path / "t.npy")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(RequestError, match="cannot be read"):
        read(tmp_path / "t.npy")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".h5", ".nc", ".parquet"])
def test_a_damaged_file_is_one_clear_line(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"t{suffix}"
    file.write_bytes(b"this is no data at all" * 40)
    with pytest.raises(RequestError, match=r"cannot be read as \.") as raised:
        read(file)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("suffix", "start", "library", "extra"),
    [
        (".nc", b"\x89HDF", "xarray", "files"),
        (".nc", b"CDF\x05", "netCDF4", "files"),
        (".h5", b"\x89HDF", "h5py", "files"),
        (".tif", b"II*\x00", "rasterio", "geotiff"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_its_library_a_format_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, start: bytes, library: str, extra: str
) -> None:
    (tmp_path / f"a{suffix}").write_bytes(start + bytes(40))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(RequestError, match=rf"need {library}; install the extra fieldbench-completion\[{extra}\]"):
        read(tmp_path / f"a{suffix}")


def test_unknown_formats_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "t.docx").write_text("")
    with pytest.raises(RequestError, match=r"no format '\.docx'; there are \.nc"):
        read(tmp_path / "t.docx")
    with pytest.raises(RequestError, match="is not a file"):
        read(tmp_path / "absent.npy")


def test_a_mask_of_texts_is_refused(tmp_path: Path) -> None:
    words = tmp_path / "words.npz"
    np.savez(words, temp=np.ones((2, 2)), good=np.array([["yes", "no"]] * 2))
    with pytest.raises(RequestError, match=r"good holds <U3; a mask holds numbers"):
        read(words, Selector(variable="temp", mask="good"))


def test_coordinates_out_of_order_are_sorted_and_put_back(several: Path, ocean: Any) -> None:
    other, target = (several.with_name(f"{word}{several.name.removeprefix('ocean')}") for word in ("other", "out"))
    order = [3, 0, 2, 1]
    arrays = {"temp": ocean.values[:, order], "depth": ocean.depth, "lat": ocean.lat[order], "lon": ocean.lon}
    SAVERS[several.name.partition(".")[2]](other, arrays)
    gridded = read(other, Selector(variable="temp", coordinates=("depth", "lat", "lon")))
    assert gridded.axes[1].coordinates.tolist() == ocean.lat.tolist()
    np.testing.assert_array_equal(gridded.values, ocean.values)
    assert "'lat' are out of order" in gridded.remarks[0]
    made = np.where(np.isnan(ocean.values), np.arange(60).reshape(3, 4, 5), ocean.values)
    write(other, target, Completion(gridded, made, made + 0.5))
    np.testing.assert_array_equal(load(target, "temp"), made[:, order])
    np.testing.assert_array_equal(load(target, "temp_std"), made[:, order] + 0.5)
    np.testing.assert_array_equal(load(target, "temp_filled"), np.isnan(ocean.values[:, order]))
    np.testing.assert_array_equal(load(target, "lat").ravel(), ocean.lat[order])


def test_coordinates_that_repeat_are_named(several: Path, ocean: Any) -> None:
    other = several.with_name(f"other{several.name.removeprefix('ocean')}")
    arrays = {"temp": ocean.values, "depth": ocean.depth, "lat": np.array([1.0, 2, 3, 2]), "lon": ocean.lon}
    SAVERS[several.name.partition(".")[2]](other, arrays)
    with pytest.raises(RequestError, match=r"'lat' repeat 2 \(positions 1 and 3\)"):
        read(other, Selector(variable="temp", coordinates=("depth", "lat", "lon")))


def test_a_grid_is_for_tables(several: Path) -> None:
    with pytest.raises(RequestError, match=r"is not a table of points.*leave out grid"):
        read(several, Selector(variable="temp", grid=(9, 9)))


def test_an_ambiguous_mask_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", a=np.ones((3, 4, 3)), m=np.ones(3))
    with pytest.raises(RequestError, match="fits the first and the last"):
        read(tmp_path / "t.npz", Selector(variable="a", mask="m"))
    np.savez(tmp_path / "u.npz", a=np.ones((3, 4, 3)), m=np.ones(4))
    with pytest.raises(RequestError, match="does not fit"):
        read(tmp_path / "u.npz", Selector(variable="a", mask="m"))


def test_an_existing_file_is_not_overwritten(tmp_path: Path, ocean: Any) -> None:
    source, target = tmp_path / "t.npz", tmp_path / "out.npz"
    np.savez(source, temp=ocean.values)
    target.write_bytes(b"precious")
    gridded = read(source)
    with pytest.raises(RequestError, match="exists; use --force"):
        write(source, target, Completion(gridded, complete(gridded.values)))
    assert target.read_bytes() == b"precious"
    write(source, target, Completion(gridded, complete(gridded.values)), overwrite=True)
    assert not np.isnan(np.load(target)["temp"]).any()


def test_a_source_may_be_overwritten_when_asked(tmp_path: Path, ocean: Any) -> None:
    source = tmp_path / "t.npz"
    np.savez(source, temp=ocean.values)
    gridded = read(source)
    write(source, source, Completion(gridded, complete(gridded.values)), overwrite=True)
    assert not np.isnan(np.load(source)["temp"]).any()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, ocean: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "t.npz", tmp_path / "out.npz"
    np.savez(source, temp=ocean.values)
    gridded = read(source)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        write(source, target, Completion(gridded, complete(gridded.values)))
    assert [file.name for file in tmp_path.iterdir()] == ["t.npz"]


def test_the_result_has_the_format_of_the_source(tmp_path: Path, ocean: Any) -> None:
    source = tmp_path / "t.npz"
    np.savez(source, temp=ocean.values)
    gridded = read(source)
    with pytest.raises(RequestError, match=r"use \.npz"):
        write(source, tmp_path / "out.csv", Completion(gridded, complete(gridded.values)))
    with pytest.raises(RequestError, match="is not a folder"):
        write(source, tmp_path / "no" / "out.npz", Completion(gridded, complete(gridded.values)))


def test_content_as_observation_and_as_field(tmp_path: Path, ocean: Any) -> None:
    np.savez(tmp_path / "t.npz", temp=ocean.values, sea=ocean.valid)
    gridded = read(tmp_path / "t.npz", Selector(variable="temp", valid="sea"))
    observation = gridded.observation()
    np.testing.assert_array_equal(observation.mask, ~np.isnan(ocean.values))
    np.testing.assert_array_equal(observation.valid, ocean.valid)
    field = gridded.field(log_floor=1e-3)
    np.testing.assert_array_equal(field.valid, ~np.isnan(ocean.values))
    assert (field.quantity, field.log_floor) == ("temp", 1e-3)


def test_a_field_of_nothing_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.full((3, 3), np.nan))
    with pytest.raises(RequestError, match="no observed entry"):
        read(tmp_path / "t.npy").observation()
    with pytest.raises(RequestError, match="has no entry"):
        read(tmp_path / "t.npy").field()


def test_what_matlab_has_beside_a_field_is_kept(tmp_path: Path) -> None:
    long = "a" * 40
    inside = {"w": np.array([1j, 2]), long: 3.0}
    given = {"temp": np.array([[1, np.nan], [3, 4]]), "z": np.array([1 + 2j, 3]), "s": inside, "fieldbench": "mine"}
    savemat(tmp_path / "a.mat", given, long_field_names=True)
    gridded = read(tmp_path / "a.mat", Selector("temp"))
    write(tmp_path / "a.mat", tmp_path / "out.mat", Completion(gridded, complete(gridded.values), None, NOTE))
    made = loadmat(tmp_path / "out.mat", squeeze_me=True)
    assert made["z"].tolist() == [1 + 2j, 3]
    assert made["s"]["w"].item().tolist() == [1j, 2]
    assert made["s"][long].item() == 3
    assert (made["fieldbench"], json.loads(str(made["fieldbench_2"]))) == ("mine", NOTE)


def test_an_array_called_fieldbench_is_kept(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", temp=[[1, np.nan]], fieldbench=[5])
    gridded = read(tmp_path / "a.npz", Selector("temp"))
    write(tmp_path / "a.npz", tmp_path / "out.npz", Completion(gridded, complete(gridded.values), None, NOTE))
    with np.load(tmp_path / "out.npz") as made:
        assert made["fieldbench"].tolist() == [5]
        assert json.loads(str(made["fieldbench_2"])) == NOTE


def test_an_empty_dataset_beside_a_field(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as data:
        data["temp"] = np.array([[1, np.nan], [3, 4]])
        data["nothing"] = h5py.Empty("f4")
    assert read(tmp_path / "a.h5").name == "temp"


def test_python_objects_beside_a_field_are_neither_read_nor_lost(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", temp=[[1, np.nan]], notes=np.array([{"ship": "Meteor"}], dtype=object))
    gridded = read(tmp_path / "a.npz")
    write(tmp_path / "a.npz", tmp_path / "out.npz", Completion(gridded, complete(gridded.values)))
    with np.load(tmp_path / "out.npz", allow_pickle=True) as made:
        assert made["notes"][0] == {"ship": "Meteor"}
        assert made["temp"].tolist() == [[1, 7]]
