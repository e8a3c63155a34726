"""Numbers that stand for something else: codes for missing values in any format, and classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from fieldbench.errors import RequestError
from fieldbench.files import Completion, Selector, read, write

GAPPY = np.where(np.arange(20).reshape(4, 5) % 6 == 0, -999.0, 15 + 0.1 * np.arange(20).reshape(4, 5))
GAPPY[2, 3] = -888.5


def as_npy(file: Path, values: np.ndarray) -> None:
    np.save(file, values)


def as_npz(file: Path, values: np.ndarray) -> None:
    np.savez(file, t=values)


def as_mat(file: Path, values: np.ndarray) -> None:
    savemat(file, {"t": values})


def as_hdf5(file: Path, values: np.ndarray) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w") as data:
        data["t"] = values


def as_netcdf(file: Path, values: np.ndarray) -> None:
    xarray = pytest.importorskip("xarray")
    xarray.Dataset({"t": (("y", "x"), values)}).to_netcdf(file, engine="scipy")


def as_csv(file: Path, values: np.ndarray) -> None:
    y, x = np.indices(values.shape)
    pd.DataFrame({"y": y.ravel(), "x": x.ravel(), "t": values.ravel()}).to_csv(file, index=False)


WRITERS = {".npy": as_npy, ".npz": as_npz, ".mat": as_mat, ".h5": as_hdf5, ".nc": as_netcdf, ".csv": as_csv}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_several_codes_in_any_format(tmp_path: Path, suffix: str, dtype: str) -> None:
    """No single-precision number is -888.6: it is compared as it is stored."""
    file = tmp_path / f"a{suffix}"
    values = np.where(GAPPY == -888.5, -888.6, GAPPY).astype(dtype)
    WRITERS[suffix](file, values)
    coordinates = ("y", "x") if suffix == ".csv" else ()
    gridded = read(file, Selector(missing=(-999, -888.6), coordinates=coordinates))
    np.testing.assert_array_equal(np.isnan(gridded.values), GAPPY < 0)
    np.testing.assert_allclose(gridded.values[GAPPY > 0], GAPPY[GAPPY > 0], rtol=1e-7)


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITERS if suffix != ".csv"])
def test_a_code_that_is_not_filled_is_written_as_it_was(tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    WRITERS[suffix](source, GAPPY)
    gridded = read(source, Selector(missing=(-999, -888.5)))
    made = np.where(np.isnan(gridded.values), 7.0, gridded.values)
    made[2, 3] = np.nan
    write(source, target, Completion(gridded, made))
    written = read(target, Selector(variable=None if suffix == ".npy" else "t"))
    np.testing.assert_array_equal(written.values, np.where(np.isnan(made), -888.5, made))


@pytest.mark.parametrize(
    ("code", "others", "asked"),
    [
        (-999.0, 15 + np.arange(50) / 10, True),
        (0.0, 280 + np.arange(50) / 10, True),  # zero kelvin on land
        (0.0, 14 + np.arange(50) / 5, True),  # zero degrees on land
        (1e20, np.arange(50) / 10, True),
        (0.0, 0.1 + np.arange(50) ** 2.0, False),  # days without rain
        (5.0, np.arange(50) / 10, False),  # the end of a scale
        (-999.0, np.full(50, 3.0), False),  # two classes
    ],
)
def test_a_number_far_outside_and_repeated_exactly_is_a_question(
    tmp_path: Path, code: float, others: np.ndarray, asked: bool
) -> None:
    np.save(tmp_path / "a.npy", np.concatenate([np.full(10, code), others]).reshape(10, 6))
    gridded = read(tmp_path / "a.npy")
    if asked:
        assert len(gridded.remarks) == 1
        assert f"10 entries of a are exactly {code:.6g}, far from all others" in gridded.remarks[0]
        assert f"say --missing {code:.6g}" in gridded.remarks[0]
    else:
        assert gridded.remarks == ()
    assert not np.isnan(gridded.values).any()  # nothing is changed without a word


def test_codes_among_rounded_values_are_questions(tmp_path: Path) -> None:
    """Values rounded to a tenth repeat as well."""
    rounded = 15 + np.arange(1200) % 40 / 10
    np.save(tmp_path / "a.npy", np.concatenate([np.full(300, -999.0), np.full(300, -9999.0), rounded]))
    asked = [line.partition("say ")[2] for line in read(tmp_path / "a.npy").remarks]
    assert asked == ["--missing -9999", "--missing -999"]


def test_two_codes_are_two_questions_and_none_once_they_are_named(tmp_path: Path) -> None:
    values = np.concatenate([np.full(5, -999.0), np.full(5, -9999.0), np.full(4, 9999.0), 15 + np.arange(46) / 10])
    np.save(tmp_path / "a.npy", values)
    asked = [line.partition("say ")[2] for line in read(tmp_path / "a.npy").remarks]
    assert sorted(asked) == ["--missing -999", "--missing -9999", "--missing 9999"]
    assert read(tmp_path / "a.npy", Selector(missing=(-999, -9999, 9999))).remarks == ()


def test_a_single_outlier_is_no_code(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.append(np.arange(50) / 10, -999.0))
    assert read(tmp_path / "a.npy").remarks == ()


@pytest.mark.parametrize(("dtype", "kind"), [("i4", "i4"), ("u1", "u1"), ("?", "bool")])
def test_classes_are_found_and_stay_whole(tmp_path: Path, dtype: str, kind: str) -> None:
    source, target = tmp_path / "a.npz", tmp_path / "b.npz"
    classes = np.random.default_rng(0).integers(2 if dtype == "?" else 5, size=(20, 10)).astype(dtype)
    seen = np.random.default_rng(1).random((20, 10)) < 0.8
    np.savez(source, use=classes, seen=seen)
    gridded = read(source, Selector(variable="use", mask="seen"))
    assert gridded.classes == tuple(float(number) for number in np.unique(classes))
    write(source, target, Completion(gridded, np.where(seen, classes, 1).astype(float)))
    written = np.load(target)["use"]
    assert written.dtype == np.dtype(kind)
    np.testing.assert_array_equal(written, np.where(seen, classes, 1))


def test_counts_are_no_classes(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(400).reshape(20, 20))
    assert read(tmp_path / "a.npy").classes == ()


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
def test_a_variable_with_flags_holds_classes(tmp_path: Path, suffix: str) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    about = {"flag_values": np.array([1, 2], dtype="i1"), "flag_meanings": "sand mud"}
    bed = xarray.Dataset({"bed": (("y", "x"), np.array([[1, 2], [2, -1]], dtype="i1"), about)})
    bed["bed"].encoding["_FillValue"] = np.int8(-1)
    bed.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    file = (tmp_path / "a.nc").rename(tmp_path / f"a{suffix}")
    gridded = read(file, Selector(variable="bed"))
    assert gridded.classes == (1.0, 2.0)
    target = tmp_path / f"b{suffix}"
    write(file, target, Completion(gridded, np.array([[1.0, 2], [2, 2]])))
    with xarray.open_dataset(target, engine="h5netcdf", decode_cf=False) as written:
        assert written["bed"].dtype == np.int8
        assert written["bed"].values.tolist() == [[1, 2], [2, 2]]
        assert written["bed"].attrs["flag_meanings"] == "sand mud"


def power(tmp_path: Path, values: Any) -> Path:
    np.save(tmp_path / "p.npy", np.array(values))
    return tmp_path / "p.npy"


def test_decibels_have_no_logarithm(tmp_path: Path) -> None:
    gridded = read(power(tmp_path, [[-97.25, -60.5, np.nan], [-80.0, -1e-6, 2.0]]))
    with pytest.raises(RequestError, match=r"4 of 5 values are at or below -1e-06 \(the lowest is -97.25\).*dBm"):
        gridded.observation(log_floor=1e-6)
    assert gridded.observation().mask.sum() == 5


def test_power_that_noise_made_negative_has_a_logarithm_above_the_floor(tmp_path: Path) -> None:
    gridded = read(power(tmp_path, [[1e-3, -1e-7, np.nan]]))
    assert gridded.observation(log_floor=1e-6).mask.sum() == 2
