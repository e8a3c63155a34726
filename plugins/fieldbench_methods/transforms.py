"""Modifiers that complete another form of the field and carry the estimate back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

import fieldbench
from fieldbench import Estimate, FloatArray, Method, Observation, Report, RequestError, as_estimate, as_field_array
from fieldbench_methods.named_axis import axis_number

Back: TypeAlias = Callable[[Estimate], Estimate]
"""Carries an estimate of the transformed field to the unit of the field."""

#: Powers beyond this are more than a number can hold.
_LARGEST = 700.0


class _Transform(fieldbench.Wrapper):
    pointwise: ClassVar[bool] = True

    @abstractmethod
    def transformed(self, observation: Observation) -> tuple[Observation, Back]:
        """What the method is to complete, and the way back.

        Raises:
            RequestError: if the observation cannot be transformed.
        """

    def complete(
        self, method: Method, observation: Observation, *, seed: int, device: str, report: Report
    ) -> ArrayLike | Estimate:
        return self.complete_batch(method, [observation], seeds=[seed], device=device, reports=[report])[0]

    def complete_batch(
        self,
        method: Method,
        observations: Sequence[Observation],
        *,
        seeds: Sequence[int],
        device: str,
        reports: Sequence[Report],
    ) -> Sequence[ArrayLike | Estimate]:
        inside, ways = zip(*map(self.transformed, observations), strict=True)
        told = [_Carried(report, back) for report, back in zip(reports, ways, strict=True)]
        made = method.complete_batch(inside, seeds=seeds, device=device, reports=told)
        return [back(normal(estimate)) for back, estimate in zip(ways, made, strict=True)]

    def batch_size(self, method: Method, shape: Sequence[int], device: str) -> int:
        return method.batch_size(shape, device)

    def applicable(self, method: Method, observation: Observation) -> str | None:
        try:
            inside, _ = self.transformed(observation)
        except RequestError as error:
            return str(error)
        return method.applicable(inside)


class Logarithm(_Transform):
    """The natural logarithm of the field is completed: for positive quantities that vary over decades.

    It is ln(max(x, 0) + floor). The estimate is the exponential of the method's, thus a median; uncertainty becomes
    that of a lognormal.
    """

    name = "log"
    revision = "1"
    scale_equivariant = False

    floor: float | None = fieldbench.parameter(
        None, "added before the logarithm, in the field's unit; none = the log_floor that the dataset gives", gt=0
    )

    def transformed(self, observation: Observation) -> tuple[Observation, Back]:
        floor = observation.log_floor if self.floor is None else self.floor
        if floor is None:
            raise RequestError(f"{self}: this field has no log_floor; give one, as in +log[floor=0.001]")
        values = np.log(np.maximum(observation.filled(), 0) + floor)

        def back(estimate: Estimate) -> Estimate:
            return replace(_mapped(estimate, lambda z: _power(z) - floor), distribution="lognormal", floor=floor)

        return _inside(observation, values), back


class Standardised(_Transform):
    """The observed values are given mean 0 and standard deviation 1, and the estimate is carried back."""

    name = "standardised"
    revision = "1"

    def transformed(self, observation: Observation) -> tuple[Observation, Back]:
        mean, deviation = float(observation.observed.mean()), float(observation.observed.std())
        # Rounding leaves a deviation of about 1e-16 on a constant field; dividing by it would blow it up.
        scale = deviation if deviation > 1e-9 * abs(mean) else 1.0
        inside = _inside(observation, (observation.filled() - mean) / scale, scale)
        return inside, lambda z: shifted(z, mean, scale)


class Anomaly(_Transform):
    """What is left of the field when the mean of each level along one axis is taken off is completed.

    The mean profile is that of the observed values; a level without any lies between its neighbours by linear
    interpolation, beyond the outermost it equals that.
    """

    name = "anomaly"
    revision = "1"

    along: int | str = fieldbench.parameter(0, "axis of the levels, its name or its number from 0")

    def transformed(self, observation: Observation) -> tuple[Observation, Back]:
        axis = axis_number(observation, self.along, str(self))
        others = tuple(other for other in range(observation.ndim) if other != axis)
        counts, sums = observation.mask.sum(axis=others), observation.filled().sum(axis=others, dtype=float)
        known = counts > 0
        order = np.argsort(coordinates := observation.axes[axis].coordinates)
        seen = order[known[order]]
        levels = np.interp(coordinates, coordinates[seen], sums[seen] / counts[seen])
        profile = levels.reshape([-1 if other == axis else 1 for other in range(observation.ndim)])
        return _inside(observation, observation.filled() - profile, 1.0), lambda z: shifted(z, profile)


class _Carried:
    """A report that carries estimates back before it hands them on."""

    def __init__(self, report: Report, back: Back) -> None:
        self._report, self._back = report, back

    @property
    def threads(self) -> int:
        return self._report.threads

    def due(self, step: int) -> bool:
        return self._report.due(step)

    def __call__(self, step: int, estimate: ArrayLike | Estimate, **diagnostics: float) -> None:
        self._report(step, self._back(normal(estimate)), **diagnostics)


def _inside(observation: Observation, values: FloatArray, scale: float | None = None) -> Observation:
    """The observation with other values, which are those of the field over ``scale`` where there is one."""
    metadata, noise = dict(observation.metadata), observation.noise_deviation
    if noise is not None:  # of the field's values, and of their logarithms it is another at each entry
        metadata.pop("noise_deviation")
        metadata |= {} if scale is None else {"noise_deviation": noise / scale}
    return replace(observation.replaced(values), log_floor=None, metadata=metadata)


def normal(made: ArrayLike | Estimate) -> Estimate:
    """An estimate whose deviation is of the values themselves, as double precision arrays."""
    estimate = as_estimate(made)
    quantiles = estimate.quantiles
    return replace(
        estimate,
        mean=as_field_array(estimate.mean),
        deviation=None if estimate.deviation is None else as_field_array(estimate.deviation),
        members=None if estimate.members is None else np.stack([as_field_array(one) for one in estimate.members]),
        quantiles=None if quantiles is None else {level: as_field_array(part) for level, part in quantiles.items()},
    ).in_domain(None)


def _mapped(estimate: Estimate, rising: Callable[[Any], Any]) -> Estimate:
    """Mean, members and quantiles through a rising function; the deviation stays."""
    return replace(
        estimate,
        mean=rising(estimate.mean),
        members=None if estimate.members is None else rising(estimate.members),
        quantiles=None if estimate.quantiles is None else {at: rising(part) for at, part in estimate.quantiles.items()},
    )


def shifted(estimate: Estimate, shift: float | FloatArray, scale: float = 1.0) -> Estimate:
    """A ``normal`` estimate of the values times ``scale`` plus ``shift``.

    Args:
        estimate: ``normal``.
        shift: a number, or an array of the field's shape.
        scale: above 0.
    """
    deviation = None if estimate.deviation is None else scale * estimate.deviation
    return replace(_mapped(estimate, lambda z: scale * z + shift), deviation=deviation)


def _power(logarithms: FloatArray) -> FloatArray:
    return np.exp(np.minimum(logarithms, _LARGEST))
