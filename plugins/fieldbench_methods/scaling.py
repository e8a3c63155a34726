"""Bringing a field's observed values into the range of a network's output, and its estimate back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldbench import Estimate, FloatArray, Observation, RequestError

#: Decades of power, up and down, that an estimate on the logarithmic scale may reach.
LARGEST = 300.0


@dataclass(frozen=True)
class Scaling:
    """The map y = (f(x) - shift) / scale with f the identity, or x -> log10(x + floor).

    Attributes:
        shift, scale: centre and half-width of the range of f(x) that is mapped to [-1, 1]; scale > 0.
        floor: the value added before the logarithm, in the unit of the field; None for the linear scale.
    """

    shift: float
    scale: float
    floor: float | None = None

    def forward(self, values: FloatArray) -> FloatArray:
        """Field values to scaled values; any shape, double precision."""
        values = np.asarray(values, dtype=float)
        if self.floor is not None:
            values = np.log10(np.maximum(values, 0) + self.floor)
        return (values - self.shift) / self.scale

    def inverse(self, scaled: FloatArray) -> FloatArray:
        """Scaled values to field values; on the logarithmic scale they are never negative."""
        values = np.asarray(scaled, dtype=float) * self.scale + self.shift
        if self.floor is None:
            return values
        # An extrapolation far from all sensors may be a power that no number can hold.
        return np.maximum(10.0 ** np.clip(values, -LARGEST, LARGEST) - self.floor, 0.0)

    def estimate(self, scaled: FloatArray, deviation: FloatArray | None) -> Estimate:
        """A scaled estimate with its scaled deviation, both of the field's shape, or of the mean alone."""
        if deviation is None:
            return Estimate(self.inverse(scaled))
        if self.floor is None:
            return Estimate(self.inverse(scaled), deviation * self.scale)
        spread = deviation * self.scale * np.log(10)
        return Estimate(self.inverse(scaled), spread, distribution="lognormal", floor=self.floor)


def fit_scaling(observation: Observation, transform: str = "auto") -> Scaling:
    """The scaling of an observation; only its observed values are used.

    ``linear`` divides by the largest observed magnitude. ``log`` standardises log10(x + floor) by the
    observed mean and three observed standard deviations, with the observation's ``log_floor``. ``auto``
    is ``log`` where the observation has a ``log_floor`` and ``linear`` elsewhere. A field that was
    observed constant is mapped to 1 (linear) or 0 (log).

    Raises:
        RequestError: if ``log`` is asked for a field without ``log_floor``.
    """
    if transform == "auto":
        transform = "linear" if observation.log_floor is None else "log"
    observed = np.asarray(observation.observed, dtype=float)
    if transform == "linear":
        return Scaling(0.0, float(np.abs(observed).max()) or 1.0)
    if observation.log_floor is None:
        raise RequestError(
            "transform=log: this field has no log_floor (the value added before the logarithm); use transform=linear"
        )
    logarithms = Scaling(0.0, 1.0, float(observation.log_floor)).forward(observed)
    deviation = float(logarithms.std())
    # Rounding leaves a deviation of about 1e-16 on a constant field; dividing by it would blow it up.
    negligible = 1e-9 * max(1.0, float(np.abs(logarithms).max()))
    return Scaling(float(logarithms.mean()), 3 * deviation if deviation > negligible else 1.0, observation.log_floor)
