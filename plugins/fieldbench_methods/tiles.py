"""The modifier ``+tiles``: a large field completed part by part, each with a fit of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import fieldbench
from fieldbench import Estimate, Method, NullReport, Observation, Report, Value, as_estimate, as_field_array

if TYPE_CHECKING:
    from fieldbench import FloatArray

    Box = tuple[slice, ...]


class Tiles(fieldbench.Wrapper):
    """Overlapping tiles are completed by themselves and blended: what a method learns may differ over the field.

    ``kriging+tiles`` is a set of local Gaussian processes, each with length scales and a noise of its own. A tile with
    less than ``least`` observed entries is completed within a larger part of the field, as large as it takes. Weights
    fall off linearly towards the edges of a tile; the deviation is the weighted mean of those of the tiles.
    """

    name: ClassVar[str] = "tiles"
    revision: ClassVar[str | None] = "1"
    conformance_parameters: ClassVar[dict[str, Value]] = {"size": 8, "least": 8}

    size: int = fieldbench.parameter(32, "of a tile along each axis, at most", ge=2, unit="grid steps")
    least: int = fieldbench.parameter(
        100, "observed entries that a tile is completed from, if the field has them", ge=1
    )

    def complete(self, method: Method, observation: Observation, *, seed: int, device: str, report: Report) -> Estimate:
        import numpy as np

        total = np.zeros(observation.shape)
        mean, deviation = np.zeros(observation.shape), np.zeros(observation.shape)
        for box in self._boxes(observation.shape):
            if not observation.valid[box].any():
                continue
            wider = self._with_enough(box, observation)
            made = as_estimate(method.complete(observation.part(wider), seed=seed, device=device, report=NullReport()))
            inner = tuple(
                slice(one.start - other.start, one.stop - other.start) for one, other in zip(box, wider, strict=True)
            )
            weights = _weights(box)
            total[box] += weights
            mean[box] += weights * as_field_array(made.mean)[inner]
            stated = np.nan if made.deviation is None else as_field_array(made.deviation)[inner]
            deviation[box] += weights * stated
        covered = total > 0
        mean[covered] /= total[covered]
        mean[~covered] = observation.observed.mean()  # where the field does not exist
        if not np.isfinite(deviation[observation.valid]).all():
            return Estimate(mean)
        deviation[covered] /= total[covered]
        return replace(made, mean=mean, deviation=deviation, members=None, quantiles=None)

    def applicable(self, method: Method, observation: Observation) -> str | None:
        boxes = self._boxes(observation.shape)
        parts = (observation.part(self._with_enough(box, observation)) for box in boxes)
        return next(filter(None, (method.applicable(part) for part in parts)), None)

    def check_shape(self, method: Method, shape: Sequence[int]) -> None:
        method.check_shape([min(self.size, size) for size in shape])

    def _boxes(self, shape: Sequence[int]) -> Iterator[Box]:
        """The tiles: along each axis as few as overlap by half, at equal distances."""
        along = []
        for size in shape:
            tile = min(self.size, size)
            count = 1 if tile == size else 1 + -(-(size - tile) // max(tile // 2, 1))
            starts = [round(number * (size - tile) / max(count - 1, 1)) for number in range(count)]
            along.append([slice(start, start + tile) for start in starts])
        yield from product(*along)

    def _with_enough(self, box: Box, observation: Observation) -> Box:
        """The tile, widened by half of its size on every side until it has enough observed entries."""
        wider, enough = box, min(self.least, int(observation.mask.sum()))
        while observation.mask[wider].sum() < enough:
            step = max(self.size // 2, 1)
            wider = tuple(
                slice(max(part.start - step, 0), min(part.stop + step, size))
                for part, size in zip(wider, observation.shape, strict=True)
            )
        return wider


def _weights(box: Box) -> FloatArray:
    """Products of triangles along the axes; no entry of a tile weighs nothing."""
    import numpy as np

    weights = np.ones(())
    for part in box:
        size = part.stop - part.start
        ramp = np.minimum(np.arange(1, size + 1), np.arange(size, 0, -1))
        weights = np.multiply.outer(weights, ramp / ramp.max())
    return weights
