"""Axes that a parameter gives by name or number."""

from __future__ import annotations

from fieldbench import Observation, RequestError


def axis_number(observation: Observation, axis: int | str, asked: str) -> int:
    """The number of an axis of an observation, counted from 0.

    Args:
        observation: whose axes are meant.
        axis: a name, or the number itself.
        asked: the modifier as text, for errors.

    Raises:
        RequestError: if the observation has no such axis, or one axis alone.
    """
    names = [axis.name for axis in observation.axes]
    if observation.ndim < 2:
        raise RequestError(f"{asked} needs a field of at least 2 dimensions; this one is 1-D")
    if isinstance(axis, str) and axis in names:
        return names.index(axis)
    if isinstance(axis, int) and 0 <= axis < observation.ndim:
        return axis
    known = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
    raise RequestError(f"{asked}: the field has the axes {known}")
