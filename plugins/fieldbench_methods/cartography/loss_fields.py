"""Training fields for the prior: spatial loss fields drawn in bulk.

The model is the one of Shrestha, Fu and Hong (IEEE TSP 2022) and of the paper's section V-B: path loss
times log-normal shadowing that is correlated over space. Everything is drawn with torch, on the device
that trains; methods know nothing of the datasets, which draw their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fieldbench_methods.cartography.autoencoder import SIDE

#: Within this many grid steps of an emitter the path loss is flat.
FLAT_RADIUS = 2.0


@dataclass(frozen=True)
class Range:
    """A uniform distribution over [low, high)."""

    low: float
    high: float

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        return self.low + (self.high - self.low) * torch.rand(count, generator=generator, device=generator.device)


@dataclass(frozen=True)
class Population:
    """Which fields a prior is trained on.

    Attributes:
        eta: standard deviation of the shadowing, in dB.
        decorrelation: decorrelation distances, in grid steps; one Cholesky factor serves each of them.
        exponent: path loss exponent.
        rate: share of pixels that are observed.
    """

    eta: Range
    decorrelation: tuple[float, ...]
    exponent: Range
    rate: Range


class Fields:
    """An endless supply of fields of one population, drawn on one device."""

    def __init__(self, population: Population, device: torch.device) -> None:
        self.population = population
        self.device = device
        self._factors = [shadowing_factor(distance).to(device) for distance in population.decorrelation]

    def draw(self, shadowings: int, generator: torch.Generator, views: int = 1) -> Tensor:
        """Unit-norm fields in random order, shape (shadowings x distances x views, 51, 51), float32.

        The product with the Cholesky factor costs as much as a third of a training step. The covariance is
        invariant under the symmetries of the square, so each shadowing serves ``views`` fields (1 to 8),
        turned and mirrored, each with its own strength, emitter and path loss: every one is an exact draw.

        Args:
            shadowings: how many to draw for each decorrelation distance.
            generator: the only source of randomness, on the same device.
            views: how many fields each shadowing serves.
        """
        shadowing = torch.cat(
            [
                torch.randn(shadowings, SIDE * SIDE, generator=generator, device=self.device) @ factor.T
                for factor in self._factors
            ]
        ).reshape(-1, SIDE, SIDE)
        turned = torch.cat([_symmetry(shadowing, view) for view in range(views)])
        order = torch.randperm(len(turned), generator=generator, device=self.device)
        return self._loss(turned[order], generator)

    def masks(self, count: int, generator: torch.Generator) -> Tensor:
        """Boolean masks, shape (count, 51, 51), True = observed: a coin for each pixel."""
        rate = self.population.rate.draw(count, generator)[:, None, None]
        return torch.rand(count, SIDE, SIDE, generator=generator, device=self.device) < rate

    def _loss(self, shadowing: Tensor, generator: torch.Generator) -> Tensor:
        count = len(shadowing)
        emitter = Range(0.0, SIDE - 1.0).draw(2 * count, generator).reshape(2, count, 1)
        grid = torch.arange(SIDE, dtype=torch.float32, device=self.device)
        across, along = (grid - emitter[0]) ** 2, (grid - emitter[1]) ** 2
        distance = (across[:, :, None] + along[:, None, :]).sqrt_()
        exponent = self.population.exponent.draw(count, generator)[:, None, None]
        eta = self.population.eta.draw(count, generator)[:, None, None]
        decay = (distance / FLAT_RADIUS).clamp_(min=1.0).log_().mul_(exponent)
        fields = (shadowing * (eta * (math.log(10) / 10)) - decay).exp_()
        return fields / torch.linalg.vector_norm(fields, dim=(1, 2), keepdim=True)


def shadowing_factor(decorrelation: float) -> Tensor:
    """Lower Cholesky factor of exp(-|m - m'| / decorrelation) over the grid, (2601, 2601), float32."""
    grid = torch.arange(SIDE, dtype=torch.float64)
    points = torch.cartesian_prod(grid, grid)
    covariance = torch.exp(-torch.cdist(points, points) / decorrelation)
    return torch.linalg.cholesky(covariance).float()


def batches(pool: Tensor, size: int) -> Iterator[Tensor]:
    """The pool in whole batches of ``size``; a remainder is left out."""
    for start in range(0, len(pool) - size + 1, size):
        yield pool[start : start + size]


def generator(device: torch.device, *what: int) -> torch.Generator:
    """An independent generator for each different tuple of numbers."""
    return torch.Generator(device).manual_seed(_mixed(what))


def _mixed(numbers: Sequence[int]) -> int:
    import numpy as np

    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _symmetry(fields: Tensor, which: int) -> Tensor:
    turned = torch.rot90(fields, which % 4, dims=(1, 2))
    return turned.flip(1) if which >= 4 else turned
