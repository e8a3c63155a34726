"""The modifier ``+slices``: a field completed one slice at a time, with any method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import fieldbench
from fieldbench import Estimate, FloatArray, Method, Modifier, Observation, RequestError, as_estimate, as_field_array

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slices(Modifier):
    """Each slice across one axis is completed by itself: a map a day, whatever the days before and after show.

    A slice without any observation lies between the completed ones beside it, by linear interpolation; before the
    first and after the last of them it equals that. Methods that work on fields of certain orders alone do not take it.
    """

    name: ClassVar[str] = "slices"
    revision: ClassVar[str | None] = "1"

    axis: int | str = fieldbench.parameter(0, "axis that the slices lie across, its name or its number from 0")

    def modify(self, method: Method) -> Method:
        if method.modifier(self.name) is not None:
            raise RequestError(f"{method.name}: +{self.name} is given twice; give it once")
        if method.orders is not None:
            raise RequestError(f"{method.name} does not take +{self.name}: it works on fields of certain orders alone")
        values = {key: getattr(method, key) for key in type(method).parameter_names()}
        return _sliced(type(method)).model_construct(**values, modifiers=(*method.modifiers, self))

    def of(self, observation: Observation) -> int:
        """The number of the axis in this observation.

        Raises:
            RequestError: if it has no such axis, or one axis alone.
        """
        names = [axis.name for axis in observation.axes]
        if observation.ndim < 2:
            raise RequestError("slices need a field of at least 2 dimensions; this one is 1-D")
        if isinstance(self.axis, str) and self.axis in names:
            return names.index(self.axis)
        if isinstance(self.axis, int) and 0 <= self.axis < observation.ndim:
            return self.axis
        known = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
        raise RequestError(f"slices[axis={self.axis}]: the field has the axes {known}")


class _Sliced(Method):
    """What a method becomes; the class of the method itself comes second among the bases."""

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> Estimate:
        method, axis = self._plain(), self._slices.of(observation)
        made = {
            index: as_estimate(method.complete(part, seed=seed, device=device, report=fieldbench.NullReport()))
            for index, part in _slices_of(observation, axis)
        }
        means = {index: as_field_array(estimate.mean) for index, estimate in made.items()}
        known = {index: as_field_array(one.deviation) for index, one in made.items() if one.deviation is not None}
        deviation = _assembled(observation, axis, known) if len(known) == len(made) else None
        return replace(next(iter(made.values())), mean=_assembled(observation, axis, means), deviation=deviation)

    def complete_batch(self, observations: Sequence[Observation], **rest: Any) -> Sequence[Any]:
        return Method.complete_batch(self, observations, **rest)

    def batch_size(self, shape: Sequence[int], device: str) -> int:
        return 1

    def applicable(self, observation: Observation) -> str | None:
        try:
            axis = self._slices.of(observation)
        except RequestError as error:
            return str(error)
        return next((self._plain().applicable(part) for _, part in _slices_of(observation, axis)), None)

    def check_shape(self, shape: Sequence[int]) -> None:
        if isinstance(self._slices.axis, int) and 0 <= self._slices.axis < len(shape):
            self._plain().check_shape([size for axis, size in enumerate(shape) if axis != self._slices.axis])

    @property
    def _slices(self) -> Slices:
        slices = self.modifier(Slices.name)
        assert isinstance(slices, Slices)
        return slices

    def _plain(self) -> Method:
        assert self.derived_from is not None
        values = {key: getattr(self, key) for key in type(self).parameter_names()}
        others = tuple(modifier for modifier in self.modifiers if modifier is not self._slices)
        return self.derived_from.model_construct(**values, modifiers=others)


@cache
def _sliced(cls: type[Method]) -> type[Method]:
    """The class of a method that completes slice by slice."""
    return type(cls.__name__, (_Sliced, cls), {"__doc__": cls.__doc__, "__module__": __name__, "derived_from": cls})


def _slices_of(observation: Observation, axis: int) -> Iterator[tuple[int, Observation]]:
    """The slices in which something is observed, with their numbers."""
    import numpy as np

    axes = observation.axes[:axis] + observation.axes[axis + 1 :]
    for index in range(observation.shape[axis]):
        mask = np.take(observation.mask, index, axis)
        if mask.any():
            valid = np.take(observation.valid, index, axis)
            yield (
                index,
                Observation(
                    np.take(observation.values, index, axis),
                    mask,
                    axes,
                    observation.unit,
                    observation.quantity,
                    valid,
                    observation.log_floor,
                    observation.metadata,
                ),
            )


def _assembled(observation: Observation, axis: int, slices: dict[int, FloatArray]) -> FloatArray:
    """Completed slices as a field; those that are missing lie between their neighbours."""
    import numpy as np

    known = np.array(sorted(slices))
    field = np.empty(observation.shape)
    places = np.moveaxis(field, axis, 0)
    for index in range(len(places)):
        above = min(int(np.searchsorted(known, index)), len(known) - 1)
        below = max(above - 1, 0) if known[above] > index else above
        one, other = int(known[below]), int(known[above])
        part = 0.0 if one == other else (index - one) / (other - one)
        places[index] = slices[one] if part == 0 else (1 - part) * slices[one] + part * slices[other]
    return field
