"""Training a batch of networks in plain torch: each trial fits its own observed entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldbench.field import FloatArray
from fieldbench_methods.fieldformer.design import Schedule
from fieldbench_methods.self_supervised import Problem
from fieldbench_methods.tv.penalty import variation


class Network(Protocol):
    """What is trained: see :class:`fieldbench_methods.fieldformer.network.TensorAttention`."""

    def __call__(self, parameters: Sequence[Tensor], step: Tensor | None) -> tuple[Tensor, Tensor | None]: ...


def train(
    network: Network,
    initial: Sequence[Sequence[NDArray[np.float32]]],
    problems: Sequence[Problem],
    schedule: Schedule,
    device: str = "cpu",
    *,
    recorded: bool = False,
) -> list[FloatArray]:
    """Train every problem of a batch and return its scaled estimate, dropout off.

    Args:
        initial: for each problem, its weights.
        problems: of one shape; either none has a total variation penalty, or all have one form of it.
        recorded: replay the step as a CUDA graph (:mod:`graphs`), on a CUDA device only.
    """
    weights = [_on(device, np.stack(arrays)) for arrays in zip(*initial, strict=True)]
    parameters = [array.clone().requires_grad_() for array in weights]
    optimiser = torch.optim.AdamW(
        parameters, lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True, capturable=recorded
    )
    loss = _loss(problems, schedule, device)
    step = torch.zeros(1, dtype=torch.int64, device=device)

    def update() -> None:
        optimiser.zero_grad()
        loss(network(parameters, step)[0]).backward()
        optimiser.step()
        step.add_(1)

    def start_over() -> None:
        with torch.no_grad():
            for parameter, array in zip(parameters, weights, strict=True):
                parameter.copy_(array)
        for state in optimiser.state.values():
            for moment in state.values():
                moment.zero_()
        step.zero_()

    if recorded:
        from fieldbench_methods.fieldformer import graphs

        update = graphs.recorded(update, start_over, device)
        start_over()

    for done in range(1, schedule.epochs + 1):
        update()
        due = [index for index, problem in enumerate(problems) if problem.listener.due(done)]
        if due:
            estimates, shares = _estimates(network, parameters)
            for index in due:
                problems[index].listener(done, estimates[index], None if shares is None else shares[index])
    return list(_estimates(network, parameters)[0])


def _estimates(network: Network, parameters: Sequence[Tensor]) -> tuple[NDArray[np.float64], list[float] | None]:
    with torch.no_grad():
        fields, support = network(parameters, None)
    return fields.double().cpu().numpy(), None if support is None else support.tolist()


def _loss(problems: Sequence[Problem], schedule: Schedule, device: str) -> Callable[[Tensor], Tensor]:
    """The sum over the problems of squared errors at observed entries, weighted, and of penalties."""
    mask = torch.from_numpy(np.stack([problem.mask for problem in problems])).to(device)
    target = _on(device, np.stack([problem.target for problem in problems]))
    shape = (-1, *[1] * problems[0].mask.ndim)
    weights = _on(device, np.array([schedule.entry_weight(problem.mask) for problem in problems])).reshape(shape)
    penalty = _penalty(problems, device)

    def loss(fields: Tensor) -> Tensor:
        residual = torch.where(mask, fields - target, 0)
        return (weights * residual * residual).sum() + penalty(fields)

    return loss


def _penalty(problems: Sequence[Problem], device: str) -> Callable[[Tensor], Tensor | float]:
    """The weighted penalties of all problems, summed."""
    smoothness = problems[0].smoothness
    if smoothness is None:
        return lambda fields: 0.0
    weights = _on(device, np.array([problem.smoothness.weight for problem in problems if problem.smoothness]))
    return lambda fields: (weights * variation(fields, smoothness.form, smoothness.axes)).sum()


def _on(device: str, array: NDArray[np.floating]) -> Tensor:
    return torch.from_numpy(array.astype(np.float32)).to(device)
