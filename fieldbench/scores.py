"""Formulas of scores: of a predicted distribution, on vectors of n entries, and of spectra along an axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from fieldbench.field import Axis, FloatArray, Mask

#: Bins of a histogram of probability transforms.
PIT_BINS = 10

#: Points that a line needs before its spectrum says anything.
SHORTEST = 8


def power_of_two(*arrays: FloatArray) -> float:
    """A scale of these values: divided by it no digit changes, and no square overflows or vanishes.

    >>> power_of_two(np.array([3.0, -5.0]), np.array([0.5]))
    4.0
    """
    return 2.0 ** (math.frexp(max(float(np.max(np.abs(array))) for array in arrays))[1] - 1)


def crps_normal(mean: FloatArray, deviation: FloatArray, truth: FloatArray) -> FloatArray:
    """Continuous ranked probability score of a normal distribution; |truth - mean| where the deviation is 0.

    (Gneiting and Raftery 2007, equation 21.)

    Args:
        mean, deviation: of the distribution, in one unit; arrays of one shape.
        truth: in the same unit and shape.
    """
    from scipy.special import erf

    error = np.abs(truth - mean)
    sure = deviation <= 1e-15 * error
    share = error / np.where(sure, 1.0, deviation)
    density = np.exp(-0.5 * share**2) * math.sqrt(2 / math.pi)
    return np.where(sure, error, error * erf(share / math.sqrt(2)) + deviation * (density - 1 / math.sqrt(math.pi)))


def crps_members(ranked: FloatArray, truth: FloatArray) -> FloatArray:
    """The fair score of sorted members (M, n) with M >= 2: what infinitely many such would have on average.

    mean |x - y| - sum |x_i - x_j| / (2 M (M - 1)), the sum over sorted members in place of over pairs. (Ferro 2014.)
    """
    count = len(ranked)
    weights = 2.0 * np.arange(1, count + 1) - count - 1
    return np.asarray(np.abs(ranked - truth).mean(axis=0) - weights @ ranked / (count * (count - 1)))


def crps_quantiles(quantiles: Mapping[float, FloatArray], truth: FloatArray) -> FloatArray:
    """Twice the quantile loss, integrated over the levels that are there; each stands for those nearest to it."""
    levels = sorted(quantiles)
    borders = [0.0, *((one + other) / 2 for one, other in pairwise(levels)), 1.0]
    total = np.zeros(truth.shape)
    for level, width in zip(levels, np.diff(borders), strict=True):
        short = truth - quantiles[level]
        total += 2 * width * np.maximum(level * short, (level - 1) * short)
    return total


def surprise(mean: FloatArray, deviation: FloatArray, truth: FloatArray) -> FloatArray:
    """The negative logarithm of a normal density; deviations are above 0.

    Args:
        mean, deviation: of the distribution, in one unit; arrays of one shape.
        truth: in the same unit and shape.
    """
    return np.log(deviation) + 0.5 * math.log(2 * math.pi) + 0.5 * ((truth - mean) / deviation) ** 2


def effective_resolution(
    error: FloatArray, truth: FloatArray, where: Mask, number: int, axis: Axis
) -> dict[str, float] | None:
    """Where the spectrum of the error reaches half that of the truth, coming from long waves.

    The ratio is interpolated linearly in the logarithm of the wavelength. Where several waves have this ratio it is
    the longest, so that all longer ones are resolved.

    Args:
        error, truth: arrays of one shape, finite.
        where: True = the entry counts; only lines that count as a whole are used.
        number: of the axis.
        axis: its coordinates.

    Returns:
        The wavelength in the axis' unit under the name "", and a 1 under ".finer" if all waves are resolved, or under
        ".coarser" if none is; None for a short or uneven axis, or where no line counts.
    """
    gaps = np.diff(axis.coordinates)
    if len(axis) < SHORTEST or gaps[0] == 0 or not np.allclose(gaps, gaps[0], rtol=1e-6, atol=0):
        return None
    whole = np.moveaxis(where, number, -1).all(axis=-1)
    lines = [np.moveaxis(array, number, -1)[whole] for array in (error, truth)]
    if not len(lines[0]):
        return None
    scale = power_of_two(lines[1])
    lines = [part / scale for part in lines]
    frequencies, of_error = spectrum(lines[0], axis.spacing)
    _, of_truth = spectrum(lines[1], axis.spacing)
    # Rounding leaves a trace of what is constant; it is not a structure that could be resolved.
    felt = of_truth > 1e-24 * float(np.mean(lines[1] ** 2))
    if not felt.any():
        return None
    wavelengths, ratios = 1 / frequencies[felt], of_error[felt] / of_truth[felt]
    missed = ratios >= 0.5
    if missed[0]:
        return {"": float(wavelengths[0]), ".coarser": 1.0}
    if not missed.any():
        return {"": 2 * axis.spacing, ".finer": 1.0}
    first = int(np.argmax(missed))
    pair = slice(first - 1, first + 1)
    return {"": float(np.exp(np.interp(0.5, ratios[pair], np.log(wavelengths[pair]))))}


def spectrum(lines: FloatArray, spacing: float) -> tuple[FloatArray, FloatArray]:
    """Frequencies above 0 and the mean power density of lines (n, size) at them, each in one Hann window.

    That is what scipy.signal.welch makes of windows as long as the lines, in a fifth of its time.
    """
    size = lines.shape[-1]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    spectra = np.fft.rfft((lines - lines.mean(axis=-1, keepdims=True)) * window, axis=-1)[:, 1:]
    power = np.mean(spectra.real**2 + spectra.imag**2, axis=0) * spacing / np.sum(window**2)
    power[: (size - 1) // 2] *= 2  # negative frequencies; the highest of an even size has none
    return np.fft.rfftfreq(size, spacing)[1:], power
