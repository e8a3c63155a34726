"""The modifier ``+tiles``: a large field completed part by part, each with a fit of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import fieldbench
from fieldbench import Estimate, FloatArray, Method, NullReport, Observation, Report, Value, as_estimate, as_field_array

if TYPE_CHECKING:
    Box = tuple[slice, ...]


class Tiles(fieldbench.Wrapper):
    """Overlapping tiles are completed by themselves and blended: what a method learns may differ over the field.

    ``kriging+tiles`` is a set of local Gaussian processes, each with length scales and a noise of its own. A tile with
    less than ``least`` observed entries is completed within a larger part of the field, as large as it takes. Weights
    fall off linearly towards the edges of a tile; the deviation and each quantile are weighted means of those of the
    tiles. Members are left out, since those of one tile have nothing to do with those of the next.
    """

    name: ClassVar[str] = "tiles"
    revision: ClassVar[str | None] = "2"
    conformance_parameters: ClassVar[dict[str, Value]] = {"size": 8, "least": 8}

    size: int = fieldbench.parameter(32, "of a tile along each axis, at most", ge=2, unit="grid steps")
    least: int = fieldbench.parameter(
        100, "observed entries that a tile is completed from, if the field has them", ge=1
    )

    def complete(self, method: Method, observation: Observation, *, seed: int, device: str, report: Report) -> Estimate:
        import numpy as np

        total, sums, tiles = np.zeros(observation.shape), dict[str | float, FloatArray](), list[set[str | float]]()
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
            parts: dict[str | float, FloatArray] = dict(made.quantiles or {}) | {"mean": made.mean}
            if made.deviation is not None:
                parts["deviation"] = made.deviation
            for name, array in parts.items():
                sums.setdefault(name, np.zeros(total.shape))[box] += weights * as_field_array(array)[inner]
            tiles.append(set(parts))
        covered = total > 0
        for array in sums.values():
            array[covered] /= total[covered]
        mean = sums["mean"]
        mean[~covered] = observation.observed.mean()  # where the field does not exist
        alike = set.intersection(*tiles)  # what every tile says
        quantiles = {level: array for level, array in sums.items() if level in alike and isinstance(level, float)}
        deviation = sums["deviation"] if "deviation" in alike else None
        return replace(made, mean=mean, deviation=deviation, members=None, quantiles=quantiles or None)

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
