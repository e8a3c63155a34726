"""A trend: the polynomial of the coordinates that is nearest to what is observed."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

import fieldbench
from fieldbench import FloatArray, Observation

#: Entries of which the polynomials are evaluated at once.
_CHUNK = 2**16


class Polynomial(fieldbench.Method):
    """A polynomial of the coordinates, fitted by least squares; power in the log domain.

    By itself it is a field without detail. What it leaves over may be kriged: ``kriging+residual[of=polynomial]`` is
    kriging with a drift (Cressie 1993, section 3.4, with the drift by ordinary least squares).
    """

    name = "polynomial"
    revision = "1"

    degree: int = fieldbench.parameter(
        1, "total degree: 1 a slope along each axis, 2 curved", ge=0, le=8, search=(0, 4)
    )

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        from fieldbench_methods.scaling import fit_scaling

        scaling = fit_scaling(observation)
        seen = np.flatnonzero(observation.mask)
        basis = self._basis(observation, seen)
        # Where there are fewer observations than terms, the smallest coefficients that agree with them.
        coefficients = np.linalg.lstsq(basis, scaling.forward(observation.observed), rcond=None)[0]
        entries = np.arange(observation.mask.size)
        parts = [
            self._basis(observation, entries[start : start + _CHUNK]) @ coefficients
            for start in range(0, len(entries), _CHUNK)
        ]
        return scaling.inverse(np.concatenate(parts).reshape(observation.shape))

    def _basis(self, observation: Observation, entries: np.ndarray) -> FloatArray:
        """Products of Legendre polynomials along the axes at flat indices of entries, shape (n, terms)."""
        from numpy.polynomial.legendre import legvander

        along = []
        for axis, indices in zip(observation.axes, np.unravel_index(entries, observation.shape), strict=True):
            low, high = axis.coordinates.min(), axis.coordinates.max()
            scaled = 2 * (axis.coordinates - low) / (high - low or 1.0) - 1
            along.append(legvander(scaled, self.degree)[indices])
        axes = [number for number, axis in enumerate(observation.axes) if len(axis) > 1]
        terms = [
            np.bincount(chosen, minlength=observation.ndim) if chosen else np.zeros(observation.ndim, dtype=int)
            for total in range(self.degree + 1)
            for chosen in combinations_with_replacement(axes, total)
        ]
        return np.stack(
            [np.prod([along[axis][:, power] for axis, power in enumerate(term)], axis=0) for term in terms], axis=1
        )
