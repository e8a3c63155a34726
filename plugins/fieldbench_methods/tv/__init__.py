"""The modifier ``+tv``: total variation added to the loss of the methods that are trained on an observation alone."""

from __future__ import annotations

from typing import ClassVar, Literal

from fieldbench import Log, Modifier, parameter


class TotalVariation(Modifier):
    """Total variation of the estimate, averaged over its entries, added to the loss of tap, mhtap and tnn.

    Appendix K of the paper, which gives no weight; by default it is chosen on observed entries that are
    withheld from a shorter training (whole fibers where the observation consists of fibers).
    """

    name: ClassVar[str] = "tv"
    revision: ClassVar[str | None] = "1"

    form: Literal["second-order", "first-order", "squared"] = parameter(
        "second-order",
        "second-order: Frobenius norm of the Hessian within a slice; first-order: magnitudes of first differences; "
        "squared: squared second differences",
        source="appendix K; released program (first-order)",
        search=["second-order", "first-order", "squared"],
    )
    weight: float | None = parameter(
        None, "weight gamma in the loss; none: chosen on withheld observed entries", ge=0, search=Log(1e-4, 1)
    )
    axes: int | tuple[int, ...] | None = parameter(
        None, "axes along which differences are taken, from 0; none: the first two (second-order) or all"
    )

    def along(self, order: int) -> tuple[int, ...]:
        """The axes for a field of this order.

        Raises:
            ValueError: if none is given, one does not exist or one is given twice.
        """
        if self.axes is None:
            return tuple(range(min(order, 2) if self.form == "second-order" else order))
        axes = (self.axes,) if isinstance(self.axes, int) else self.axes
        if not axes or len(set(axes)) != len(axes) or not all(0 <= axis < order for axis in axes):
            raise ValueError(
                f"tv: axes must be different numbers from 0 to {order - 1} for a {order}-D field, at least one"
            )
        return axes

    @property
    def candidates(self) -> tuple[float, ...]:
        """The weights to choose from."""
        return CANDIDATES[self.form]


CANDIDATES = {
    "second-order": (0.003, 0.01, 0.03, 0.1, 0.3),
    "first-order": (0.001, 0.003, 0.01, 0.03, 0.1),
    "squared": (0.03, 0.1, 0.3, 1.0, 3.0),
}
