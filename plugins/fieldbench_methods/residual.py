"""The modifier ``+residual``: what one method leaves over is completed by another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import fieldbench
from fieldbench import Estimate, Method, MethodParameter, NullReport, Observation, Report, Value
from fieldbench_methods.transforms import normal, shifted


class Residual(fieldbench.Wrapper):
    """Another method completes the field first, and this one completes what is left over at the observed entries.

    The estimate is the sum of both. Where it is uncertain, the uncertainty is that of this method alone. A method that
    keeps the observed values leaves nothing over.
    """

    name = "residual"
    revision = "2"
    pointwise: ClassVar[bool] = True
    conformance_parameters: ClassVar[dict[str, Value]] = {"of": "tucker-als[iterations=5]"}

    of: MethodParameter = fieldbench.parameter(
        "tucker-als", "the method that completes the field first, with its parameters: of=kriging[kernel=exponential]"
    )

    def complete(self, method: Method, observation: Observation, *, seed: int, device: str, report: Report) -> Estimate:
        there = device if self.of.uses_gpu else "cpu"
        first = normal(self.of.complete(observation, seed=seed, device=there, report=NullReport())).mean
        left_over = replace(observation.replaced(observation.filled() - first), log_floor=None)
        there = device if method.uses_gpu else "cpu"
        rest = method.complete(left_over, seed=seed, device=there, report=NullReport())
        return shifted(normal(rest), first)

    def orders(self, method: Method) -> tuple[int, ...] | None:
        if method.orders is None or self.of.orders is None:
            return self.of.orders if method.orders is None else method.orders
        return tuple(order for order in method.orders if order in self.of.orders)

    def applicable(self, method: Method, observation: Observation) -> str | None:
        return self.of.applicable(observation) or method.applicable(replace(observation, log_floor=None))

    def check_shape(self, method: Method, shape: Sequence[int]) -> None:
        self.of.check_shape(shape)
        method.check_shape(shape)
