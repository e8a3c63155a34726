"""Fitting a batch of TAP or MHTAP trials: on the CPU by the fast engine one by one, on a GPU all at once."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray
from fieldbench_methods.fieldformer.design import Design, Schedule
from fieldbench_methods.fieldformer.halves import threads_for_halves
from fieldbench_methods.self_supervised import Problem

if TYPE_CHECKING:
    from fieldbench_methods.fieldformer.network import TensorAttention


def has_numba() -> bool:
    """Whether the fast engine can be used on this installation."""
    return importlib.util.find_spec("numba") is not None


def fit(
    design: Design,
    cubes: Sequence[NDArray[np.float32]],
    problems: Sequence[Problem],
    schedule: Schedule,
    device: str,
) -> list[FloatArray]:
    """Scaled estimates of the field's shape, one a problem, dropout off.

    Args:
        design: of the network.
        cubes: for each problem, its data matrix P of shape (N, K_1 ... K_L).
        problems: of one shape.
        schedule: of the updates.
        device: torch's name of it.
    """
    if device != "cpu":
        return fit_on_gpu(design, cubes, problems, schedule, device)
    if has_numba():
        return [fit_fast(design, *trial, schedule) for trial in zip(cubes, problems, strict=True)]
    return fit_plain(design, cubes, problems, schedule, device)


def fit_plain(
    design: Design,
    cubes: Sequence[NDArray[np.float32]],
    problems: Sequence[Problem],
    schedule: Schedule,
    device: str,
) -> list[FloatArray]:
    """Plain torch, all problems at once, on any device.

    Args:
        design: of the network.
        cubes: for each problem, its data matrix P of shape (N, K_1 ... K_L).
        problems: what is fitted, with a seed and listener each.
        schedule: of the updates.
        device: torch's name of it.
    """
    from fieldbench_methods.fieldformer.network import TensorAttention

    return _trained(TensorAttention, design, cubes, problems, schedule, device)


def fit_on_gpu(
    design: Design,
    cubes: Sequence[NDArray[np.float32]],
    problems: Sequence[Problem],
    schedule: Schedule,
    device: str,
) -> list[FloatArray]:
    """The same as a CUDA graph, with rows fused by Triton where it is installed and there is a fused form.

    Args:
        design: of the network.
        cubes: for each problem, its data matrix P of shape (N, K_1 ... K_L).
        problems: what is fitted, with a seed and listener each.
        schedule: of the updates.
        device: one GPU, such as ``cuda:0``.
    """
    from fieldbench_methods.fieldformer.network import TensorAttention

    network = TensorAttention
    if importlib.util.find_spec("triton") is not None:
        from fieldbench_methods.fieldformer.gpu_network import FusedTensorAttention, can_fuse

        network = FusedTensorAttention if can_fuse(design) else network
    return _trained(network, design, cubes, problems, schedule, device, recorded=True)


def _trained(
    network: type[TensorAttention],
    design: Design,
    cubes: Sequence[NDArray[np.float32]],
    problems: Sequence[Problem],
    schedule: Schedule,
    device: str,
    recorded: bool = False,
) -> list[FloatArray]:
    import torch

    from fieldbench_methods.fieldformer.training import train

    seeds = [problem.seed for problem in problems]
    built = network(design, torch.from_numpy(np.stack(cubes)).to(device), seeds, schedule.epochs)
    return train(built, [design.initial(seed) for seed in seeds], problems, schedule, device, recorded=recorded)


def fit_fast(design: Design, cubes: NDArray[np.float32], problem: Problem, schedule: Schedule) -> FloatArray:
    """One problem by numpy and numba, on one CPU thread or on two where its listener allows them.

    Args:
        design: of the network.
        cubes: its data matrix P of shape (N, K_1 ... K_L).
        problem: what is fitted, with seed and listener.
        schedule: of the updates.
    """
    return fit_attentive(design, cubes, problem, schedule)[0]


def fit_attentive(
    design: Design, cubes: NDArray[np.float32], problem: Problem, schedule: Schedule
) -> tuple[FloatArray, NDArray[np.float32]]:
    """The same, with the attention map behind the estimate, shape (N, h N).

    Args:
        design: of the network.
        cubes: its data matrix P of shape (N, K_1 ... K_L).
        problem: what is fitted, with seed and listener.
        schedule: of the updates.
    """
    from fieldbench_methods.fieldformer.engine import Engine

    with one_blas_thread(), threads_for_halves(lambda: problem.listener.threads) as both:
        engine = Engine(design, cubes, problem, schedule, both)
        for step in range(1, schedule.epochs + 1):
            engine.step()
            if problem.listener.due(step):
                problem.listener(step, *engine.estimate())
        return engine.estimate()[0], engine.attention


def one_blas_thread() -> AbstractContextManager[object]:
    """While it lasts, matrix products run on one thread: with more, their last bits depend on how many."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")
