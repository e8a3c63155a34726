"""Fitting a batch of TAP or MHTAP trials: on the CPU by the fast engine one by one, elsewhere in plain torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np
from fieldbench.field import FloatArray, Mask
from numpy.typing import NDArray

from fieldbench_methods.fieldformer.design import Design, Listener, Schedule


def has_numba() -> bool:
    """Whether the fast engine can be used on this installation."""
    return importlib.util.find_spec("numba") is not None


def fit(
    design: Design,
    cubes: Sequence[NDArray[np.float32]],
    targets: Sequence[FloatArray],
    masks: Sequence[Mask],
    schedule: Schedule,
    seeds: Sequence[int],
    listeners: Sequence[Listener],
    device: str,
) -> list[FloatArray]:
    """Scaled estimates of the field's shape, one a trial, dropout off.

    Args:
        cubes: for each trial, its data matrix P of shape (N, K_1 ... K_L).
        targets: for each trial, scaled values of the field's shape; hidden entries are not read.
        masks: True = observed.
        listeners: one a trial, told of scaled estimates that are due.
    """
    if device == "cpu" and has_numba():
        return [
            _fit_fast(design, *trial, schedule)
            for trial in zip(cubes, targets, masks, seeds, listeners, strict=True)
        ]
    return fit_plain(design, cubes, targets, masks, schedule, seeds, listeners, device)


def fit_plain(
    design: Design,
    cubes: Sequence[NDArray[np.float32]],
    targets: Sequence[FloatArray],
    masks: Sequence[Mask],
    schedule: Schedule,
    seeds: Sequence[int],
    listeners: Sequence[Listener],
    device: str,
) -> list[FloatArray]:
    """The same in plain torch, all trials at once, on any device."""
    import torch

    from fieldbench_methods.fieldformer.network import TensorAttention
    from fieldbench_methods.fieldformer.training import train

    network = TensorAttention(design, torch.from_numpy(np.stack(cubes)).to(device), seeds, schedule.epochs)
    initial = [design.initial(seed) for seed in seeds]
    return train(network, initial, targets, masks, schedule, listeners, device=device)


def _fit_fast(
    design: Design,
    cubes: NDArray[np.float32],
    target: FloatArray,
    mask: Mask,
    seed: int,
    listener: Listener,
    schedule: Schedule,
) -> FloatArray:
    from fieldbench_methods.fieldformer.engine import Engine

    engine = Engine(design, cubes, target, mask, schedule, seed)
    for step in range(1, schedule.epochs + 1):
        engine.step()
        if listener.due(step):
            listener(step, *engine.estimate())
    return engine.estimate()[0]
