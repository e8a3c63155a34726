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

    def __call__(self, parameters: Sequence[Tensor], step: int | None) -> tuple[Tensor, Tensor | None]: ...


def train(
    network: Network,
    initial: Sequence[Sequence[NDArray[np.float32]]],
    problems: Sequence[Problem],
    schedule: Schedule,
    device: str = "cpu",
) -> list[FloatArray]:
    """Train every problem of a batch and return its scaled estimate, dropout off.

    Args:
        initial: for each problem, its weights.
        problems: of one shape; either none has a total variation penalty, or all have one form of it.
    """
    parameters = [
        torch.from_numpy(np.stack(arrays)).to(device).requires_grad_() for arrays in zip(*initial, strict=True)
    ]
    masks = np.stack([problem.mask for problem in problems])
    places = torch.from_numpy(np.flatnonzero(masks)).to(device)
    wanted = _on(device, np.concatenate([problem.target[problem.mask] for problem in problems]))
    entry_weight = _on(
        device, np.repeat([schedule.entry_weight(mask) for mask in masks], masks.reshape(len(masks), -1).sum(1))
    )
    optimiser = torch.optim.AdamW(parameters, lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True)
    penalty = _penalty(problems, device)

    for step in range(schedule.epochs):
        fields, _ = network(parameters, step)
        residual = fields.flatten()[places] - wanted
        loss = (entry_weight * residual * residual).sum() + penalty(fields)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        due = [index for index, problem in enumerate(problems) if problem.listener.due(step + 1)]
        if due:
            estimates, shares = _estimates(network, parameters)
            for index in due:
                problems[index].listener(step + 1, estimates[index], None if shares is None else shares[index])
    return list(_estimates(network, parameters)[0])


def _estimates(network: Network, parameters: Sequence[Tensor]) -> tuple[NDArray[np.float64], list[float] | None]:
    with torch.no_grad():
        fields, support = network(parameters, None)
    return fields.double().cpu().numpy(), None if support is None else support.tolist()


def _penalty(problems: Sequence[Problem], device: str) -> Callable[[Tensor], Tensor | float]:
    """The weighted penalties of all problems, summed."""
    smoothness = problems[0].smoothness
    if smoothness is None:
        return lambda fields: 0.0
    weights = _on(device, np.array([problem.smoothness.weight for problem in problems if problem.smoothness]))
    return lambda fields: (weights * variation(fields, smoothness.form, smoothness.axes)).sum()


def _on(device: str, array: NDArray[np.floating]) -> Tensor:
    return torch.from_numpy(array.astype(np.float32)).to(device)
