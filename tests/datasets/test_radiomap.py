"""The radio map generator against its model: statistics, norms, lobes and the text form of its parameters."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench.errors import RequestError
from fieldbench.registry import Registry
from fieldbench_datasets import propagation
from fieldbench_datasets.radiomap import RadioMap, RadioMap1, RadioMap2


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry()


def test_path_loss_is_flat_nearby_and_a_power_law_beyond() -> None:
    loss = propagation.path_loss(np.array([[3.0, 0.0]]), [2.5], (10, 6), flat_radius=2.0)[0]
    assert loss[3, 0] == loss[3, 2] == loss[4, 1] == 1.0
    assert loss[9, 0] == pytest.approx(3**-2.5)  # 6 steps away: three flat radii
    assert loss[6, 4] == pytest.approx(2.5**-2.5)  # (3, 4): 5 steps away
    assert loss.shape == (10, 6)


def test_shadowing_has_unit_variance_and_exponential_correlation() -> None:
    grid, decorrelation, count = (12, 9), 8.0, 20_000
    drawn = propagation.shadowing(count, grid, decorrelation, rng()).reshape(count, -1)
    covariance = drawn.T @ drawn / count
    points = np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1).reshape(-1, 2)
    distance = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=-1))
    expected = np.exp(-distance / decorrelation)
    # An entry of a sample covariance of unit normals has a standard deviation of at most sqrt(2 / count).
    assert np.abs(covariance - expected).max() < 6 * np.sqrt(2 / count)
    assert np.abs(drawn.mean(axis=0)).max() < 6 / np.sqrt(count)


def test_eta_is_the_standard_deviation_in_decibels() -> None:
    # With one path loss everywhere the decibels of a map are the shadowing, up to the normalisation; the
    # difference between two far corners then has variance 2 eta^2 (1 - correlation).
    eta, grid = 9.0, (25, 25)
    maps = propagation.spatial_losses(4000, rng(), grid=grid, eta=eta, decorrelation=5.0, flat_radius=100.0)
    decibels = 10 * np.log10(maps)
    difference = decibels[:, 0, 0] - decibels[:, -1, -1]
    expected = eta * np.sqrt(2 * (1 - np.exp(-24 * np.sqrt(2) / 5.0)))
    assert difference.std() == pytest.approx(expected, rel=0.06)  # five standard errors


def test_each_emitter_may_have_its_own_eta() -> None:
    eta = np.repeat([0.0, 9.0], 50)
    maps = propagation.spatial_losses(100, rng(), grid=(15, 15), eta=eta, flat_radius=100.0)
    spread = np.log10(maps).std(axis=(1, 2))
    assert spread[:50].max() < 1e-12
    assert spread[50:].min() > 0.05


def test_the_factor_is_computed_once_and_read_only() -> None:
    first = propagation.shadowing_factor((7, 5), 3.0)
    assert propagation.shadowing_factor((7, 5), 3.0) is first
    assert not first.flags.writeable


def test_a_lobe_is_the_main_lobe_of_a_squared_sinc() -> None:
    shape = propagation.lobe(64, 20.5, 4.0)
    bins = np.arange(1, 65)
    inside = np.abs(bins - 20.5) < 4
    assert (shape[~inside] == 0).all()
    argument = np.pi * (bins[inside] - 20.5) / 4
    np.testing.assert_allclose(shape[inside], (np.sin(argument) / argument) ** 2)
    assert propagation.lobe(64, 20, 2.0)[19] == 1.0  # bin 20 is the centre
    assert propagation.lobe(8, [2.0, 4.0], [1.0, 1.0]).shape == (2, 8)


def test_lobes_are_where_the_cited_program_puts_them() -> None:
    assert propagation.shared_centres(7, 64).tolist() == list(range(24, 63, 2))
    assert propagation.shared_centres(10, 64).tolist() == list(range(33, 62, 2))
    np.testing.assert_allclose(propagation.private_centres(4), [2.0, 4.2, 6.4, 8.6])


def test_private_lobes_do_not_touch_shared_ones() -> None:
    own = propagation.power_spectra(7, rng(), lobes=0)
    assert (own[:, 19:] == 0).all()  # the last private lobe ends below 2 + 2.2 * 6 + 4.3 = 19.5
    peaks = own.argmax(axis=1) + 1
    assert np.abs(peaks - propagation.private_centres(7)).max() <= 1
    shared = propagation.power_spectra(7, rng(), private=False)
    assert (shared[:, :20] == 0).all()  # the first shared lobe begins above 24 - 4


def test_shared_lobes_have_common_centres_and_their_own_amplitudes() -> None:
    spectra = propagation.power_spectra(5, rng(3), lobes=1, private=False, width=(2.0, 2.0))
    assert len(set(spectra.argmax(axis=1))) == 1
    # One lobe of one width: only the amplitude differs, and the unit norm takes it out.
    np.testing.assert_allclose(spectra, np.broadcast_to(spectra[0], spectra.shape))


def test_a_map_is_the_sum_of_its_unit_norm_factors() -> None:
    dataset = RadioMap(emitters=3, grid=(9, 8), bins=40)
    losses, spectra, _ = dataset.factors(rng(5))
    np.testing.assert_allclose(np.linalg.norm(losses, axis=(1, 2)), 1)
    np.testing.assert_allclose(np.linalg.norm(spectra, axis=1), 1)
    assert (losses > 0).all()
    assert (spectra >= 0).all()
    field = dataset.draw(rng(5))
    expected = sum(np.multiply.outer(loss, spectrum) for loss, spectrum in zip(losses, spectra, strict=True))
    np.testing.assert_allclose(field.values, expected)
    assert np.linalg.matrix_rank(field.values.reshape(-1, 40)) == 3


def test_the_maps_of_the_paper() -> None:
    first, second = RadioMap1().draw(rng()), RadioMap2().draw(rng())
    assert first.shape == second.shape == (51, 51, 64)
    assert (first.metadata["emitters"], second.metadata["emitters"]) == (7, 10)
    assert first.log_floor == 1e-6
    assert [axis.name for axis in first.axes] == ["x", "y", "frequency"]
    assert first.axes[2].coordinates[0] == 1
    assert (RadioMap2().eta, RadioMap2().decorrelation, RadioMap1().eta) == (9, 50, 6)


def test_power_has_the_published_scale() -> None:
    fields = [RadioMap1().draw(rng(seed)).values for seed in range(1000, 1010)]
    assert 0.05 < np.mean([field.max() for field in fields]) < 0.2  # about 0.1
    assert 3e-4 < np.mean([np.median(field) for field in fields]) < 3e-3  # about 1e-3


def test_every_draw_is_new_and_repeatable() -> None:
    dataset = RadioMap(grid=(9, 8))
    once, again, other = (dataset.draw(rng(seed)).values for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert np.abs(once - other).max() > 1e-3


def test_fewer_lobes_where_the_bins_leave_no_room() -> None:
    assert RadioMap(emitters=14).shared_lobes == len(range(45, 63, 2))
    assert RadioMap(emitters=7).shared_lobes == 15


@pytest.mark.parametrize("narrow", [{"emitters": 1}, {"lobes": 15}, {"private_width": (0.5, 0.5)}])
def test_narrow_lobes_that_leave_no_spectrum_empty_are_allowed(narrow: dict) -> None:
    dataset = RadioMap(**{"lobes": 0, "private_width": (0.1, 0.1), "grid": (9, 8), **narrow})
    _, spectra, _ = dataset.factors(rng())
    np.testing.assert_allclose(np.linalg.norm(spectra, axis=1), 1)


def test_parameters_are_read_from_text(registry: Registry) -> None:
    dataset = registry.dataset("radiomap[emitters=5,eta=8,decorrelation=30,grid=20x30,amplitude=(0.5,2.5)]")
    assert dataset.parameters() == {
        **RadioMap().parameters(),
        **{"emitters": 5, "eta": 8.0, "decorrelation": 30.0, "grid": (20, 30), "amplitude": (0.5, 2.5)},
    }
    assert registry.dataset(str(dataset)) == dataset


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("radiomap[emitters=0]", "emitters"),
        ("radiomap[grid=1x9]", "at least 2x2"),
        ("radiomap[emitters=40]", "private lobes reach bin"),
        ("radiomap[width=(4,2)]", "width must be a range"),
        ("radiomap[lobes=0,private=false]", "spectra are empty"),
        ("radiomap[lobes=0,private_width=(0.1,0.1)]", "private_width begin at 0.5 or more"),
        ("radiomap[lobes=0,private_width=(0.3,2)]", "private_width begin at 0.5 or more"),
        ("radiomap1[emiters=3]", "did you mean 'emitters'"),
    ],
)
def test_impossible_parameters_are_one_clear_line(registry: Registry, text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as raised:
        registry.dataset(text)
    assert "\n" not in str(raised.value)
