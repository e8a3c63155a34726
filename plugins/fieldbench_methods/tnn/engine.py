"""The fast CPU engine of TNN: one trial on one thread, its whole update compiled by numba.

It computes what :mod:`layers` and :mod:`fieldbench_methods.fieldformer.training` define. The products are
so small that calling them one by one from Python would cost more than computing them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numba
import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  (numba calls its BLAS; loaded here, before BLAS threads are limited)
from numpy.typing import NDArray

from fieldbench import FloatArray
from fieldbench_methods.fieldformer import kernels
from fieldbench_methods.fieldformer.design import Schedule
from fieldbench_methods.self_supervised import Problem, observed_lines
from fieldbench_methods.tnn.network import TensorNetwork
from fieldbench_methods.tv.slope import Pull

Floats = NDArray[np.float32]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _expand(weights, factor_starts, sizes, ranks, tensors, tensor_starts, relu_before, stages):  # type: ignore[no-untyped-def]
    """The first contractions in turn: tensor l times factor l becomes tensor l + 1 (see :class:`_Plan`)."""
    for stage in range(stages):
        begin, end = tensor_starts[stage], tensor_starts[stage + 1]
        size, rank = sizes[stage], ranks[stage]
        if stage == relu_before:
            for index in range(begin, end):
                tensors[index] = max(tensors[index], np.float32(0.0))
        unfolded = tensors[begin:end].reshape(rank, (end - begin) // rank)
        factor = weights[factor_starts[stage] : factor_starts[stage] + size * rank].reshape(size, rank)
        following = tensors[end : tensor_starts[stage + 2]].reshape(unfolded.shape[1], size)
        np.dot(unfolded.T, factor.T, following)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _expand_gradient(  # type: ignore[no-untyped-def]
    weights, gradient, factor_starts, sizes, ranks, tensors, slopes, tensor_starts, relu_before, stages
):
    """Behind :func:`_expand`: from the slope of its last tensor to those of the factors and of the core."""
    for stage in range(stages - 1, -1, -1):
        begin, end = tensor_starts[stage], tensor_starts[stage + 1]
        size, rank = sizes[stage], ranks[stage]
        start = factor_starts[stage]
        unfolded = tensors[begin:end].reshape(rank, (end - begin) // rank)
        above = slopes[end : tensor_starts[stage + 2]].reshape(unfolded.shape[1], size)
        factor = weights[start : start + size * rank].reshape(size, rank)
        np.dot(above.T, unfolded.T, gradient[start : start + size * rank].reshape(size, rank))
        np.dot(factor.T, above.T, slopes[begin:end].reshape(unfolded.shape))
        if stage == relu_before:
            for index in range(begin, end):
                slopes[index] = slopes[index] if tensors[index] > 0 else np.float32(0.0)


class _Plan:
    """Where everything lies: weights in one vector, and all intermediate tensors in another.

    Tensor 0 is the core, a view of the first weights copied to the front; each contraction takes the
    foremost mode away and appends the next layer's at the back, so that after every mode once the order
    of the modes is restored. The ReLU comes before contraction ``relu_before``.
    """

    def __init__(self, network: TensorNetwork) -> None:
        core, hidden, field = network.shapes
        self.relu_before = len(core)
        self.ranks = np.array([*core, *hidden], dtype=np.int64)
        self.sizes = np.array([*hidden, *field], dtype=np.int64)
        self.core_size = math.prod(core)
        self.factor_starts = self.core_size + np.cumsum([0, *(self.ranks * self.sizes)[:-1]])
        lengths = [self.core_size]
        for rank, size in zip(self.ranks, self.sizes, strict=True):
            lengths.append(lengths[-1] // int(rank) * int(size))
        self.tensor_starts = np.cumsum([0, *lengths])

    def last_factor(self, weights: Floats) -> Floats:
        """The factor of the last contraction (I, R), a view of such a vector as that of the weights."""
        return weights[self.factor_starts[-1] :].reshape(self.sizes[-1], self.ranks[-1])

    def before_last(self, tensors: Floats) -> Floats:
        """The tensor before the last contraction, unfolded (R, lines), a view of the vector of all tensors."""
        return tensors[self.tensor_starts[-3] : self.tensor_starts[-2]].reshape(self.ranks[-1], -1)


class TNNEngine:
    """One trial: its weights, its buffers and its training step.

    Where whole lines along the last mode are observed, a training step computes the last contraction, which costs
    most, for these lines only.

    Args:
        network: sizes.
        initial: weights in the order of ``network.parameter_shapes``.
        problem: what to fit.
        schedule: learning rate and the like.
    """

    def __init__(self, network: TensorNetwork, initial: Sequence[Floats], problem: Problem, schedule: Schedule) -> None:
        self._plan, self._shapes = _Plan(network), network.parameter_shapes
        self._schedule = schedule
        self._weights = np.concatenate([array.ravel() for array in initial])
        self._gradient, self._mean, self._square = (np.zeros_like(self._weights) for _ in range(3))
        self._tensors = np.zeros(self._plan.tensor_starts[-1], np.float32)
        self._slopes = np.zeros_like(self._tensors)
        self._update = 0
        shape = problem.target.shape
        last = self._plan.tensor_starts[-2]
        self._field = self._tensors[last:].reshape(shape)
        smoothness = problem.smoothness
        self._pull = None if smoothness is None else Pull(shape, True, smoothness)
        self._lines = None if smoothness else observed_lines(problem.mask)
        self._before_lines = np.empty((0, 0), np.float32)
        self._wanted = problem.target[problem.mask].astype(np.float32)
        if self._lines is None:
            self._slope = self._slopes[last:].reshape(shape)
            self._observed = np.flatnonzero(problem.mask).astype(np.uint32)
        else:
            self._slope = np.zeros((len(self._lines), shape[-1]), np.float32)
            self._observed = np.arange(self._wanted.size, dtype=np.uint32)
        self._entry_weight = np.float32(schedule.entry_weight(problem.mask))

    def step(self) -> None:
        """One update of the weights."""
        field = self._forward(self._lines)
        self._slope[:] = 0
        if self._pull is not None:
            self._pull.add_to(self._slope, field)
        kernels.observed_gradient(
            field.reshape(-1), self._observed, self._wanted, self._entry_weight, True, self._slope.reshape(-1)
        )
        self._backward(self._lines)
        self._update += 1
        kernels.adam(
            self._weights, self._gradient, self._mean, self._square, np.float32(self._schedule.learning_rate),
            np.float32(self._schedule.weight_decay), np.float32(1 - 0.9**self._update),
            np.float32(1 - 0.999**self._update),
        )  # fmt: skip

    def estimate(self) -> FloatArray:
        """The scaled estimate, of the field's shape."""
        return np.tanh(self._forward(None).astype(float))

    @property
    def gradients(self) -> list[Floats]:
        """The gradient at the last step, one array for each of the network's parameter shapes."""
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])
        parts = np.split(self._gradient, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _forward(self, lines: NDArray[np.intp] | None) -> Floats:
        """The field before the output activation, or these lines of it; what it needs is kept for the gradient."""
        plan = self._plan
        stages = len(plan.sizes) - (lines is not None)
        self._tensors[: plan.core_size] = self._weights[: plan.core_size]
        _expand(
            self._weights, plan.factor_starts, plan.sizes, plan.ranks, self._tensors, plan.tensor_starts,
            plan.relu_before, stages,
        )  # fmt: skip
        if lines is None:
            return self._field
        self._before_lines = np.take(plan.before_last(self._tensors), lines, axis=1)
        return np.dot(self._before_lines.T, plan.last_factor(self._weights).T)

    def _backward(self, lines: NDArray[np.intp] | None) -> None:
        """From the gradient of what :meth:`_forward` gave to that of the weights."""
        plan = self._plan
        stages = len(plan.sizes) - (lines is not None)
        if lines is not None:
            np.dot(self._slope.T, self._before_lines.T, out=plan.last_factor(self._gradient))
            # Slopes elsewhere than on these lines are 0 from the beginning and stay so.
            plan.before_last(self._slopes)[:, lines] = np.dot(plan.last_factor(self._weights).T, self._slope.T)
        _expand_gradient(
            self._weights, self._gradient, plan.factor_starts, plan.sizes, plan.ranks, self._tensors, self._slopes,
            plan.tensor_starts, plan.relu_before, stages,
        )  # fmt: skip
        self._gradient[: plan.core_size] = self._slopes[: plan.core_size]
