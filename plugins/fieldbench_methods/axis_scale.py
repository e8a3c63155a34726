"""How far one step along each axis counts: given, or learned on withheld observed entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field

import fieldbench
from fieldbench import Axis, FloatArray, Observation, RequestError
from fieldbench_methods.scattered import Scattered, irregular, positions, scatter
from fieldbench_methods.withholding import Predict, box, error, imitations

AxisScale: TypeAlias = tuple[Annotated[float, Field(gt=0)], ...] | None

#: A scale is used only if it lowers the error at withheld positions by this over the root of their number; less may
#: be chance.
_CHANCE = 3.0
#: A step of the search goes on only if it lowers the error by this share: where that is flat, scales stay moderate.
_STEP_WORTH = 0.02
#: Withheld positions, whose error decides.
_JUDGES = 600
#: Observed positions that settings are chosen on, at most; of more, those in a box of the field.
MOST_POINTS = 150_000
#: With fewer observed positions nothing is learned.
_FEWEST = 30
#: One axis may be scaled against another by 2 to the power of this, at most.
_OCTAVES = 6


def axis_scale_parameter(otherwise: str = "none = learned on withheld observed entries") -> Any:
    """The parameter ``axis_scale`` of a method."""
    return fieldbench.parameter(None, f"distance that one step along each axis counts, (4,1,1); {otherwise}")


def check_axis_scale(scale: AxisScale, shape: Sequence[int]) -> None:
    """Raise ValueError unless there is a number for each axis, or for each but the last (whole fibers)."""
    # Whether whole fibers are observed, a shape does not tell.
    if scale is not None and len(scale) not in {len(shape), max(len(shape) - 1, 1)}:
        raise ValueError(
            f"axis_scale={scale}: give {len(shape)} numbers, one for each axis "
            "(without the last where whole fibers are observed)"
        )


@dataclass(frozen=True)
class PositionScale:
    """Where positions lie for a method that works with distances.

    Attributes:
        scale: distance that one step counts, one number for each axis of the positions.
        by_index: whether the index is the position along irregular axes too.
    """

    scale: tuple[float, ...]
    by_index: bool = False

    def positions(self, axes: Sequence[Axis]) -> FloatArray:
        """Every grid position, shape (number of positions, number of axes); steps along further axes count 1."""
        return positions(axes, by_index=self.by_index) * np.array([*self.scale, *[1.0] * len(axes)][: len(axes)])


def geometries(observation: Observation, scale: AxisScale) -> list[Scattered]:
    """The observation as scattered points, scaled if ``scale`` is given; by coordinates, and by index if that differs.

    Raises:
        RequestError: if the number of scales is not that of the axes of the positions.
    """
    made = [scatter(observation)]
    dimensions = made[0].points.shape[1]
    if scale is not None:
        if len(scale) != dimensions:
            raise RequestError(f"axis_scale={scale}: give {dimensions} numbers, one for each axis that is completed")
        return [_scaled(made[0], scale)]
    if irregular(observation.axes[:dimensions]):
        made.append(scatter(observation, by_index=True))
    return made


def arranged(
    observation: Observation, scale: AxisScale, predict: Predict, seed: int
) -> tuple[Scattered, PositionScale]:
    """The observation as scattered points, scaled as given or as makes ``predict`` best at withheld positions.

    Args:
        observation: to be arranged.
        scale: of the axes as given; learned where None.
        predict: what the scale should suit.
        seed: chooses the positions that are withheld.
    """
    choices = geometries(observation, scale)
    if scale is not None:
        return choices[0], PositionScale(scale)
    geometry = _learned(choices, predict, np.random.default_rng(seed))
    return _scaled(choices[geometry.by_index], geometry.scale), geometry


def _scaled(data: Scattered, scale: Sequence[float]) -> Scattered:
    if set(scale) == {1.0}:
        return data
    return replace(data, points=data.points * np.array(scale), targets=data.targets * np.array(scale))


def _learned(choices: Sequence[Scattered], predict: Predict, rng: np.random.Generator) -> PositionScale:
    data = choices[0]
    equal = (1.0,) * data.points.shape[1]
    if len(data.points) < _FEWEST or not len(data.targets):
        return PositionScale(equal)
    part = box(data.observed, data.missing, MOST_POINTS / len(data.points), rng)
    inside = np.zeros(data.observed.shape, dtype=bool)
    inside[part] = True
    some = inside[data.observed]
    trials = imitations(data.observed[part], data.missing[part], _JUDGES, rng)
    values, sampled = data.values[some], [one.points[some] for one in choices]

    def judge(by_index: int, scale: tuple[float, ...]) -> float:
        return error(trials, sampled[by_index] * np.array(scale), values, predict)

    by_index = int(np.argmin([judge(index, equal) for index in range(len(choices))]))
    scale = search(lambda some: judge(by_index, some), len(equal), _OCTAVES, _STEP_WORTH)
    chance = _CHANCE / sum(len(trial.validation) for trial in trials) ** 0.5
    worth = judge(by_index, scale) < (1 - chance) * judge(by_index, equal)
    return PositionScale(scale if worth else equal, bool(by_index))


def search(
    error: Callable[[tuple[float, ...]], float], axes: int, octaves: int, worth: float = 0.0
) -> tuple[float, ...]:
    """Scales of small error, powers of the root of 2; only their ratios matter, and stay within 2 ** ``octaves``.

    Starts from equal scales and multiplies or divides one at a time by 2, then by its root, for as long as that
    lowers the error by more than the share ``worth``.

    Args:
        error: of scales, one for each axis.
        axes: number of axes.
        octaves: largest ratio of two scales, as a power of 2.
        worth: share of the error that a step must save.
    """
    known: dict[tuple[int, ...], float] = {}

    def judge(halves: tuple[int, ...]) -> float:
        key = tuple(half - halves[0] for half in halves)
        if key not in known:
            known[key] = error(_powers(halves))
        return known[key]

    best = (0,) * axes
    for step in (2, 1) if axes > 1 else ():
        improved = True
        while improved:
            around = [
                tuple(half + change * (axis == changed) for axis, half in enumerate(best))
                for changed in range(axes)
                for change in (step, -step)
            ]
            leader = min((halves for halves in around if max(halves) - min(halves) <= 2 * octaves), key=judge)
            improved = judge(leader) < (1 - worth) * judge(best)
            best = leader if improved else best
    return _powers(best)


def _powers(halves: Sequence[int]) -> tuple[float, ...]:
    return tuple(2.0 ** (half / 2) for half in halves)
