"""From what a file holds to what is written: limits, classes, areas and closed axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldbench.completion import periodic
from fieldbench.completion.bench import FitResult
from fieldbench.completion.filling import Filled, areas, fill
from fieldbench.completion.limits import Limits
from fieldbench.errors import RequestError
from fieldbench.estimate import Estimate
from fieldbench.field import Axis, Observation
from fieldbench.files import GriddedVariable, Selector, read, write
from fieldbench.registry import Sources

SOURCES = Sources.from_environment([str(Path(__file__).with_name("candidates.py"))])


def gridded(folder: Path, values: np.ndarray, selector: Selector = Selector(), **arrays: np.ndarray) -> GriddedVariable:  # noqa: B008
    np.savez(folder / "a.npz", t=values, **arrays)
    return read(folder / "a.npz", Selector(**{**vars(selector), "variable": "t"}))


def filled(what: GriddedVariable, method: str = "plane", **how: Any) -> Filled:
    return fill(what, method, budget=0, sources=SOURCES, device="cpu", **how)


PLANE = np.indices((6, 5))[0] - 2.0
GAPPY = np.where(np.indices((6, 5)).sum(axis=0) % 3 == 0, np.nan, PLANE)


def test_what_is_far_from_all_observations_stays_missing(tmp_path: Path) -> None:
    values = GAPPY.copy()
    values[4:] = np.nan
    made = filled(gridded(tmp_path, values), limits=Limits(max_gap=("1",)))
    far = np.zeros((6, 5), dtype=bool)
    far[5] = True
    far[4] = np.isnan(values[3])  # the nearest observation of these lies diagonally, or farther
    np.testing.assert_array_equal(np.isnan(made.completion.values), far)
    assert made.completion.deviation is not None
    np.testing.assert_array_equal(np.isnan(made.completion.deviation), far)
    assert made.gaps == int(np.isnan(values).sum() - far.sum())
    assert made.remarks == (f"{far.sum()} gaps are farther from an observation than max-gap says, and stay missing",)


def test_impossible_estimates_are_brought_into_the_range_and_counted(tmp_path: Path) -> None:
    what = gridded(tmp_path, np.where(PLANE < 0, np.nan, GAPPY))
    made = filled(what, limits=Limits(positive=True)).completion.values
    assert (made[np.isnan(what.values)] >= 0).all()
    below = filled(what, limits=Limits(within=(-1.5, 2.5)))
    unobserved = np.isnan(what.values)
    np.testing.assert_allclose(
        below.completion.values, np.where(unobserved, np.clip(PLANE, -1.5, 2.5), PLANE), atol=1e-12
    )
    clipped = int((unobserved & ((PLANE < -1.5) | (PLANE > 2.5))).sum())
    assert clipped > 0
    assert f"{clipped} estimates were not possible, and were brought into the range" in below.remarks
    assert any(
        line.endswith("observed values are not possible by what was said of the range") for line in below.remarks
    )


@pytest.mark.parametrize(
    ("dtype", "about", "said"),
    [
        ("f4", {"valid_max": np.float32(2.5)}, "-inf to 2.5"),
        ("i2", {"scale_factor": 0.5, "valid_range": np.array([-5, 5], dtype="i2")}, "-2.5 to 2.5"),
        ("i2", {"valid_min": np.int16(-3), "valid_max": np.int16(2)}, "-3 to 2"),
    ],
)
def test_a_valid_range_that_estimates_leave_is_told(
    tmp_path: Path, dtype: str, about: dict[str, Any], said: str
) -> None:
    """The last row, of 3, is missing as it lies beyond what is valid."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    source, target = tmp_path / "a.nc", tmp_path / "b.nc"
    stored = (np.nan_to_num(GAPPY, nan=99) / about.get("scale_factor", 1)).astype(dtype)
    stored[-1] = 3 / about.get("scale_factor", 1)
    xarray.Dataset({"t": (("y", "x"), stored, about, {"_FillValue": None})}).to_netcdf(source, engine="h5netcdf")
    made = filled(read(source))
    assert made.remarks == (
        f"5 completed values of t lie outside its valid range ({said}), which is left out, or readers would take them "
        "as missing",
    )
    write(source, target, made.completion)
    np.testing.assert_allclose(read(target, Selector("t")).values, PLANE, atol=1e-6)
    inside = filled(read(source), limits=Limits(within=(-2, 2)))
    assert not any("valid range" in line for line in inside.remarks)


def test_a_field_without_near_gaps_is_a_wrong_request(tmp_path: Path) -> None:
    values = PLANE.copy()
    values[3:] = np.nan
    with pytest.raises(RequestError, match="no gap of t lies as near"):
        filled(gridded(tmp_path, values), limits=Limits(max_gap=("0.5",)))


def test_a_constant_field_is_filled_with_the_constant(tmp_path: Path) -> None:
    what = gridded(tmp_path, np.where(np.isnan(GAPPY), np.nan, 7.5))
    for method in ("nearest", "kriging", "thin-plate", "idw", "biharmonic", "harmonic", "linear"):
        np.testing.assert_allclose(filled(what, method).completion.values, 7.5, rtol=1e-6)


def test_classes_are_refused_unless_a_method_keeps_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    use, seen = rng.integers(3, size=(30, 20)), rng.random((30, 20)) < 0.7
    what = gridded(tmp_path, use, Selector(mask="seen"), seen=seen)
    with pytest.raises(
        RequestError, match=r"t holds 3 classes \(0, 1, 2\).*--method nearest.*if its numbers are amounts, name methods"
    ):
        filled(what, "auto")
    chosen = fill(what, candidates=["zero", "plane"], budget=60, sources=SOURCES, device="cpu")
    assert chosen.made.method == "plane"
    assert np.isin(filled(what, "nearest").completion.values, [0, 1, 2]).all()
    assert not np.isin(filled(what, "plane").completion.values, [0, 1, 2]).all()  # amounts, said who named it


def test_flags_are_never_averaged(tmp_path: Path) -> None:
    use, seen = np.random.default_rng(0).random((2, 30, 20)) < 0.7
    what = gridded(tmp_path, use, Selector(mask="seen"), seen=seen)
    flags = GriddedVariable(**{**vars(what), "variable": type(what.variable)(**{**vars(what.variable), "flags": True})})
    with pytest.raises(RequestError, match="plane made values between the classes"):
        filled(flags)
    assert np.isin(filled(flags, "nearest").completion.values, [0, 1]).all()


def globe(shape: tuple[int, int] = (9, 24)) -> tuple[tuple[Axis, Axis], np.ndarray]:
    """A smooth field on a closed circle of longitudes."""
    lat = Axis("lat", np.linspace(-60, 60, shape[0]), "degrees_north")
    lon = Axis("lon", np.arange(shape[1]) * 360 / shape[1], "degrees_east", period=360)
    values = np.cos(np.radians(lon.coordinates - 8))[np.newaxis] + 0.02 * lat.coordinates[:, np.newaxis]
    return (lat, lon), values


@pytest.mark.parametrize(
    "method", ["nearest", "idw", "linear", "thin-plate", "kriging[fit=60]", "biharmonic", "harmonic"]
)
def test_beside_the_seam_a_global_field_is_as_good_as_anywhere(tmp_path: Path, method: str) -> None:
    """Rolling the globe so that the seam lies elsewhere changes next to nothing."""
    (lat, lon), values = globe()
    unobserved = np.random.default_rng(0).random(values.shape) < 0.3
    unobserved[:, [0, -1]] = True
    gappy = np.where(unobserved, np.nan, values)
    estimates = {}
    for shift in (0, 12):
        what = gridded(
            tmp_path,
            np.roll(gappy, shift, axis=1),
            Selector(coordinates=("lat", "lon")),
            lat=lat.coordinates,
            lon=lon.coordinates,
        )
        estimates[shift] = np.roll(filled(what, method).completion.values, -shift, axis=1)
    error = {shift: np.sqrt(np.mean((made - values)[:, [0, -1]] ** 2)) for shift, made in estimates.items()}
    assert error[0] == pytest.approx(error[12], rel=0.25, abs=0.01)
    if method == "idw":  # it has no ties, nothing to learn, and weights that end softly
        np.testing.assert_allclose(estimates[0], estimates[12], atol=0.01)


def test_a_method_sees_the_other_side_of_the_seam_and_is_cut_back() -> None:
    axes, values = globe((3, 8))
    mask = np.ones(values.shape, dtype=bool)
    mask[1, 2] = False
    continued, inside = periodic.around(Observation(values, mask, axes, valid=np.ones(values.shape, dtype=bool)))
    assert continued.shape == (3, 12)
    assert continued.axes[1].coordinates.tolist() == (45.0 * np.arange(-2, 10)).tolist()
    np.testing.assert_array_equal(continued.filled(), np.where(mask, values, 0)[:, np.arange(-2, 10) % 8])
    np.testing.assert_array_equal(continued.mask[inside], mask)


def test_a_first_meridian_that_is_there_twice_is_seen_once() -> None:
    axis = Axis("lon", np.linspace(0, 360, 9), "degrees_east", period=360)
    continued, _ = periodic.around(Observation(np.arange(9.0), np.ones(9, dtype=bool), (axis,)))
    assert continued.axes[0].coordinates.tolist() == (45.0 * np.arange(-2, 11)).tolist()
    assert continued.values.tolist() == [6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2]


def test_a_fall_of_longitudes_goes_on_falling() -> None:
    axis = Axis("lon", np.arange(180, -180, -45.0), "degrees_east", period=360)
    continued, _ = periodic.around(Observation(np.arange(8.0), np.ones(8, dtype=bool), (axis,)))
    assert continued.axes[0].coordinates.tolist() == (45.0 * np.arange(6, -6, -1)).tolist()


def test_an_open_field_is_fitted_as_it_is() -> None:
    asked = Observation(np.zeros(3), np.ones(3, dtype=bool))

    def fit(seen: Observation) -> FitResult:
        assert seen is asked
        return FitResult(Estimate(seen.values), 0.0, 0.0)

    assert periodic.fitted(fit, asked).estimate is asked.values


def test_areas_are_cosines_of_latitudes() -> None:
    (lat, lon), values = globe()
    weights = areas((lat, lon))
    assert weights.shape == values.shape
    np.testing.assert_allclose(weights[:, 0], np.cos(np.radians(lat.coordinates)))
    assert areas((Axis("lat", np.array([-90.0, 0, 90]), "degrees_north"),)).min() > 0
    with pytest.raises(RequestError, match=r"needs an axis of latitudes in degrees_north; there are x \(no unit\)"):
        areas((Axis.regular("x", 3),))


def test_errors_and_the_mean_are_weighted_by_area(tmp_path: Path) -> None:
    """A field that is 0 at the equator and 1 near the poles: `zero` is wrong there, where there is little area."""
    lat = np.linspace(-80, 80, 17)
    values = np.broadcast_to((np.abs(lat) > 50.0).astype(float)[:, np.newaxis], (17, 400))
    gappy = np.where(np.random.default_rng(0).random(values.shape) < 0.3, np.nan, values)
    what = gridded(tmp_path, gappy, Selector(coordinates=("lat", "x")), lat=lat, x=np.arange(400.0))
    plain, weighted = (
        fill(what, "zero", by_area=by_area, budget=60, folds=2, share=0.4, sources=SOURCES, device="cpu")
        for by_area in (False, True)
    )
    area = np.cos(np.radians(lat))
    assert plain.made.expected_error == pytest.approx(np.sqrt(6 / 17), rel=0.15)
    share = area[np.abs(lat) > 50].sum() / area.sum()
    assert weighted.made.expected_error == pytest.approx(np.sqrt(share), rel=0.15)
    there = ~np.isnan(gappy)
    mean = (np.nan_to_num(gappy) * area[:, np.newaxis]).sum() / (area.sum() * 400)
    assert weighted.remarks[-1] == f"mean of t, weighted by area: {mean:.6g}"
    assert there.any()


def test_errors_are_told_by_distance(tmp_path: Path) -> None:
    """`zero` errs by the field's size, which is the distance to the left edge, where all is observed."""
    values = np.broadcast_to(np.arange(24.0), (20, 24))
    gappy = values.copy()
    gappy[:, 12:] = np.nan
    made = fill(gridded(tmp_path, gappy), "zero", budget=60, sources=SOURCES, device="cpu").made
    assert [(row.nearest, row.farthest) for row in made.by_distance] == [(0, 1), (1, 2), (2, 4), (4, 8), (8, 16)]
    assert [row.gaps for row in made.by_distance] == [20, 20, 40, 80, 80]
    assert sum(row.withheld for row in made.by_distance) >= 3 * made.withheld
    assert all(0 < row.error < 12 for row in made.by_distance if row.withheld)
