"""Fields, and observations of them, that the tests of methods share."""

from __future__ import annotations

import numpy as np
import tensorly

from fieldbench import Observation
from fieldbench.estimate import as_estimate


def smooth(shape):
    """A smooth field that differs along every axis."""
    grids = np.meshgrid(*(np.linspace(0, 1, size) for size in shape), indexing="ij")
    return sum(np.sin((2 + axis) * grid) for axis, grid in enumerate(grids)) + grids[0] * grids[-1]


def low_rank(shape, ranks, seed=0):
    """A random tensor of these multilinear ranks, or of one rank along every axis."""
    ranks = [ranks] * len(shape) if isinstance(ranks, int) else ranks
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(size, rank)) for size, rank in zip(shape, ranks, strict=True)]
    return tensorly.tenalg.multi_mode_dot(rng.normal(size=ranks), factors)


def observe(field, rate=0.4, seed=0, **more):
    """The field at entries chosen at random."""
    mask = np.random.default_rng(seed).random(field.shape) < rate
    return Observation(np.where(mask, field, np.nan), mask, **more)


def complete(method, observation, seed=0):
    """The mean of a method's estimate."""
    return as_estimate(method.complete(observation, seed=seed)).mean
