"""From what was read to what is to be written: complete a variable, within limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fieldbench.completion import AUTO, BUDGET, Completed, complete
from fieldbench.completion.limits import Limits
from fieldbench.errors import RequestError
from fieldbench.field import Axis, FloatArray, Mask, Observation
from fieldbench.files import Completion, GriddedVariable
from fieldbench.files.axes import is_latitude

#: What is said of an error at gaps that cannot be imitated.
BEYOND = "beyond what can be checked"


@dataclass(frozen=True, eq=False)
class Filled:
    """A variable with its gaps filled.

    Attributes:
        completion: what is to be written.
        made: the comparison, and the method that was chosen.
        gaps: how many entries were filled.
        remarks: what else the user should know, a line each.
    """

    completion: Completion
    made: Completed
    gaps: int
    remarks: tuple[str, ...]


def fill(
    gridded: GriddedVariable,
    method: str = AUTO,
    *,
    log_floor: float | None = None,
    metadata: Mapping[str, float] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    by_area: bool = False,
    denoise: bool = False,
    candidates: Sequence[str] = (),
    budget: float = BUDGET,
    share: float = 0.1,
    seed: int = 0,
    mix: bool = True,
    **how: Any,
) -> Filled:
    """Fill the gaps of what was read from a file.

    Args:
        gridded: what was read.
        method: a method's spec, or ``auto``.
        log_floor, metadata: as in :meth:`fieldbench.files.GriddedVariable.observation`.
        limits: what may be filled.
        by_area: weight errors and the mean by the area of a grid cell, for a field on latitudes.
        denoise: replace observed entries by the method's estimate as well.
        candidates, budget, share, seed: as in :func:`fieldbench.completion.complete`; noted beside the values.
        mix: as there; classes are never averaged.
        how: further arguments of :func:`fieldbench.completion.complete`.

    Raises:
        RequestError: if there is nothing to fill, or the request is wrong.
    """
    missing = gridded.missing
    chosen_freely = method == AUTO and not candidates
    observation, near = fillable(gridded, chosen_freely, log_floor, metadata, limits)
    weights = areas(gridded.axes) if by_area else None
    # What is to stay missing is not a gap: it is neither estimated, nor does the expected error count it.
    made = complete(
        replace(observation, valid=observation.valid & near),
        method,
        candidates=candidates,
        weights=weights,
        budget=budget,
        share=share,
        seed=seed,
        mix=mix and not gridded.classes,
        **how,
    )
    outside = observation.valid & ~near
    values = np.where(outside, np.nan, limits.possible(made.values, observation.observed))
    changed = missing & near & (values != made.values)
    if not denoise:
        values[observation.mask] = observation.observed
    if gridded.classes and gridded.variable.flags and not np.isin(values[missing & near], gridded.classes).all():
        raise RequestError(f"{made.method} made values between the classes; {_classes(gridded)}")
    remarks = [*_of_error(made, gridded.variable.unit), *_of_deviation(made, observation)]
    if outside.any():
        remarks.append(f"{int(outside.sum())} gaps are farther from an observation than max-gap says, and stay missing")
    if changed.any():
        remarks.append(f"{int(changed.sum())} estimates were not possible, and were brought into the range")
    beyond = limits.possible(observation.observed, observation.observed) != observation.observed
    if beyond.any():
        remarks.append(f"{int(beyond.sum())} observed values are not possible by what was said of the range")
    low, high = gridded.variable.limits
    stored = values.astype(gridded.variable.limits.dtype)
    if invalid := int((missing & ((stored < low) | (stored > high))).sum()):
        remarks.append(
            f"{invalid} completed values of {gridded.name} lie outside its valid range ({low:g} to {high:g}), which is "
            "left out, or readers would take them as missing"
        )
    if weights is not None:
        mean = float(np.average(values[~np.isnan(values)], weights=weights[~np.isnan(values)]))
        remarks.append(f"mean of {gridded.name}, weighted by area: {mean:.6g} {gridded.variable.unit}".rstrip())
    deviation = None if made.deviation is None else np.where(outside, np.nan, made.deviation)
    completion = Completion(gridded, values, deviation, _notes(made, seed, share, budget, by_area))
    return Filled(completion, made, int((missing & near).sum()), tuple(remarks))


def fillable(
    gridded: GriddedVariable,
    chosen_freely: bool,
    log_floor: float | None,
    metadata: Mapping[str, float] | None,
    limits: Limits,
) -> tuple[Observation, Mask]:
    """What a method may see, and where gaps may be filled (observed entries are True as well).

    Args:
        gridded, log_floor, metadata, limits: as in :func:`fill`.
        chosen_freely: whether the method is chosen among all; then classes are refused, as most would average them.

    Raises:
        RequestError: if there is nothing to fill, or the request does not fit the variable.
    """
    if not gridded.missing.any():
        raise RequestError("; ".join([f"{gridded.name} has no gap to fill", *gridded.remarks]))
    if gridded.classes and chosen_freely:
        raise RequestError(_classes(gridded))
    observation = gridded.observation(log_floor, metadata)
    near = limits.near(observation)
    if not (gridded.missing & near).any():
        raise RequestError(f"no gap of {gridded.name} lies as near to an observation as max-gap asks")
    return observation, near


def areas(axes: tuple[Axis, ...]) -> FloatArray:
    """The relative area of each entry's grid cell on the sphere: the cosine of its latitude.

    Raises:
        RequestError: if no axis is a latitude.
    """
    for index, axis in enumerate(axes):
        if is_latitude(axis):
            # Beside a pole a cell reaches over half a step only, and its area is not zero.
            cosines = np.cos(np.radians(np.minimum(np.abs(axis.coordinates), 90 - min(axis.spacing, 90) / 4)))
            along = cosines.reshape([-1 if other == index else 1 for other in range(len(axes))])
            return np.array(np.broadcast_to(along, [len(axis) for axis in axes]))
    names = ", ".join(f"{axis.name} ({axis.unit or 'no unit'})" for axis in axes)
    raise RequestError(f"by-area needs an axis of latitudes in degrees_north; there are {names}")


def _of_error(made: Completed, unit: str) -> list[str]:
    """The interval of the error at the gaps, as a line, or that it cannot be told."""
    if made.beyond:
        return [f"The error at the gaps is {BEYOND}: most are harder to predict than anything that could be withheld"]
    if made.promise is None or not math.isfinite(made.promise.high):
        return []
    unit = unit if made.metric == "rmse" else ""
    return [f"With a probability of 90 %, it is {made.promise.low:.3g} to {made.promise.high:.3g} {unit}".rstrip()]


def _of_deviation(made: Completed, observation: Observation) -> list[str]:
    """What its standard deviations promise, as a line, or that nothing was checked of them."""
    if made.deviation is None or not made.withheld:
        return []
    if not made.intervals:
        return ["Its standard deviations are not checked"]
    of = "of the logarithm " if observation.log_floor is not None else ""
    within = ", ".join(f"{level:.0%} within {width:.2g}".replace("%", " %") for level, width in made.intervals.items())
    return [f"Calibrated at withheld entries, its standard deviations {of}promise of the gaps: {within}"]


def _classes(gridded: GriddedVariable) -> str:
    listed = ", ".join(f"{number:g}" for number in gridded.classes[:8]) + (", ..." if len(gridded.classes) > 8 else "")
    amounts = "" if gridded.variable.flags else "; if its numbers are amounts, name methods: --among kriging,thin-plate"
    return (
        f"{gridded.name} holds {len(gridded.classes)} classes ({listed}), and nothing lies between two classes; "
        f"--method nearest fills gaps with the nearest class{amounts}"
    )


def _notes(made: Completed, seed: int, share: float, budget: float, by_area: bool) -> dict[str, str | float]:
    """What is noted beside the values."""
    from fieldbench import __version__

    notes: dict[str, str | float] = {"method": made.method, "version": __version__, "seed": seed}
    if made.promise is None and not made.beyond:
        return notes
    error = f"estimated_{made.metric}"
    if made.promise is None:
        notes[error] = BEYOND
    else:
        notes |= {error: made.promise.expected, f"{error}_low": made.promise.low, f"{error}_high": made.promise.high}
    ranked = [item for item in made.comparison if item.errors]
    folds = next(len(item.errors) for item in ranked if item.method == made.method)
    times = "in 1 fold" if folds == 1 else f"in each of {folds} folds"
    weighted = ", weighted by area" if by_area else ""
    notes |= {f"deviations_for_{100 * level:.0f}_percent": width for level, width in made.intervals.items()}
    notes["estimated_by"] = f"{made.withheld} observed entries withheld {times} (share {share:g}){weighted}"
    if len(ranked) > 1:
        notes["chosen_among"] = "; ".join(f"{item.method} {item.ratio:.3g}" for item in ranked)
        notes["budget_seconds"] = budget
    return notes
