"""Inpainting: the unobserved entries take the values that make the field as smooth as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

import fieldbench
from fieldbench import FloatArray, Observation

_Weight = Annotated[float, Field(gt=0)]
_WEIGHTS = "weight of each axis's differences, (1,1,2); none = chosen on withheld observed entries"


class _Inpainting(fieldbench.Method):
    bends: ClassVar[bool]

    weights: tuple[_Weight, ...] | None = fieldbench.parameter(None, _WEIGHTS)

    def check_shape(self, shape: Sequence[int]) -> None:
        # One less suits whole fibers; whether those are observed, a shape does not tell.
        if self.weights is not None and len(self.weights) not in {len(shape), max(len(shape) - 1, 1)}:
            raise ValueError(
                f"weights={self.weights}: give {len(shape)} numbers, one for each axis "
                "(without the last where whole fibers are observed)"
            )

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        from fieldbench_methods.smoothness import complete

        return complete(observation, self.bends, self.weights, seed)


class Harmonic(_Inpainting):
    """Harmonic inpainting: least squared first differences, weighted axis by axis.

    Unobserved entries solve the discrete Laplace equation with the observed ones as its boundary values and
    no flux across the edges of the grid. Power in the log domain, bin by bin where whole fibers are observed.
    """

    name = "harmonic"
    revision = "2"
    bends: ClassVar[bool] = False


class Biharmonic(_Inpainting):
    """Biharmonic inpainting: least squared second differences, mixed ones included, weighted axis by axis.

    The thin-plate energy on the grid, with free edges: a linear trend costs nothing. Power in the log
    domain, bin by bin where whole fibers are observed.
    """

    name = "biharmonic"
    revision = "2"
    bends: ClassVar[bool] = True
