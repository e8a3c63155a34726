"""Spectra along an axis, and the wavelength from which on an estimate shows the truth."""

from __future__ import annotations

import numpy as np

from fieldbench.field import Axis, FloatArray, Mask
from fieldbench.scores import power_of_two

#: Points that a line needs before its spectrum says anything.
SHORTEST = 8


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
