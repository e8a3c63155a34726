"""Kriging: the best linear prediction from observed values whose covariance depends on distance."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

import fieldbench
from fieldbench import Observation, Value

_Length = Annotated[float, Field(gt=0)]


class Kriging(fieldbench.Method):
    """Ordinary kriging (a Gaussian process of unknown mean) with one length scale an axis and a nugget.

    Length scales and nugget maximise the restricted likelihood on up to ``fit`` observed positions; with
    ``lengths`` the covariance is the one that is given. Variance and mean follow in closed form, bin by bin
    where whole fibers are observed. Power is kriged in the log domain. Up to ``exact`` positions one system
    holds all; beyond, each target is predicted from its nearest ones (in length scales). The predictive
    standard deviation is that of the field, without the noise. (Cressie 1993, section 3.2; Rasmussen and
    Williams 2006, sections 2.7 and 5.4.)
    """

    name = "kriging"
    revision = "3"
    conformance_parameters: ClassVar[dict[str, Value]] = {"fit": 60}

    kernel: Literal["exponential", "matern-3/2", "matern-5/2", "squared-exponential"] = fieldbench.parameter(
        "matern-3/2", "correlation as a function of distance, from rough to smooth"
    )
    fit: int = fieldbench.parameter(1500, "most observed positions that the likelihood is computed on", ge=50)
    exact: int = fieldbench.parameter(4000, "most observed positions for which one system holds all", ge=1)
    neighbours: int = fieldbench.parameter(64, "nearest observed positions used beyond that", ge=8)
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
        return self

    def complete(
        self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.Estimate:
        from fieldbench_methods.gaussian_process import complete

        return complete(observation, self, seed)
