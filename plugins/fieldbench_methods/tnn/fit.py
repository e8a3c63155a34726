"""Fitting a batch of TNN trials: on the CPU by the fast engine, on a GPU as a CUDA graph, else in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray
from fieldbench_methods.fieldformer.design import Schedule
from fieldbench_methods.fieldformer.fit import has_numba, one_blas_thread
from fieldbench_methods.self_supervised import Problem
from fieldbench_methods.tnn.network import TensorNetwork

Initial = Callable[[int], list[NDArray[np.float32]]]


def fit(
    network: TensorNetwork, initial: Initial, problems: Sequence[Problem], schedule: Schedule, device: str
) -> list[FloatArray]:
    """Scaled estimates of the field's shape, one a problem.

    Args:
        network: its shapes.
        initial: from a seed to the network's weights.
        problems: of one shape.
        schedule: of the updates.
        device: torch's name of it.
    """
    if device == "cpu" and has_numba():
        return [fit_fast(network, initial, problem, schedule) for problem in problems]
    return fit_plain(network, initial, problems, schedule, device, recorded=device != "cpu")


def fit_plain(
    network: TensorNetwork,
    initial: Initial,
    problems: Sequence[Problem],
    schedule: Schedule,
    device: str,
    *,
    recorded: bool = False,
) -> list[FloatArray]:
    """Plain torch, all problems at once, on any device; ``recorded`` as a CUDA graph.

    Args:
        network: its shapes.
        initial: makes the first weights of a seed.
        problems: what is fitted, with a seed and listener each.
        schedule: of the updates.
        device: torch's name of it.
        recorded: whether the updates run as a CUDA graph.
    """
    from fieldbench_methods.fieldformer.training import train
    from fieldbench_methods.tnn.layers import forward

    return train(
        lambda parameters, step: (forward(parameters), None),
        [initial(problem.seed) for problem in problems],
        problems,
        schedule,
        device,
        recorded=recorded,
    )


def fit_fast(network: TensorNetwork, initial: Initial, problem: Problem, schedule: Schedule) -> FloatArray:
    """One problem on one CPU thread, by numpy and numba.

    Args:
        network: its shapes.
        initial: makes the first weights of a seed.
        problem: what is fitted, with seed and listener.
        schedule: of the updates.
    """
    from fieldbench_methods.tnn.engine import TNNEngine

    with one_blas_thread():
        engine = TNNEngine(network, initial(problem.seed), problem, schedule)
        for step in range(1, schedule.epochs + 1):
            engine.step()
            if problem.listener.due(step):
                problem.listener(step, engine.estimate(), None)
        return engine.estimate()
