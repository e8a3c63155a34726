"""Intervals for any method, from its errors at entries that were withheld from it."""

from __future__ import annotations

import numpy as np

import fieldbench
from fieldbench import LEVELS, Fit, Fold, Withhold, calibrate, calibrated, is_fiber_mask

#: Most that several folds may withhold together, as a share of the observed entries: a fit that lacks more tells little
#: of one that lacks nothing.
_TOGETHER = 1 / 3


class Conformal(fieldbench.Refit):
    """Intervals of a probability that is kept whatever the method, by conformal prediction.

    Observed entries are withheld as the sampler chooses them, the method is fitted to the rest, and its errors there,
    over its own deviation or over a power of the distance to the nearest observation, tell how wide intervals are.
    The last fit lacks what the others lack one by one, all at once: how much worse it is tells how much better the fit
    on all entries is than theirs. The mean stays the method's own. (Lei et al. 2018; Tibshirani et al. 2019.)
    """

    name = "conformal"
    revision = "3"

    level: float = fieldbench.parameter(0.9, "probability of the interval, besides 0.5, 0.9 and 0.95", gt=0, lt=1)
    folds: int = fieldbench.parameter(5, "times that entries are withheld and the method is fitted again", ge=1)
    share: float | None = fieldbench.parameter(
        None, "share of the n observed entries (or fibers) withheld each time; none = n^(-1/3) / 2", gt=0, lt=1
    )

    def complete(
        self, observation: fieldbench.Observation, fit: Fit, withhold: Withhold, seed: int
    ) -> fieldbench.Estimate:
        share = self.share or _share(observation)
        several = min(self.folds - 1, int(_TOGETHER / share))
        masks = [withhold(share, number) for number in range(self.folds - (several > 1))]

        def made_without(withheld: fieldbench.Mask) -> Fold:
            return Fold(withheld, fit(observation.without(withheld), seed).at(withheld))

        folds = [made_without(mask) for mask in masks]
        together = made_without(np.any(masks[:several], axis=0)) if several > 1 else None
        estimate = fit(observation, seed)
        calibration = calibrate(estimate, observation, folds, together=together)
        if calibration.quantile(self.level) is None:
            what = "fibers" if is_fiber_mask(observation.mask, observation.valid) else "entries"
            raise fieldbench.RequestError(
                f"+conformal: {calibration.units} withheld {what} are too few for level={self.level:g}; "
                "raise folds or share"
            )
        return calibrated(estimate, observation, calibration, (self.level, *LEVELS))


def _share(observation: fieldbench.Observation) -> float:
    """The share that balances two errors: fits to fewer entries are worse, and few withheld ones tell little.

    The first grows with the share, the second with the root of one over what is withheld, so that the sum of their
    squares is least where the share falls with the cube root of the observed entries.
    """
    mask = observation.mask.any(axis=-1) if is_fiber_mask(observation.mask, observation.valid) else observation.mask
    return float(mask.sum() ** (-1 / 3) / 2)
