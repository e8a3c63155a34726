"""Kriging: the best linear prediction from observed values whose covariance depends on distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

import fieldbench
from fieldbench import Estimate, FloatArray, Observation, RequestError, Value
from fieldbench_methods.axis_scale import AxisScale, axis_scale_parameter, check_axis_scale

if TYPE_CHECKING:
    from fieldbench_methods.correlation import Covariance
    from fieldbench_methods.scattered import Scattered


_Length = Annotated[float, Field(gt=0)]

#: Variance of the noise over that of a prediction below which observed values are kept, where neighbours are used.
_SILENT = 1e-2
#: A nugget so small is there to make systems well-conditioned.
_ROUNDING = 1e-7


class Kriging(fieldbench.Method):
    """Ordinary kriging (a Gaussian process of unknown mean) with one length scale an axis and a nugget.

    Up to ``exact`` observed positions one system holds all: length scales and nugget maximise the restricted
    likelihood on up to ``fit`` positions. Beyond, each target is predicted from its nearest positions (in length
    scales), and the likelihood is that of near neighbours (Vecchia); it proposes covariances of several kernels and
    ranges, and the error at observed positions, withheld as the gaps look, chooses. With ``lengths`` the covariance is
    the one that is given. Mean and variance are bin by bin where whole fibers are observed. Power is kriged in the log
    domain. The predictive standard deviation is that of the field, without the noise. (Cressie 1993, section 3.2;
    Rasmussen and Williams 2006, sections 2.7 and 5.4; Katzfuss and Guinness 2021.)
    """

    name = "kriging"
    revision = "3"
    conformance_parameters: ClassVar[dict[str, Value]] = {"fit": 60}
    pointwise: ClassVar[bool] = True

    kernel: Literal["exponential", "matern-3/2", "matern-5/2", "squared-exponential"] | None = fieldbench.parameter(
        None,
        "correlation as a function of distance, from rough to smooth; none = matern-3/2 where one system holds all, "
        "chosen on withheld observed entries beyond",
        search=[None, "exponential", "matern-3/2", "matern-5/2", "squared-exponential"],
    )
    fit: int = fieldbench.parameter(1500, "most observed positions that the likelihood is computed on", ge=50)
    exact: int = fieldbench.parameter(4000, "most observed positions for which one system holds all", ge=1)
    neighbours: int = fieldbench.parameter(64, "nearest observed positions used beyond that", ge=8)
    axis_scale: AxisScale = axis_scale_parameter("none = one length scale an axis, of largest likelihood")

    lengths: tuple[_Length, ...] | None = fieldbench.parameter(
        None, "length scale along each axis, or one for all; none = of largest likelihood", unit="grid steps"
    )
    nugget: float | None = fieldbench.parameter(
        None, "variance of the noise over that of the field, where lengths are given; none = none", ge=0
    )
    variance: float | None = fieldbench.parameter(
        None, "variance of the field (of power, of its log10), where lengths are given; none = estimated", gt=0
    )
    mean: float | None = fieldbench.parameter(
        None, "mean of the field (of power, of its log10), where lengths are given; none = unknown"
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.lengths is None and (self.nugget, self.variance, self.mean) != (None, None, None):
            raise ValueError("nugget, variance and mean are for a covariance that is given; give lengths as well")
        if self.lengths is not None and self.axis_scale is not None:
            raise ValueError("lengths and axis_scale both say how axes compare; give one of them")
        return self

    def check_shape(self, shape: Sequence[int]) -> None:
        check_axis_scale(self.axis_scale, shape)

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> Estimate:
        """The field and its predictive standard deviation; that of power is of its logarithm.

        Where fewer than 3 positions or nothing but one value is observed no covariance can be fitted: the field is
        the mean, of unknown deviation.
        """
        from fieldbench_methods.axis_scale import geometries
        from fieldbench_methods.gaussian_process import varying

        choices = geometries(observation, self.axis_scale)
        data = choices[0]
        varied = varying(data.values)
        if len(data.points) < 3 or not varied.any():
            flat = np.repeat(data.values.mean(axis=0, keepdims=True), len(data.targets), axis=0)
            return Estimate(data.complete(flat))
        krige = self._with_all if len(data.points) <= self.exact else self._with_neighbours
        covariance, found, unexplained = krige(choices, data.values[:, varied], seed)

        def laid_out(some: FloatArray, others: FloatArray) -> FloatArray:
            columns = np.tile(others, (len(some), 1))
            columns[:, varied] = some
            return data.everywhere(columns[: len(data.points)], columns[len(data.points) :])

        deviations = np.sqrt(unexplained[:, np.newaxis] * covariance.variances)
        return data.scaling.estimate(laid_out(found, data.values[0]), laid_out(deviations, np.zeros(len(varied))))

    def _given(self, data: Scattered, values: FloatArray) -> tuple[Covariance, float | None]:
        """The covariance and mean that were given, for scaled values.

        Raises:
            RequestError: if there are not as many length scales as axes.
        """
        from fieldbench_methods.correlation import Covariance
        from fieldbench_methods.gaussian_process import LEAST_NUGGET, variances_of

        given, axes = self.lengths or (), data.points.shape[1]
        if len(given) not in (1, axes):
            raise RequestError(f"kriging: lengths has {len(given)} numbers; give 1 or {axes}")
        kernel, lengths = self.kernel or "matern-3/2", np.broadcast_to(np.asarray(given, dtype=float), (axes,))
        nugget, scaling = max(self.nugget or 0.0, LEAST_NUGGET), data.scaling
        if self.variance is None:
            some = np.arange(min(len(values), self.exact))
            variances = variances_of(kernel, lengths, nugget, data.points, values, some)
        else:
            variances = np.full(values.shape[1], self.variance / scaling.scale**2)
        mean = None if self.mean is None else (self.mean - scaling.shift) / scaling.scale
        return Covariance(kernel, lengths, nugget, variances), mean

    def _with_all(
        self, choices: list[Scattered], values: FloatArray, seed: int
    ) -> tuple[Covariance, FloatArray, FloatArray]:
        """Covariance, predictions and their variances at observed, then at missing positions; one system holds all."""
        from fieldbench_methods.gaussian_process import fit, predict

        if self.lengths is not None:
            data = choices[0]
            covariance, mean = self._given(data, values)
            everywhere = np.concatenate([data.points, data.targets])
            return covariance, *predict(covariance, data.points, values, everywhere, mean=mean)
        kernel, tied = self.kernel or "matern-3/2", self.axis_scale is not None
        fits = [fit(kernel, one.points, values, self.fit, np.random.default_rng(seed), tied=tied) for one in choices]
        best = min(range(len(fits)), key=lambda index: fits[index][1])
        covariance, data = fits[best][0], choices[best]
        everywhere = np.concatenate([data.points, data.targets])
        return covariance, *predict(covariance, data.points, values, everywhere)

    def _with_neighbours(
        self, choices: list[Scattered], values: FloatArray, seed: int
    ) -> tuple[Covariance, FloatArray, FloatArray]:
        """The same from near neighbours, with a covariance chosen on withheld positions."""
        from fieldbench_methods.axis_scale import MOST_POINTS
        from fieldbench_methods.gaussian_process import varying
        from fieldbench_methods.local_kriging import KERNELS, VALIDATION_POINTS, choose, predict, propose
        from fieldbench_methods.withholding import box, imitations

        if self.lengths is not None:
            data = choices[0]
            covariance, _ = self._given(data, values)
            everywhere = np.concatenate([data.points, data.targets])
            return covariance, *predict(covariance, data.points, values, everywhere, self.neighbours)
        rng, data, tied = np.random.default_rng(seed), choices[0], self.axis_scale is not None
        part = box(data.observed, data.missing, MOST_POINTS / len(data.points), rng)
        inside = np.zeros(data.observed.shape, dtype=bool)
        inside[part] = True
        some = inside[data.observed]
        telling = varying(values[some])
        trials = imitations(data.observed[part], data.missing[part], VALIDATION_POINTS, rng)
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
        found, unexplained = predict(covariance, data.points, values, targets, self.neighbours)
        if silent:
            at_points = np.full(len(values), nugget / (1 + nugget))
            return covariance, np.concatenate([values, found]), np.concatenate([at_points, unexplained])
        return covariance, found, unexplained
