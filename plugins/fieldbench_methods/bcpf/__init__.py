"""The method ``bcpf``: parameters, scaling, reports and uncertainty."""

from __future__ import annotations

import numpy as np

import fieldbench


class BCPF(fieldbench.Method):
    """Bayesian CP factorisation, which finds the rank by itself and knows how sure it is.

    Zhao, Zhang and Cichocki, "Bayesian CP factorization of incomplete tensors with automatic rank
    determination", IEEE Transactions on Pattern Analysis and Machine Intelligence 37(9), 2015. It works on
    fields of any tensor order from 2. Values are divided by their root mean square, the mean is left in.
    A round costs about n R^2 for n observed entries and R components left, plus R^3 for each grid line.
    """

    name = "bcpf"
    revision = "1"
    conformance_parameters = {"max_rank": 4, "rounds": 5}  # noqa: RUF012

    max_rank: int = fieldbench.parameter(20, "components to start with; those that are not needed fade", ge=1)
    rounds: int = fieldbench.parameter(200, "most rounds of updates", ge=1)
    tolerance: float = fieldbench.parameter(
        1e-5, "root mean square change of the fitted entries at which it stops, as a share of theirs", gt=0
    )
    negligible: float = fieldbench.parameter(
        1e-3, "a component is dropped below this share of the largest one's norm", ge=0, lt=1
    )

    def applicable(self, observation: fieldbench.Observation) -> str | None:
        return "bcpf needs a field of at least 2 axes" if observation.ndim < 2 else super().applicable(observation)

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.Estimate:
        from fieldbench_methods.bcpf.inference import infer

        observed = observation.observed.astype(float)
        largest = float(np.abs(observed).max()) or 1.0
        scale = largest * (float(np.sqrt(np.mean((observed / largest) ** 2))) or 1.0)
        rounds = infer(
            observation.shape,
            observation.indices,
            observed / scale,
            max_rank=self.max_rank,
            rounds=self.rounds,
            tolerance=self.tolerance,
            negligible=self.negligible,
            rng=np.random.default_rng(seed),
        )
        for number, posterior in enumerate(rounds, 1):
            if report.due(number):
                noise = scale / np.sqrt(posterior.noise_precision)
                report(number, scale * posterior.tensor(), rank=posterior.rank, noise=noise)
        return fieldbench.Estimate(scale * posterior.tensor(), scale * np.sqrt(posterior.variance()))
