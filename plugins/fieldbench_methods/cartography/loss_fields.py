"""Training fields for the prior: the spatial losses of the radio-map datasets, drawn in bulk where it is trained.

The model is that of :func:`fieldbench_datasets.propagation.spatial_losses`, and :meth:`Fields.examples` takes
fields from there. A training step needs them faster than a processor draws them, so :meth:`Fields.draw` does
the same with torch, on the device that trains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldbench_datasets.propagation import shadowing_factor, spatial_losses
from fieldbench_methods.cartography.autoencoder import SIDE

#: Within this many grid steps of an emitter the path loss is flat.
FLAT_RADIUS = 2.0


@dataclass(frozen=True)
class Uniform:
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

    eta: Uniform
    decorrelation: tuple[float, ...]
    exponent: Uniform
    rate: Uniform


class Fields:
    """An endless supply of fields of one population, drawn on one device."""

    def __init__(self, population: Population, device: torch.device) -> None:
        self.population = population
        self.device = device
        factors = [
            torch.tensor(shadowing_factor((SIDE, SIDE), distance), dtype=torch.float32)
            for distance in population.decorrelation
        ]
        self._factors = torch.stack(factors).to(device)

    def shadowing(self, count: int, generator: torch.Generator) -> Tensor:
        """Correlated Gaussian shadowing of mean 0 and variance 1, shape (distances, count, 51, 51), float32.

        Args:
            count: how many for each decorrelation distance.
            generator: the only source of randomness, on the same device.
        """
        normals = torch.randn(len(self._factors), count, SIDE * SIDE, generator=generator, device=self.device)
        return (normals @ self._factors.mT).unflatten(2, (SIDE, SIDE))

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
        shadowing = self.shadowing(shadowings, generator).flatten(0, 1)
        turned = torch.cat([_symmetry(shadowing, view) for view in range(views)])
        order = torch.randperm(len(turned), generator=generator, device=self.device)
        return self._loss(turned[order], generator)

    def masks(self, count: int, generator: torch.Generator) -> Tensor:
        """Boolean masks, shape (count, 51, 51), True = observed: a coin for each pixel."""
        rate = self.population.rate.draw(count, generator)[:, None, None]
        return torch.rand(count, SIDE, SIDE, generator=generator, device=self.device) < rate

    def examples(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Fields and masks of the same population from the datasets' generator, equal on every device.

        Returns:
            Unit-norm fields, float32, and boolean masks, both of shape (count, 51, 51). No two fields share
            a shadowing.
        """
        population = self.population
        distances = population.decorrelation
        share = [count // len(distances) + (index < count % len(distances)) for index in range(len(distances))]
        losses = [
            spatial_losses(
                number,
                rng,
                grid=(SIDE, SIDE),
                eta=rng.uniform(population.eta.low, population.eta.high, number),
                decorrelation=distance,
                exponent=(population.exponent.low, population.exponent.high),
                flat_radius=FLAT_RADIUS,
            )
            for number, distance in zip(share, distances, strict=True)
            if number
        ]
        rate = rng.uniform(population.rate.low, population.rate.high, (count, 1, 1))
        masks = rng.random((count, SIDE, SIDE)) < rate
        fields = torch.tensor(np.concatenate(losses), dtype=torch.float32, device=self.device)
        return fields, torch.tensor(masks, device=self.device)

    def _loss(self, shadowing: Tensor, generator: torch.Generator) -> Tensor:
        count = len(shadowing)
        emitter = Uniform(0.0, SIDE - 1.0).draw(2 * count, generator).reshape(2, count, 1)
        grid = torch.arange(SIDE, dtype=torch.float32, device=self.device)
        across, along = (grid - emitter[0]) ** 2, (grid - emitter[1]) ** 2
        distance = (across[:, :, None] + along[:, None, :]).sqrt_()
        exponent = self.population.exponent.draw(count, generator)[:, None, None]
        eta = self.population.eta.draw(count, generator)[:, None, None]
        decay = (distance / FLAT_RADIUS).clamp_(min=1.0).log_().mul_(exponent)
        fields = (shadowing * (eta * (math.log(10) / 10)) - decay).exp_()
        return fields / torch.linalg.vector_norm(fields, dim=(1, 2), keepdim=True)


def generator(device: torch.device, *what: int) -> torch.Generator:
    """An independent generator for each different tuple of numbers."""
    return torch.Generator(device).manual_seed(_mixed(what))


def _mixed(numbers: Sequence[int]) -> int:
    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _symmetry(fields: Tensor, which: int) -> Tensor:
    turned = torch.rot90(fields, which % 4, dims=(1, 2))
    return turned.flip(1) if which >= 4 else turned
