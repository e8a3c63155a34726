"""Kriging: the best linear prediction from observed values whose covariance depends on distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

import fieldbench
from fieldbench import FloatArray, Observation, Value
from fieldbench_methods.axis_scale import AxisScale, axis_scale_parameter, check_axis_scale

if TYPE_CHECKING:
    from fieldbench_methods.correlation import Covariance
    from fieldbench_methods.scattered import Scattered


#: Variance of the noise over that of a prediction below which observed values are kept, where neighbours are used.
_SILENT = 1e-2
#: A nugget so small is there to make systems well-conditioned.
_ROUNDING = 1e-7


class Kriging(fieldbench.Method):
    """Ordinary kriging (a Gaussian process of unknown mean) with one length scale an axis and a nugget.

    Up to ``exact`` observed positions one system holds all: length scales and nugget maximise the restricted
    likelihood on up to ``fit`` positions. Beyond, each target is predicted from its nearest positions (in length
    scales), and the likelihood is that of near neighbours (Vecchia); it proposes covariances of several kernels and
    ranges, and the error at observed positions, withheld as the gaps look, chooses. Mean and variance are bin by
    bin where whole fibers are observed. Power is kriged in the log domain. The predictive standard deviation is
    that of the field, without the noise. (Cressie 1993, section 3.2; Rasmussen and Williams 2006, sections 2.7 and
    5.4; Katzfuss and Guinness 2021.)
    """

    name = "kriging"
    revision = "3"
    conformance_parameters: ClassVar[dict[str, Value]] = {"fit": 60}
    has_uncertainty: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True

    kernel: Literal["exponential", "matern-3/2", "matern-5/2", "squared-exponential"] | None = fieldbench.parameter(
        None,
        "correlation as a function of distance, from rough to smooth; none = matern-3/2 where one system holds all, "
        "chosen on withheld observed entries beyond",
    )
    fit: int = fieldbench.parameter(1500, "most observed positions that the likelihood is computed on", ge=50)
    exact: int = fieldbench.parameter(4000, "most observed positions for which one system holds all", ge=1)
    neighbours: int = fieldbench.parameter(64, "nearest observed positions used beyond that", ge=8)
    axis_scale: AxisScale = axis_scale_parameter("none = one length scale an axis, of largest likelihood")

    def check_shape(self, shape: Sequence[int]) -> None:
        check_axis_scale(self.axis_scale, shape)

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        estimate, _ = self._complete(observation, seed, spread=False)
        return estimate

    def predict(
        self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> tuple[FloatArray, FloatArray | None]:
        return self._complete(observation, seed, spread=True)

    def _complete(self, observation: Observation, seed: int, *, spread: bool) -> tuple[FloatArray, FloatArray | None]:
        """The field; with ``spread`` also its predictive standard deviation, both in the field's unit.

        On the log scale the standard deviation is half the width of the interval between one deviation below
        and one above. Where fewer than 3 positions or nothing but one value is observed no covariance can be
        fitted: the field is the mean, of unknown deviation (None).
        """
        from fieldbench_methods.axis_scale import geometries
        from fieldbench_methods.gaussian_process import varying

        choices = geometries(observation, self.axis_scale)
        data = choices[0]
        varied = varying(data.values)
        if len(data.points) < 3 or not varied.any():
            flat = np.repeat(data.values.mean(axis=0, keepdims=True), len(data.targets), axis=0)
            return data.complete(flat), None
        krige = self._with_all if len(data.points) <= self.exact else self._with_neighbours
        covariance, found, unexplained = krige(choices, data.values[:, varied], seed, spread=spread)

        def laid_out(some: FloatArray, others: FloatArray) -> FloatArray:
            columns = np.tile(others, (len(some), 1))
            columns[:, varied] = some
            return data.everywhere(columns[: len(data.points)], columns[len(data.points) :])

        estimate = laid_out(found, data.values[0])
        if not spread:
            return data.scaling.inverse(estimate), None
        spreads = np.sqrt(unexplained[:, np.newaxis] * covariance.variances)
        deviation = laid_out(spreads, np.zeros(len(varied)))
        above, below = (data.scaling.inverse(estimate + sign * deviation) for sign in (1, -1))
        return data.scaling.inverse(estimate), (above - below) / 2

    def _with_all(
        self, choices: list[Scattered], values: FloatArray, seed: int, *, spread: bool
    ) -> tuple[Covariance, FloatArray, FloatArray]:
        """Covariance, predictions and their variances at observed, then at missing positions; one system holds all."""
        from fieldbench_methods.gaussian_process import fit, predict

        kernel, tied = self.kernel or "matern-3/2", self.axis_scale is not None
        fits = [fit(kernel, one.points, values, self.fit, np.random.default_rng(seed), tied=tied) for one in choices]
        best = min(range(len(fits)), key=lambda index: fits[index][1])
        covariance, data = fits[best][0], choices[best]
        everywhere = np.concatenate([data.points, data.targets])
        return covariance, *predict(covariance, data.points, values, everywhere, spread=spread)

    def _with_neighbours(
        self, choices: list[Scattered], values: FloatArray, seed: int, *, spread: bool
    ) -> tuple[Covariance, FloatArray, FloatArray]:
        """The same from near neighbours, with a covariance chosen on withheld positions."""
        from fieldbench_methods.axis_scale import MOST_POINTS
        from fieldbench_methods.gaussian_process import varying
        from fieldbench_methods.local_kriging import KERNELS, VALIDATION_POINTS, choose, predict, propose
        from fieldbench_methods.withholding import box, imitations

        rng, data, tied = np.random.default_rng(seed), choices[0], self.axis_scale is not None
        place = box(data.observed, data.missing, MOST_POINTS / len(data.points), rng)
        inside = np.zeros(data.observed.shape, dtype=bool)
        inside[place] = True
        some = inside[data.observed]
        telling = varying(values[some])
        trials = imitations(data.observed[place], data.missing[place], VALIDATION_POINTS, rng)
        kernels = KERNELS if self.kernel is None else (self.kernel,)
        judged = []
        for one in choices:
            proposals = propose(kernels, one.points[some], values[some][:, telling], self.fit, rng, tied=tied)
            judged.append(choose(proposals, trials, one.points[some], values[some], self.neighbours))
        best = min(range(len(judged)), key=lambda index: judged[index][1])
        (covariance, _, unknown), data = judged[best], choices[best]
        nugget = covariance.nugget
        # So little noise leaves an observed value as it is, and predicting them all would take as long again.
        silent = nugget < max(_SILENT * unknown, _ROUNDING)
        targets = data.targets if silent else np.concatenate([data.points, data.targets])
        found, unexplained = predict(covariance, data.points, values, targets, self.neighbours, spread=spread)
        if silent:
            at_points = np.full(len(values), nugget / (1 + nugget))
            return covariance, np.concatenate([values, found]), np.concatenate([at_points, unexplained])
        return covariance, found, unexplained
