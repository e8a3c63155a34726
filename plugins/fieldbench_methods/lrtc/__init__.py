"""Low-rank tensor completion by nuclear norms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Literal

import fieldbench
from fieldbench import FloatArray, Log, Observation, RequestError, Value


class LRTC(fieldbench.Method):
    """Low-rank tensor completion: the smallest nuclear norm that agrees with the observed entries.

    ``tsvd``: the tensor nuclear norm of the t-SVD, by ADMM (Zhang et al., CVPR 2014). A 3-D field is a
    bundle of tubes along one axis, Fourier-transformed along it, and low-rank in the other two; the tubes
    of a 4-D field are planes, and a 2-D field has none (plain matrix completion).
    ``silrtc`` and ``halrtc``: nuclear norms of the unfoldings, by block coordinate descent on a relaxed
    problem and by ADMM on the exact one (Liu et al., PAMI 2013, algorithms 1 and 4).
    Values are divided by their observed maximum (power: standardised logarithms).
    """

    name = "lrtc"
    revision = "1"
    conformance_parameters: ClassVar[dict[str, Value]] = {"iterations": 30}

    variant: Literal["tsvd", "silrtc", "halrtc"] = fieldbench.parameter(
        "tsvd", "which nuclear norm and algorithm", search=["tsvd", "silrtc", "halrtc"]
    )
    tube: int | tuple[int, ...] | None = fieldbench.parameter(
        None, "tsvd: the axis (4-D: axes) of the tubes, from 0; none = chosen on withheld observed entries"
    )
    alpha: float = fieldbench.parameter(
        1.0, "silrtc: weight of each unfolding's nuclear norm", gt=0, search=Log(0.01, 100)
    )
    beta: float = fieldbench.parameter(
        1.0, "silrtc: weight of each unfolding's distance to the field", gt=0, search=Log(0.01, 100)
    )
    iterations: int = fieldbench.parameter(500, "most iterations", ge=1)
    tolerance: float = fieldbench.parameter(
        1e-5, "stop when an iteration changes the estimate by less than this share of the observed norm", ge=0
    )

    def check_shape(self, shape: Sequence[int]) -> None:
        if self.variant == "tsvd" and self.tube is not None and self._tubes(len(shape))[0] not in _choices(len(shape)):
            wanted = max(len(shape) - 2, 0)
            raise ValueError(f"tube must name {wanted} different axes of 0 to {len(shape) - 1}, all but two")

    def applicable(self, observation: Observation) -> str | None:
        if self.variant == "tsvd" and observation.ndim < 2:
            return "lrtc[variant=tsvd] works on fields of at least 2 dimensions; this one is 1-D"
        return None

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        from fieldbench_methods.lrtc import solve

        try:
            self.check_shape(observation.shape)
        except ValueError as error:
            raise RequestError(f"lrtc: {error}") from None
        limits = solve.Stopping(self.iterations, self.tolerance)
        if self.variant == "silrtc":
            return solve.complete(observation, solve.silrtc(self.alpha, self.beta), limits, report)
        if self.variant == "halrtc":
            return solve.complete(observation, solve.halrtc(), limits, report)
        tubes = self._tubes(observation.ndim)
        best = tubes[0] if len(tubes) == 1 else solve.choose_tubes(observation, tubes, limits, seed)
        return solve.complete(observation, solve.tsvd(best), limits, report)

    def _tubes(self, order: int) -> list[tuple[int, ...]]:
        """The axes of the tubes to try."""
        if self.tube is None:
            return _choices(order)
        return [tuple(sorted(self.tube)) if isinstance(self.tube, tuple) else (self.tube,)]


def _choices(order: int) -> list[tuple[int, ...]]:
    return list(combinations(range(order), order - 2)) if order >= 2 else []
