"""The method that fieldbench sees: parameters, scaling and uncertainty."""

from __future__ import annotations

import numpy as np

import fieldbench


class Trend(fieldbench.Method):
    """The polynomial of the coordinates that fits the observed entries best, by least squares.

    Coordinates are scaled to [-1, 1]; the degrees of a term add up to ``degree`` at most. It is what is left when
    nothing but a trend is believed, and says how sure of that trend it is. Fields of any order.
    """

    name = "trend"

    degree: int = fieldbench.parameter(2, "largest total degree of a term", ge=0, search=[0, 1, 2, 3, 4])

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.Estimate:
        from fieldbench_trend.least_squares import fit, terms

        coordinates = [np.linspace(-1, 1, size) if size > 1 else np.zeros(1) for size in observation.shape]
        grid = np.stack(np.meshgrid(*coordinates, indexing="ij"), axis=-1).reshape(-1, observation.ndim)
        everywhere = terms(grid, self.degree)
        observed = observation.observed.astype(float)
        scale = float(np.abs(observed).max()) or 1.0
        mean, deviation = fit(everywhere[observation.mask.ravel()], observed / scale, everywhere)
        shape = observation.shape
        return fieldbench.Estimate(scale * mean.reshape(shape), scale * deviation.reshape(shape))
