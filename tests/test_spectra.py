"""Effective resolution of fields whose spectra are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from fieldbench import Axis
from fieldbench.scores import effective_resolution, spectrum

SIZE, SPACING = 128, 2.0
AXIS = Axis.regular("x", SIZE, SPACING, "km")
X = np.arange(SIZE) * SPACING


def waves(amplitude, seed=0, lines=200):
    """Lines of random phases whose amplitude at wavelength w is amplitude(w)."""
    rng = np.random.default_rng(seed)
    frequencies = np.fft.rfftfreq(SIZE, SPACING)[1:]
    phases = rng.uniform(0, 2 * np.pi, size=(lines, len(frequencies), 1))
    return (
        amplitude(1 / frequencies)[:, np.newaxis] * np.cos(2 * np.pi * frequencies[:, np.newaxis] * X + phases)
    ).sum(1)


def found(error, truth, where=None, axis=AXIS):
    where = np.ones(truth.shape, dtype=bool) if where is None else where
    return effective_resolution(error, truth, where, 1, axis)


def test_the_wavelength_is_where_the_error_has_half_the_power_of_the_truth():
    truth = waves(lambda w: w / 100)
    error = waves(lambda w: np.full(w.shape, 20 / 100 / np.sqrt(2)), seed=1)  # half the power where w = 20 km
    assert found(error, truth)[""] == pytest.approx(20.0, rel=0.1)


def test_of_several_crossings_the_longest_counts():
    truth = waves(lambda w: np.ones(w.shape))
    error = waves(lambda w: np.where((w > 30) & (w < 60), 1.0, 0.01) + (w < 8), seed=1)
    assert 55 < found(error, truth)[""] < 75


def test_all_waves_resolved_and_none_are_numbers_with_a_flag():
    truth = waves(lambda w: w)
    assert found(0.01 * truth, truth) == {"": 2 * SPACING, ".finer": 1.0}
    assert found(truth, truth) == {"": SIZE * SPACING, ".coarser": 1.0}


def test_a_sharper_estimate_resolves_shorter_waves():
    truth, noise = waves(lambda w: w / 100), waves(lambda w: np.ones(w.shape), seed=1)
    wavelengths = [found(share * noise, truth)[""] for share in (0.05, 0.1, 0.2, 0.4)]
    assert wavelengths == sorted(wavelengths)
    assert wavelengths[0] < wavelengths[-1] / 3


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_unit_of_the_field_does_not_count(unit):
    truth, error = waves(lambda w: w / 100), waves(lambda w: np.full(w.shape, 0.14), seed=1)
    assert found(unit * error, unit * truth)[""] == pytest.approx(found(error, truth)[""])


def test_only_whole_lines_count():
    truth, error = waves(lambda w: w / 100), waves(lambda w: np.full(w.shape, 0.14), seed=1)
    where = np.ones(truth.shape, dtype=bool)
    where[::2, 5] = False
    spoilt = np.where(where, error, 1e9)
    assert found(spoilt, truth, where) == found(error[1::2], truth[1::2])
    assert found(error, truth, np.zeros(truth.shape, dtype=bool)) is None


def test_axes_that_have_no_spectrum_have_no_resolution():
    line = np.random.default_rng(0).normal(size=(3, 7))
    assert found(line, line, axis=Axis.regular("x", 7)) is None
    uneven = Axis("depth", np.array([0.0, 10, 20, 50, 100, 200, 500, 1000]))
    assert found(np.ones((3, 8)), np.ones((3, 8)), axis=uneven) is None
    assert found(np.zeros((3, SIZE)), np.ones((3, SIZE))) is None  # a constant has no structure to resolve


@pytest.mark.parametrize("size", [8, 9, 20, 31])
def test_spectra_are_scipys(size):
    lines = np.random.default_rng(0).normal(size=(7, size)) + 3
    frequencies, power = signal.welch(lines, fs=1 / 0.4, window="hann", nperseg=size, axis=-1)
    ours, density = spectrum(lines, 0.4)
    np.testing.assert_allclose(ours, frequencies[1:])
    np.testing.assert_allclose(density, power.mean(axis=0)[1:])
