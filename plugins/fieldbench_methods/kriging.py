"""Kriging: the best linear prediction from observed values whose covariance depends on distance."""

from __future__ import annotations

from typing import ClassVar, Literal

import fieldbench
from fieldbench.field import Observation
from fieldbench.spec import Value


class Kriging(fieldbench.Method):
    """Ordinary kriging (a Gaussian process of unknown mean) with one length scale an axis and a nugget.

    Length scales and nugget maximise the restricted likelihood on up to ``fit`` observed positions;
    variance and mean follow in closed form, bin by bin where whole fibers are observed. Power is kriged
    in the log domain. Up to ``exact`` positions one system holds all; beyond, each target is predicted
    from its nearest ones (in length scales). The predictive standard deviation is that of the field,
    without the noise. (Cressie 1993, section 3.2; Rasmussen and Williams 2006, sections 2.7 and 5.4.)
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

    def complete(
        self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.Estimate:
        from fieldbench_methods.gaussian_process import complete

        return complete(observation, self.kernel, self.fit, self.exact, self.neighbours, seed)
