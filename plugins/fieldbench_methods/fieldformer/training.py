"""Training a batch of networks in plain torch: each trial fits its own observed entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldbench import FloatArray
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
        network: from weights and step to estimates.
        initial: for each problem, its weights.
        problems: of one shape; either none has a total variation penalty, or all have one form of it.
        schedule: of the updates.
        device: torch's name of it.
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

    # Listeners take their time, and a device need not wait: they hear of an estimate when the steps to the next
    # one are already under way.
    tell: Callable[[], None] | None = None
    for done in range(1, schedule.epochs + 1):
        update()
        listening = [problem.listener.due(done) for problem in problems]
        if any(listening):
            if tell is not None:
                tell()
            tell = _message(done, problems, listening, _Estimates(network, parameters))
    if tell is not None:
        tell()
    return list(_Estimates(network, parameters).fields)


def _message(
    done: int, problems: Sequence[Problem], listening: Sequence[bool], estimates: _Estimates
) -> Callable[[], None]:
    def tell() -> None:
        shares = estimates.shares
        for index, problem in enumerate(problems):
            if listening[index]:
                problem.listener(done, estimates.fields[index], None if shares is None else shares[index])

    return tell


class _Estimates:
    """What the networks give without dropout, on its way to the host."""

    def __init__(self, network: Network, parameters: Sequence[Tensor]) -> None:
        with torch.no_grad():
            fields, support = network(parameters, None)
        self._fields, self._support = _to_host(fields.double()), None if support is None else _to_host(support)
        self._arrival = torch.cuda.Event() if fields.is_cuda else None
        if self._arrival is not None:
            self._arrival.record(torch.cuda.current_stream(fields.device))

    @property
    def fields(self) -> NDArray[np.float64]:
        return self._arrived(self._fields)

    @property
    def shares(self) -> list[float] | None:
        return None if self._support is None else self._arrived(self._support).tolist()

    def _arrived(self, tensor: Tensor) -> NDArray[np.float64]:
        if self._arrival is not None:
            self._arrival.synchronize()
        return tensor.numpy()


def _to_host(tensor: Tensor) -> Tensor:
    """A copy in memory that a GPU writes to by itself; it is there once what was asked before it is done."""
    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


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
