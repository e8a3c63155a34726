"""The methods ``tap`` and ``mhtap``: parameters, and the way from an observation to an estimate."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldbench import FloatArray, Log, Method, NullReport, Observation, Report, Value, parameter
from fieldbench_methods.fieldformer.geometry import Geometry, Sizes, check_geometry, guideline, spread
from fieldbench_methods.self_supervised import Problem, complete
from fieldbench_methods.tv import TotalVariation

if TYPE_CHECKING:
    from fieldbench_methods.fieldformer.design import Design

SOUND_SPEED, RADIO_MAP = (20, 20, 20), (51, 51, 64)
"""Shapes of the paper's fields, for which appendices I and J give the settings."""

_RELEASED = "the authors' released program"


class _FieldFormer(Method):
    """What TAP and MHTAP share."""

    uses_gpu: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("numba",)
    accepts: ClassVar[frozenset[str]] = frozenset({"tv"})
    conformance_parameters: ClassVar[dict[str, Value]] = {"epochs": 5}

    window: int | tuple[int, ...] | None = parameter(
        None,
        "cube size along each axis; none: the paper's for its two fields, else the guideline",
        source="appendices I, J and L",
        search=[None, 2, 3, 4],
    )
    stride: int | tuple[int, ...] | None = parameter(
        None,
        "steps between cubes along each axis; none: the paper's for its two fields, else the guideline",
        source="appendices I, J and L",
    )
    latent: int | None = parameter(
        None,
        "width M of the embedding; none: the paper's for its two fields, else the cube's entries, at most 288",
        source="section III-B, appendices I and J",
        ge=1,
    )
    epochs: int = parameter(5000, "number of updates on the full batch", source=_RELEASED, ge=1)
    learning_rate: float = parameter(4e-3, "learning rate of AdamW", source="appendix I", gt=0, search=Log(1e-3, 2e-2))
    weight_decay: float = parameter(0.01, "weight decay of AdamW", source=_RELEASED, ge=0, search=Log(1e-4, 0.3))
    dropout: float = parameter(
        0.3, "probability of dropping a score before SparseMax", source=_RELEASED, ge=0, lt=1, search=(0.0, 0.6)
    )
    core_dropout: float = parameter(
        0.3, "probability of dropping an entry of the core", source=_RELEASED, ge=0, lt=1, search=(0.0, 0.6)
    )
    score_scale: bool | float = parameter(
        True, "true: cosines are divided by sqrt(K1 K2 ...); false: not; a number: multiplied by it", source=_RELEASED
    )
    activation: Literal["sparsemax", "softmax"] = parameter(
        "sparsemax", "what turns a row of scores into weights", source="section III-B; table 7 for softmax"
    )
    observations: bool = parameter(
        True, "true: attention sees the observed cubes; false: a noise matrix in their place", source="table 6"
    )
    output: Literal["tanh", "identity"] = parameter("tanh", "activation behind the Tucker expansion", source="III-C")
    transform: Literal["auto", "linear", "log"] = parameter(
        "auto", "scale on which values are fitted; auto: log where the field has a log_floor"
    )

    def geometry(self, shape: Sequence[int]) -> Geometry:
        """Cubes and core for a field of this shape.

        Raises:
            ValueError: if window, stride or heads do not fit the shape.
        """
        shape = tuple(shape)
        window, stride = self._automatic(shape)
        geometry = Geometry(
            shape,
            spread(self.name, "window", self.window, len(shape)) or window,
            spread(self.name, "stride", self.stride, len(shape)) or stride,
            self._heads(shape),
        )
        check_geometry(self.name, geometry)
        return geometry

    def design(self, shape: Sequence[int]) -> Design:
        """The network for a field of this shape; see :meth:`geometry` for the errors."""
        from fieldbench_methods.fieldformer.design import Design

        geometry = self.geometry(shape)
        scale = self.score_scale
        if isinstance(scale, bool):
            scale = 1 / math.sqrt(geometry.cube_size) if scale else 1.0
        return Design(
            geometry,
            self.latent or self._automatic_latent(geometry),
            scale,
            self.dropout,
            self.core_dropout,
            self.activation,
            self.output,
        )

    def check_shape(self, shape: Sequence[int]) -> None:
        self.geometry(shape)
        variation = self.modifier("tv")
        if isinstance(variation, TotalVariation):
            variation.along(len(shape))

    def complete(self, observation: Observation, *, seed: int, device: str, report: Report) -> ArrayLike:
        return self.complete_batch([observation], seeds=[seed], device=device, reports=[report])[0]

    def complete_batch(
        self, observations: Sequence[Observation], *, seeds: Sequence[int], device: str, reports: Sequence[Report]
    ) -> list[ArrayLike]:
        from fieldbench_methods.fieldformer.design import Schedule
        from fieldbench_methods.fieldformer.fit import fit

        design = self.design(observations[0].shape)
        schedule = Schedule(self.epochs, self.learning_rate, self.weight_decay)

        def train(problems: Sequence[Problem], device: str, share: float) -> list[FloatArray]:
            cubes = [self._cubes(design.geometry, problem) for problem in problems]
            return fit(design, cubes, problems, schedule.shortened(share), device)

        variation = self.modifier("tv")
        assert variation is None or isinstance(variation, TotalVariation)
        return complete(train, observations, seeds, device, reports, self.transform, variation)

    def attention(self, observation: Observation, *, seed: int, device: str) -> ArrayLike:
        """The attention map behind the estimate of :meth:`complete`: shape (N, h N), heads beside one another.

        Row n holds the weights of cube n. It is trained anew, and on the CPU whatever the device.
        """
        from fieldbench_methods.fieldformer.design import Schedule
        from fieldbench_methods.fieldformer.fit import fit_attentive

        design = self.design(observation.shape)
        schedule = Schedule(self.epochs, self.learning_rate, self.weight_decay)
        maps: list[NDArray[np.float32]] = []

        def train(problems: Sequence[Problem], device: str, share: float) -> list[FloatArray]:
            fitted = [
                fit_attentive(design, self._cubes(design.geometry, problem), problem, schedule.shortened(share))
                for problem in problems
            ]
            maps.extend(attention for _, attention in fitted)
            return [estimate for estimate, _ in fitted]

        variation = self.modifier("tv")
        assert variation is None or isinstance(variation, TotalVariation)
        complete(train, [observation], [seed], "cpu", [NullReport()], self.transform, variation)
        return maps[-1]

    def batch_size(self, shape: Sequence[int], device: str) -> int:
        """One on the CPU, where a trial keeps a core busy by itself; on a GPU, as many as keep it busy."""
        if device == "cpu":
            return 1
        geometry = self.geometry(shape)
        variation, trainings = self.modifier("tv"), 1
        if isinstance(variation, TotalVariation) and variation.weight is None:
            trainings = len(variation.candidates)
        # In training some ten arrays of the size of the attention map live at once, three of them of 64-bit words.
        return max(1, min(32, 8 * 2**30 // (80 * geometry.head_count * geometry.cubes**2) // trainings))

    def _cubes(self, geometry: Geometry, problem: Problem) -> NDArray[np.float32]:
        """The data matrix P in single precision; standard normal noise without ``observations``."""
        if self.observations:
            return geometry.extract(problem.target.astype(np.float32))
        # A stream of its own: the weights are drawn from the plain seed.
        generator = np.random.default_rng([problem.seed, 1])
        return generator.standard_normal((geometry.cubes, geometry.cube_size), dtype=np.float32)

    @abstractmethod
    def _automatic(self, shape: Sizes) -> tuple[Sizes, Sizes]:
        """Window and stride for a field of this shape."""

    def _automatic_latent(self, geometry: Geometry) -> int:
        return min(geometry.cube_size, 288)

    def _heads(self, shape: Sizes) -> Sizes:
        return (1,) * len(shape)


class TAP(_FieldFormer):
    """Tensor attention prior: an untrained Tucker network whose core is a sparse attention map (FieldFormer).

    Section III-B and III-C of the paper; settings that it leaves out are those of the authors' released
    program, among them the dropout without which the published errors are not reached.
    """

    name: ClassVar[str] = "tap"
    revision: ClassVar[str | None] = "2"

    def _automatic(self, shape: Sizes) -> tuple[Sizes, Sizes]:
        published: dict[Sizes, tuple[Sizes, Sizes]] = {
            SOUND_SPEED: ((4, 4, 4), (2, 2, 2)),
            RADIO_MAP: ((6, 6, 8), (5, 5, 8)),
        }
        return published.get(shape) or guideline(shape, limit=3000)


class MHTAP(_FieldFormer):
    """Multi-head tensor attention prior: TAP with several attention maps stacked into one core (FieldFormer).

    Section III-D and appendix B of the paper: SparseMax once per row over the concatenated heads, then
    tensorized head by head (appendix A).
    """

    name: ClassVar[str] = "mhtap"
    revision: ClassVar[str | None] = "2"

    heads: int | tuple[int, ...] | None = parameter(
        None,
        "heads h1, h2, ... stacked along each axis; none: the paper's for its two fields, else 2 along the first three",
        source="appendices I and J",
    )

    def _automatic(self, shape: Sizes) -> tuple[Sizes, Sizes]:
        published: dict[Sizes, tuple[Sizes, Sizes]] = {
            SOUND_SPEED: ((5, 5, 5), (3, 3, 3)),
            RADIO_MAP: ((9, 9, 8), (7, 7, 8)),
        }
        return published.get(shape) or guideline(shape, limit=1000)

    def _automatic_latent(self, geometry: Geometry) -> int:
        published: dict[Sizes, int] = {SOUND_SPEED: 64, RADIO_MAP: 288}
        return published.get(geometry.shape) or super()._automatic_latent(geometry)

    def _heads(self, shape: Sizes) -> Sizes:
        given = spread(self.name, "heads", self.heads, len(shape))
        if given is not None:
            return given
        return (2, 2, 1) if shape == RADIO_MAP else tuple(2 if axis < 3 else 1 for axis in range(len(shape)))
