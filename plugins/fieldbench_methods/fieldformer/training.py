"""Training a batch of networks in plain torch: each trial fits its own observed entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldbench.field import FloatArray, Mask
from fieldbench_methods.fieldformer.design import Listener, Schedule


class Network(Protocol):
    """What is trained: see :class:`fieldbench_methods.fieldformer.network.TensorAttention`."""

    def __call__(self, parameters: Sequence[Tensor], step: int | None) -> tuple[Tensor, Tensor | None]: ...


def train(
    network: Network,
    initial: Sequence[Sequence[NDArray[np.float32]]],
    targets: Sequence[FloatArray],
    masks: Sequence[Mask],
    schedule: Schedule,
    listeners: Sequence[Listener],
    penalty: Callable[[Tensor], Tensor] | None = None,
    device: str = "cpu",
) -> list[FloatArray]:
    """Train every trial of a batch and return its scaled estimate, dropout off.

    Args:
        initial: for each trial, its weights.
        targets: for each trial, scaled values of the field's shape; hidden entries are not read.
        masks: True = observed.
        listeners: one a trial, told of estimates that are due.
        penalty: of estimates (B, I_1, .., I_L), one number a trial, added to its loss.
    """
    parameters = [
        torch.from_numpy(np.stack(arrays)).to(device).requires_grad_() for arrays in zip(*initial, strict=True)
    ]
    places = torch.from_numpy(np.flatnonzero(np.stack(masks))).to(device)
    values = np.concatenate([target[mask] for target, mask in zip(targets, masks, strict=True)])
    weights = np.concatenate([np.full(int(mask.sum()), schedule.entry_weight(mask)) for mask in masks])
    wanted = torch.from_numpy(values.astype(np.float32)).to(device)
    weight = torch.from_numpy(weights.astype(np.float32)).to(device)
    optimiser = torch.optim.AdamW(parameters, lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True)

    def estimates() -> tuple[NDArray[np.float64], list[float | None]]:
        with torch.no_grad():
            fields, support = network(parameters, None)
        shares = [None] * len(masks) if support is None else support.tolist()
        return fields.double().cpu().numpy(), shares

    for step in range(schedule.epochs):
        fields, _ = network(parameters, step)
        residual = fields.flatten()[places] - wanted
        loss = (weight * residual * residual).sum()
        if penalty is not None:
            loss = loss + penalty(fields).sum()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        due = [index for index, listener in enumerate(listeners) if listener.due(step + 1)]
        if due:
            fields_now, shares = estimates()
            for index in due:
                listeners[index](step + 1, fields_now[index], shares[index])
    return list(estimates()[0])
