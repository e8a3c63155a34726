"""Separation of emitters at the sensors, against mixtures whose factors are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from fieldbench_methods.cartography.dowjons import spectra_for
from fieldbench_methods.cartography.separation import count_emitters, pure_bins, separate


def mixture(emitters: int, sensors: int, bins: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses (emitters, sensors) and unit-norm spectra (emitters, bins); bin r belongs to emitter r alone."""
    rng = np.random.default_rng(seed)
    losses = rng.lognormal(sigma=1.5, size=(emitters, sensors))
    spectra = rng.random((emitters, bins)) * (rng.random((emitters, bins)) < 0.5)
    spectra[:, :emitters] = np.diag(rng.uniform(0.5, 2.0, emitters))
    return losses, spectra / np.linalg.norm(spectra, axis=1, keepdims=True)


@pytest.mark.parametrize("emitters", [1, 3, 7])
def test_a_separable_mixture_is_recovered_exactly(emitters: int) -> None:
    losses, spectra = mixture(emitters, sensors=90, bins=40, seed=emitters)
    found_losses, found_spectra = separate(losses.T @ spectra, emitters)
    order = np.argmax(found_spectra @ spectra.T, axis=1)
    assert sorted(order) == list(range(emitters))
    np.testing.assert_allclose(found_losses, losses[order], rtol=1e-8)
    np.testing.assert_allclose(found_spectra, spectra[order], atol=1e-9)


def test_bins_without_power_are_passed_over() -> None:
    losses, spectra = mixture(3, sensors=30, bins=12, seed=8)
    power = np.hstack([np.zeros((30, 2)), losses.T @ spectra, np.zeros((30, 1))])
    chosen = pure_bins(power, 3)
    heard = [np.flatnonzero(spectra[:, bin - 2]) for bin in chosen]
    assert sorted(emitter for alone in heard for emitter in alone) == [0, 1, 2]


def test_no_more_emitters_are_found_than_are_there() -> None:
    losses, spectra = mixture(2, sensors=30, bins=12, seed=9)
    found_losses, found_spectra = separate(losses.T @ spectra, 5)
    assert len(found_losses) == len(found_spectra) <= 5
    np.testing.assert_allclose(found_losses.T @ found_spectra, losses.T @ spectra, rtol=1e-6)


def test_spectra_are_never_negative_and_have_unit_norm() -> None:
    losses, spectra = mixture(4, sensors=60, bins=20, seed=10)
    power = losses.T @ spectra + 0.3 * np.random.default_rng(11).standard_normal((60, 20))
    _, found = separate(power, 4)
    assert found.min() == 0
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)


@pytest.mark.parametrize("emitters", [1, 4, 10])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_emitters_are_counted(emitters: int, noise: float) -> None:
    losses, spectra = mixture(emitters, sensors=130, bins=64, seed=20 + emitters)
    power = losses.T @ spectra + noise * np.random.default_rng(1).standard_normal((130, 64))
    assert count_emitters(power) == emitters


def test_silence_counts_as_one_emitter() -> None:
    assert count_emitters(np.zeros((20, 8))) == 1


def test_spectra_are_the_non_negative_least_squares_solution() -> None:
    rng = np.random.default_rng(12)
    losses, power = rng.random((5, 80)), rng.standard_normal((80, 16)) + 0.5
    found = spectra_for(losses, power)
    expected = np.stack([nnls(losses.T, column)[0] for column in power.T], axis=1)
    assert (expected == 0).any()
    np.testing.assert_allclose(found, expected, atol=1e-10)
