"""Members from different seeds: how far the chance within a method carries its estimate."""

from __future__ import annotations

import numpy as np

import fieldbench
from fieldbench import MOST_ARRAYS, Fit, Withhold, in_domain


class Ensemble(fieldbench.Refit):
    """Several fits with seeds of their own; the estimate is their mean (of power, that of the logarithms).

    Members differ by the chance within the method alone, so that they are often too sure; ``+ensemble+conformal``
    mends that. A method that makes no use of its seed has no ensemble. (Lakshminarayanan et al. 2017.)
    """

    name = "ensemble"
    revision = "1"

    members: int = fieldbench.parameter(8, "fits, each with its own seed", ge=2, le=MOST_ARRAYS)

    def complete(
        self, observation: fieldbench.Observation, fit: Fit, withhold: Withhold, seed: int
    ) -> fieldbench.Estimate:
        seeds = np.random.SeedSequence(seed).generate_state(self.members)
        members = np.stack([fit(observation, int(number)).mean for number in seeds])
        if (members[1:] == members[0])[:, observation.valid].all():
            raise fieldbench.RequestError("+ensemble: every seed gives the same estimate; use +conformal in its place")
        floor = observation.log_floor
        centre = in_domain(members, floor).mean(axis=0)
        mean = centre if floor is None else np.maximum(np.exp(centre) - floor, 0.0)
        return fieldbench.Estimate(mean, members=members)
