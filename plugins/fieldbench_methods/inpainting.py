"""Inpainting: the unobserved entries take the values that make the field as smooth as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

import fieldbench
from fieldbench import FloatArray, Observation, is_fiber_mask
from fieldbench_methods.axis_scale import AxisScale, axis_scale_parameter, check_axis_scale

#: Of one entry of the grid, land included, in bytes.
_GRID_MEMORY = 100
#: GiB that are worth asking for.
_MOST_MEMORY = 6.0


class _Inpainting(fieldbench.Method):
    bends: ClassVar[bool]
    #: Of one entry where the field exists, in bytes, measured on cubes of 100 and 200 entries an edge.
    memory: ClassVar[int]

    axis_scale: AxisScale = axis_scale_parameter()

    def check_shape(self, shape: Sequence[int]) -> None:
        check_axis_scale(self.axis_scale, shape)

    def applicable(self, observation: Observation) -> str | None:
        # Whole fibers are one position each.
        valid = observation.valid
        in_fibers = is_fiber_mask(observation.mask, observation.valid)
        positions = np.asarray(valid.any(axis=-1)) if in_fibers else valid
        entries = int(positions.sum())
        memory = (self.memory * entries + _GRID_MEMORY * positions.size) / 2**30
        if memory > _MOST_MEMORY:
            return (
                f"{self.name} would need about {memory:.0f} GiB for {entries:,} entries; take {self.name}+slices, "
                "which needs that of a slice, or thin-plate"
            )
        return None

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        from fieldbench_methods.smoothness import complete

        return complete(observation, self.bends, self.axis_scale, seed)


class Harmonic(_Inpainting):
    """Harmonic inpainting: least squared first differences, each axis with its scale.

    Unobserved entries solve the discrete Laplace equation with the observed ones as its boundary values and
    no flux across the edges of the grid. Power in the log domain, bin by bin where whole fibers are observed.
    """

    name = "harmonic"
    revision = "3"
    bends: ClassVar[bool] = False
    memory: ClassVar[int] = 750


class Biharmonic(_Inpainting):
    """Biharmonic inpainting: least squared second differences, mixed ones included, each axis with its scale.

    The thin-plate energy on the grid, with free edges: a linear trend costs nothing. Power in the log
    domain, bin by bin where whole fibers are observed.
    """

    name = "biharmonic"
    revision = "3"
    bends: ClassVar[bool] = True
    memory: ClassVar[int] = 3500
