"""The method ``tnn``: parameters, and the way from an observation to an estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from numpy.typing import ArrayLike

from fieldbench import FloatArray, Log, Method, Observation, Report, Value, parameter
from fieldbench_methods.fieldformer.geometry import Sizes, spread
from fieldbench_methods.self_supervised import Problem, complete
from fieldbench_methods.tv import TotalVariation

if TYPE_CHECKING:
    from fieldbench_methods.fieldformer.design import Schedule
    from fieldbench_methods.tnn.network import TensorNetwork


OWN_VARIATION = 3e-7
"""Weight of the summed first-order total variation in the ``tnn`` training."""


class TNN(Method):
    """Tensor neural network: two Tucker expansions with a ReLU between and tanh behind, untrained.

    Two trainings were published: ``fieldformer``, as the baseline of the FieldFormer paper (uniform
    weights, AdamW, mean over observed entries), and ``tnn``, its authors' own (normal weights, Adam,
    squared error over the number of all entries, and a little anisotropic total variation).
    """

    name: ClassVar[str] = "tnn"
    uses_gpu: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("numba",)
    accepts: ClassVar[frozenset[str]] = frozenset({"tv"})
    revision: ClassVar[str | None] = "1"
    conformance_parameters: ClassVar[dict[str, Value]] = {"epochs": 5}

    core: int | tuple[int, ...] | None = parameter(
        None,
        "core size along each axis; none: a quarter of the field's, at most 10",
        source="appendices I and J",
        search=[None, 2, 3, 5, 8],
    )
    hidden: int | tuple[int, ...] | None = parameter(
        None, "size of the hidden layer along each axis; none: half the field's", source="appendices I and J"
    )
    training: Literal["fieldformer", "tnn"] = parameter("fieldformer", "which of the two published trainings")
    epochs: int | None = parameter(
        None,
        "number of updates; none: 5000 (fieldformer) or 15000 (tnn)",
        source="the two released programs",
        ge=1,
    )
    learning_rate: float | None = parameter(
        None,
        "none: 0.004 (fieldformer) or 0.005 (tnn)",
        source="appendix I; released program",
        gt=0,
        search=Log(1e-3, 2e-2),
    )
    weight_decay: float | None = parameter(
        None, "none: 0.01 (fieldformer) or 0 (tnn)", source="the two released programs", ge=0, search=Log(1e-4, 0.3)
    )
    transform: Literal["auto", "linear", "log"] = parameter(
        "auto", "scale on which values are fitted; auto: log where the field has a log_floor"
    )

    def network(self, shape: Sequence[int]) -> TensorNetwork:
        """The network for a field of this shape.

        Raises:
            ValueError: if ``core`` or ``hidden`` has not one value an axis, or one below 1.
        """
        from fieldbench_methods.tnn.network import TensorNetwork

        return TensorNetwork(self._sizes(tuple(shape)))

    def check_shape(self, shape: Sequence[int]) -> None:
        self._sizes(tuple(shape))
        variation = self.modifier("tv")
        if isinstance(variation, TotalVariation):
            variation.along(len(shape))

    def complete(self, observation: Observation, *, seed: int, device: str, report: Report) -> ArrayLike:
        return self.complete_batch([observation], seeds=[seed], device=device, reports=[report])[0]

    def complete_batch(
        self, observations: Sequence[Observation], *, seeds: Sequence[int], device: str, reports: Sequence[Report]
    ) -> list[ArrayLike]:
        from fieldbench_methods.tnn.fit import fit

        network, schedule = self.network(observations[0].shape), self._schedule()

        def train(problems: Sequence[Problem], device: str, share: float) -> list[FloatArray]:
            initial = network.uniform if self.training == "fieldformer" else network.normal
            return fit(network, initial, problems, schedule.shortened(share), device)

        variation = self.modifier("tv")
        assert variation is None or isinstance(variation, TotalVariation)
        if variation is None and self.training == "tnn":
            size = math.prod(observations[0].shape)
            variation = TotalVariation(form="first-order", weight=OWN_VARIATION * size)
        return complete(train, observations, seeds, device, reports, self.transform, variation)

    def batch_size(self, shape: Sequence[int], device: str) -> int:
        """One on the CPU, where a compiled update gains nothing from company; on a GPU, many."""
        return 1 if device == "cpu" else 32

    def _schedule(self) -> Schedule:
        from fieldbench_methods.fieldformer.design import Schedule

        epochs, rate, decay = (5000, 4e-3, 0.01) if self.training == "fieldformer" else (15000, 5e-3, 0.0)
        return Schedule(
            self.epochs or epochs,
            self.learning_rate or rate,
            decay if self.weight_decay is None else self.weight_decay,
            share_of_all=self.training == "tnn",
        )

    def _sizes(self, shape: Sizes) -> tuple[Sizes, Sizes, Sizes]:
        order = len(shape)
        core = spread(self.name, "core", self.core, order) or tuple(max(1, min(size // 4, 10)) for size in shape)
        hidden = spread(self.name, "hidden", self.hidden, order) or tuple(max(1, size // 2) for size in shape)
        for parameter_name, sizes in (("core", core), ("hidden", hidden)):
            if min(sizes) < 1:
                given = ",".join(map(str, sizes))
                raise ValueError(f"{self.name}: {parameter_name} must be at least 1 along each axis, not ({given})")
        return core, hidden, shape
