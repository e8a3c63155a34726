"""The modifier ``+slices``: a field completed one slice at a time, with any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

import fieldbench
from fieldbench import Estimate, FloatArray, Method, Observation, RequestError, as_estimate
from fieldbench_methods.named_axis import axis_number

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slices(fieldbench.Wrapper):
    """Each slice across one axis is completed by itself: a map a day, whatever the days before and after show.

    A slice without any observation lies between the completed ones beside it, by linear interpolation; before the
    first and after the last of them it equals that.
    """

    name: ClassVar[str] = "slices"
    revision: ClassVar[str | None] = "3"

    axis: int | str = fieldbench.parameter(0, "axis that the slices lie across, its name or its number from 0")

    def complete(
        self, method: Method, observation: Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> Estimate:
        axis = axis_number(observation, self.axis, str(self))
        made = dict[int, Estimate]()
        for index, part in _slices_of(observation, axis):
            estimate = method.complete(part, seed=seed, device=device, report=fieldbench.NullReport())
            made[index] = as_estimate(estimate).checked(part.valid)
        if len({(one.distribution, one.floor) for one in made.values()}) > 1:
            made = {index: one.in_domain(None) for index, one in made.items()}
        first = next(iter(made.values()))

        def whole(part: Callable[[Estimate], FloatArray | None]) -> FloatArray | None:
            """A part of the estimate, where all slices have it and alike."""
            parts = {index: part(one) for index, one in made.items()}
            known = {index: array for index, array in parts.items() if array is not None}
            alike = len(known) == len(made) and len({array.shape for array in known.values()}) == 1
            return _assembled(observation, axis, known) if alike else None

        def quantile(level: float) -> FloatArray | None:
            return whole(lambda one: (one.quantiles or {}).get(level))

        quantiles = {level: array for level in first.quantiles or {} if (array := quantile(level)) is not None}
        mean, deviation, members = (whole(attrgetter(name)) for name in ("mean", "deviation", "members"))
        return Estimate(mean, deviation, members, quantiles or None, first.distribution, first.floor)

    def orders(self, method: Method) -> tuple[int, ...] | None:
        return None if method.orders is None else tuple(order + 1 for order in method.orders)

    def applicable(self, method: Method, observation: Observation) -> str | None:
        try:
            axis = axis_number(observation, self.axis, str(self))
        except RequestError as error:
            return str(error)
        return next(filter(None, (method.applicable(part) for _, part in _slices_of(observation, axis))), None)

    def check_shape(self, method: Method, shape: Sequence[int]) -> None:
        if isinstance(self.axis, int) and 0 <= self.axis < len(shape):
            method.check_shape([size for axis, size in enumerate(shape) if axis != self.axis])


def _slices_of(observation: Observation, axis: int) -> Iterator[tuple[int, Observation]]:
    """The slices in which something is observed, with their numbers."""
    import numpy as np

    axes = observation.axes[:axis] + observation.axes[axis + 1 :]
    for index in range(observation.shape[axis]):
        mask = np.take(observation.mask, index, axis)
        if mask.any():
            values, valid = np.take(observation.values, index, axis), np.take(observation.valid, index, axis)
            covariates = {name: np.take(array, index, axis) for name, array in observation.covariates.items()}
            about = {"axes": axes, "valid": valid, "covariates": covariates}
            yield index, replace(observation, values=values, mask=mask, **about)


def _assembled(observation: Observation, axis: int, slices: dict[int, FloatArray]) -> FloatArray:
    """Completed slices as a field, or several, the first axis counting them; missing ones lie between neighbours."""
    import numpy as np

    known, size = np.array(sorted(slices)), observation.shape[axis]
    rows = []
    for index in range(size):
        above = min(int(np.searchsorted(known, index)), len(known) - 1)
        below = max(above - 1, 0) if known[above] > index else above
        one, other = int(known[below]), int(known[above])
        part = 0.0 if one == other else (index - one) / (other - one)
        between = slices[one] if part == 0 else (1 - part) * slices[one] + part * slices[other]
        # Where one neighbour does not exist, the other says more than nothing.
        rows.append(np.where(np.isnan(between), np.where(np.isnan(slices[one]), slices[other], slices[one]), between))
    return np.moveaxis(np.stack(rows), 0, axis - observation.ndim)
