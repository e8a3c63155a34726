"""Splines: the smoothest surface through the observed values, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import fieldbench
from fieldbench import Estimate, Log, Value
from fieldbench_methods.axis_scale import AxisScale, axis_scale_parameter, check_axis_scale

_EXACT = "most observed positions for which one system holds all; beyond, each target uses its nearest ones"


class ThinPlate(fieldbench.Method):
    """Thin-plate spline r^2 log r with a linear trend, on the grid.

    scipy's RBFInterpolator in grid steps, or in those of ``axis_scale``; power in the log domain, bin by bin where
    whole fibers are observed. (Duchon 1977; Wahba 1990.)
    """

    name = "thin-plate"
    revision = "3"
    pointwise: ClassVar[bool] = True

    smoothing: float = fieldbench.parameter(
        0.0, "added to the kernel's diagonal; 0 goes through every observed value", ge=0, search=Log(1e-4, 10)
    )
    exact: int = fieldbench.parameter(4000, _EXACT, ge=1)
    neighbours: int = fieldbench.parameter(64, "nearest observed positions used beyond that", ge=8)
    axis_scale: AxisScale = axis_scale_parameter()

    def check_shape(self, shape: Sequence[int]) -> None:
        check_axis_scale(self.axis_scale, shape)

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> Estimate:
        from fieldbench_methods.polyharmonic import arrange, complete

        data = arrange(observation, self.axis_scale, "thin_plate_spline", self.smoothing, seed)
        return complete(data, "thin_plate_spline", self.smoothing, self.exact, self.neighbours, seed)


class RadialBasis(fieldbench.Method):
    """Polyharmonic spline whose kernel and smoothing are chosen by leave-one-out error.

    Up to 500 observed positions are each predicted from their nearest other ones; the pair of smallest
    error is used for all. Kernels are scipy's: linear -r, thin-plate r^2 log r, cubic r^3. In grid steps, or in
    those of ``axis_scale``. Its deviation is that of ``thin-plate`` for its kernel.
    """

    name = "rbf"
    revision = "3"
    pointwise: ClassVar[bool] = True
    conformance_parameters: ClassVar[dict[str, Value]] = {"neighbours": 8}

    kernel: Literal["linear", "thin_plate_spline", "cubic"] | None = fieldbench.parameter(
        None,
        "scipy's name of the kernel; none = chosen by leave-one-out error",
        search=[None, "linear", "thin_plate_spline", "cubic"],
    )
    smoothing: float | None = fieldbench.parameter(
        None,
        "added to the kernel's diagonal; none = chosen by leave-one-out error",
        ge=0,
        search=[None, 0.0, 1e-3, 1e-2, 0.1, 1.0],
    )
    exact: int = fieldbench.parameter(4000, _EXACT, ge=1)
    neighbours: int = fieldbench.parameter(64, "nearest observed positions used beyond that", ge=8)
    axis_scale: AxisScale = axis_scale_parameter()

    def check_shape(self, shape: Sequence[int]) -> None:
        check_axis_scale(self.axis_scale, shape)

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> Estimate:
        from fieldbench_methods.polyharmonic import arrange, chosen, complete

        data = arrange(observation, self.axis_scale, self.kernel or "linear", self.smoothing or 0.0, seed)
        kernel, smoothing = chosen(data, self.kernel, self.smoothing, self.neighbours, seed)
        return complete(data, kernel, smoothing, self.exact, self.neighbours, seed)
