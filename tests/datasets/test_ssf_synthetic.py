"""The simulated sound speed field against its physics and against the measured one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad, trapezoid

from fieldbench.errors import RequestError
from fieldbench.registry import Registry
from fieldbench_datasets import ocean
from fieldbench_datasets.ssf import SoundSpeedField
from fieldbench_datasets.ssf_synthetic import SyntheticSoundSpeedField

KILOMETRES = np.arange(20) * 8.0
DEPTHS = np.arange(20) * 10.0


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    dataset = SyntheticSoundSpeedField()
    return np.array([dataset.draw(rng(seed)).values for seed in range(1000, 1150)])


def test_the_profile_is_munks_below_the_mixed_layer() -> None:
    depth = np.array([400.0, 1300.0, 3000.0])
    eta = 2 * (depth - 1300) / 1300
    expected = 1492 * (1 + 0.0074 * (eta - 1 + np.exp(-eta)))
    speed = ocean.potential_speed(depth, 60.0) + ocean.ADIABATIC_GRADIENT * depth
    np.testing.assert_allclose(speed, expected, atol=1e-9)


def test_the_mixed_layer_is_well_mixed() -> None:
    speed = ocean.potential_speed([0.0, 20.0], 100.0)
    assert abs(speed[0] - speed[1]) < 0.01
    assert ocean.mixed_layer_share([0.0], 100.0)[0] == pytest.approx(1, abs=1e-3)
    assert ocean.mixed_layer_share([400.0], 100.0)[0] < 0.01


def test_sound_speed_rises_with_temperature_as_in_mackenzies_equation() -> None:
    def mackenzie(temperature: float) -> float:
        return 1448.96 + 4.591 * temperature - 5.304e-2 * temperature**2 + 2.374e-4 * temperature**3

    slope = (mackenzie(25.01) - mackenzie(24.99)) / 0.02
    assert ocean.temperature_sensitivity(25.0) == pytest.approx(slope, rel=1e-6)


def test_modes_vanish_at_surface_and_sea_floor_and_have_their_zeros() -> None:
    depth = np.linspace(0.0, ocean.SEA_FLOOR, 4001)
    shapes = ocean.mode_shapes(depth, 4)
    np.testing.assert_allclose(shapes[:, [0, -1]], 0, atol=1e-9)
    crossings = (np.diff(np.sign(shapes[:, 1:-1]), axis=1) != 0).sum(axis=1)
    assert crossings.tolist() == [0, 1, 2, 3]


def test_mode_weights_follow_garrett_and_munk() -> None:
    weights = ocean.mode_weights(5000)
    assert weights[0] / weights[2] == pytest.approx((9 + 9) / (1 + 9))
    assert weights.sum() == pytest.approx(1, abs=1e-3)


def test_internal_wavenumbers_follow_their_spectrum() -> None:
    bend, largest = 0.02, 0.4
    drawn, share = ocean.internal_wavenumbers(bend, largest, 40_000, rng())

    def spectrum(k: float) -> float:
        return 4 / np.pi * bend * k**2 / (k**2 + bend**2) ** 2

    assert share == pytest.approx(quad(spectrum, 0, largest)[0], rel=1e-5)
    assert quad(spectrum, 0, np.inf)[0] == pytest.approx(1)
    for level in (0.01, 0.03, 0.1):
        expected = quad(spectrum, 0, level)[0] / share
        assert (drawn < level).mean() == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(len(drawn)))
    assert drawn.max() <= largest


def test_internal_waves_have_the_garrett_munk_displacement() -> None:
    # Averaged over the water column, with the local stratification divided out, the mean square displacement
    # is 7.3 m squared times the share of the modes and wavelengths that are kept.
    modes, shortest, depth = 3, 1.0, np.linspace(0.0, ocean.SEA_FLOOR, 300)
    x = np.array([0.0, 500.0])
    waves = [ocean.internal_waves(x, x, depth, 18.0, modes, shortest, rng(seed)) for seed in range(400)]
    stretched = np.expm1(-depth / 1300) / np.expm1(-ocean.SEA_FLOOR / 1300)
    mean_square = np.mean(np.square(waves), axis=(0, 1, 2)) * np.exp(-depth / 1300)
    average = trapezoid(mean_square, stretched)
    assert average == pytest.approx(7.3**2 * ocean.mode_weights(modes).sum(), rel=0.1)


def test_a_gaussian_pattern_has_unit_variance_and_its_correlation() -> None:
    patterns = np.array([ocean.gaussian_pattern(KILOMETRES, KILOMETRES, 40.0, rng(seed)) for seed in range(600)])
    assert patterns.var() == pytest.approx(1, rel=0.05)
    for steps in (2, 5):
        correlation = (patterns[:, steps:] * patterns[:, :-steps]).mean()
        assert correlation == pytest.approx(np.exp(-((8 * steps) ** 2) / (2 * 40**2)), abs=0.06)


def test_one_eddy_is_a_bell() -> None:
    fine = np.arange(0.0, 100.0, 0.5)
    pattern = ocean.eddy_pattern(fine, fine, 1, (20.0, 20.0), rng(3))
    logarithm = np.log(np.abs(pattern[60:140, 60:140]))
    second = np.diff(logarithm, n=2, axis=0) / 0.5**2
    np.testing.assert_allclose(second, -1 / 20.0**2, rtol=1e-5)


def test_without_disturbance_every_column_is_the_canonical_profile() -> None:
    still = SyntheticSoundSpeedField(mean=True, eddies=0, internal_waves=0.0, surface_anomaly=0.0).draw(rng())
    expected = ocean.potential_speed(DEPTHS, 60.0) + ocean.ADIABATIC_GRADIENT * DEPTHS
    np.testing.assert_allclose(still.values, np.broadcast_to(expected, still.shape))
    assert still.quantity == "sound speed"


def test_every_depth_has_mean_zero(draws: np.ndarray) -> None:
    np.testing.assert_allclose(draws.mean(axis=(1, 2)), 0, atol=1e-9)


def test_size_and_scale_are_those_of_the_measured_field(draws: np.ndarray, data_folder: Path) -> None:
    measured = SoundSpeedField().draw(rng())
    simulated = SyntheticSoundSpeedField().draw(rng())
    assert simulated.shape == measured.shape
    assert [(axis.name, axis.unit, axis.spacing) for axis in simulated.axes] == [
        (axis.name, axis.unit, axis.spacing) for axis in measured.axes
    ]
    assert draws.std() == pytest.approx(measured.values.std(), rel=0.15)
    profile = draws.std(axis=(0, 1, 2))
    np.testing.assert_allclose(profile, measured.values.std(axis=(0, 1)), rtol=0.3)


def test_the_mean_profile_is_near_the_measured_one(data_folder: Path) -> None:
    measured = SoundSpeedField(mean=True).draw(rng()).values.mean(axis=(0, 1))
    simulated = [SyntheticSoundSpeedField(mean=True).draw(rng(seed)).values for seed in range(50)]
    difference = np.mean(simulated, axis=(0, 1, 2)) - measured
    assert np.sqrt(np.mean(difference**2)) < 0.1 * np.ptp(measured)


def test_every_draw_is_new_and_repeatable() -> None:
    once, again, other = (SyntheticSoundSpeedField().draw(rng(seed)).values for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert np.abs(once - other).max() > 1


def test_there_is_no_water_below_the_sea_floor() -> None:
    deepest = SyntheticSoundSpeedField(shape=(2, 2, 11), spacing=(8.0, 8.0, 400.0)).draw(rng())
    assert deepest.axes[2].coordinates[-1] == ocean.SEA_FLOOR
    with pytest.raises(RequestError, match="11 points 401 m apart reach 4010 m, below the sea floor at 4000 m"):
        Registry().dataset("ssf-synthetic[shape=2x2x11,spacing=(8,8,401)]")


def test_shape_and_spacing_are_free() -> None:
    field = SyntheticSoundSpeedField(shape=(6, 9, 12), spacing=(4.0, 5.0, 25.0)).draw(rng())
    assert field.shape == (6, 9, 12)
    assert [axis.spacing for axis in field.axes] == [4, 5, 25]


@pytest.mark.parametrize("text", ["ssf-synthetic[eddy_radius=(80,30)]", "ssf-synthetic[spacing=(8,0,10)]"])
def test_impossible_parameters_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="must be"):
        Registry().dataset(text)
