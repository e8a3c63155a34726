"""Gaussian random fields of known covariance: what can be known of them is known exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal, Self, TypeAlias

import numpy as np
from pydantic import model_validator

import fieldbench
from fieldbench import FloatArray, grid_axes, parameter

_ROOT3, _ROOT5 = np.sqrt(3.0), np.sqrt(5.0)

#: Correlation as a function of distance in length scales.
Kernel: TypeAlias = Callable[[FloatArray], FloatArray]

KERNELS: dict[str, Kernel] = {
    "exponential": lambda r: np.exp(-r),
    "matern-3/2": lambda r: (1 + _ROOT3 * r) * np.exp(-_ROOT3 * r),
    "matern-5/2": lambda r: (1 + _ROOT5 * r + 5 / 3 * r**2) * np.exp(-_ROOT5 * r),
    "squared-exponential": lambda r: np.exp(-(r**2) / 2),
}

#: Numbers that the algebra of a floor may hold at once; a larger field has none.
_LARGEST_FLOOR = 2**27

#: Entries of the torus on which fields are drawn, and the share of its variance that may be lost there.
_LARGEST_TORUS, _LOST = 2**25, 1e-6


class GaussianField(fieldbench.Dataset):
    """A Gaussian process of mean 0 and known covariance on a grid of 2 to 4 axes, drawn anew each trial.

    The covariance is variance x (kernel of the distance in length scales + nugget at distance 0). Fields are drawn by
    circulant embedding (Dietrich and Newsam 1997).
    """

    name = "gaussian-field"
    revision = "1"

    shape: tuple[int, ...] = parameter((16, 16, 16), "points along each of 2 to 4 axes", min_length=2, max_length=4)
    kernel: Literal["exponential", "matern-3/2", "matern-5/2", "squared-exponential"] = parameter(
        "matern-3/2", "correlation as a function of distance, from rough to smooth"
    )
    lengths: tuple[float, ...] = parameter((4.0,), "length scale along each axis, or one for all", unit="grid steps")
    variance: float = parameter(1.0, "variance of the field without its nugget", gt=0)
    nugget: float = parameter(0.0, "variance of a part of the field without correlation, over the other's", ge=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if min(self.shape) < 1:
            raise ValueError("shape must be positive")
        if len(self.lengths) not in (1, len(self.shape)) or min(self.lengths) <= 0:
            raise ValueError(f"lengths must be 1 or {len(self.shape)} positive numbers, one for each axis")
        return self

    @property
    def scales(self) -> FloatArray:
        """The length scale along each axis."""
        return np.broadcast_to(np.asarray(self.lengths, dtype=float), (len(self.shape),))

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        field = np.sqrt(self.variance) * stationary(self.shape, self.scales, KERNELS[self.kernel], rng)
        if self.nugget:
            field = field + np.sqrt(self.variance * self.nugget) * rng.normal(size=self.shape)
        return fieldbench.Field(field, grid_axes(self.shape), "", "Gaussian field")

    def floor(self, field: fieldbench.Field, observation: fieldbench.Observation) -> fieldbench.Estimate | None:
        """The posterior, given the deviation of the noise as the observed values have it."""
        noise = observation.observed - field.values[observation.mask]
        if len(noise) * field.values.size > _LARGEST_FLOOR:
            return None
        return self.posterior(observation, float(np.sqrt(np.mean(noise**2))))

    def posterior(self, observation: fieldbench.Observation, noise: float = 0.0) -> fieldbench.Estimate:
        """What is known of a field of this dataset once it is observed; nobody can know more.

        Args:
            observation: of a field of this shape.
            noise: standard deviation of the normal noise in the observed values.

        Returns:
            Conditional mean and deviation of every entry, by dense algebra: its time grows as the cube of the number
            of observed entries.
        """
        from scipy.linalg import cho_factor, cho_solve
        from scipy.spatial.distance import cdist

        grid = np.argwhere(np.ones(self.shape, dtype=bool)) / self.scales
        points, seen = grid[observation.mask.ravel()], np.flatnonzero(observation.mask)
        own = self.variance * self.nugget
        among = self.variance * KERNELS[self.kernel](cdist(points, points))
        towards = self.variance * KERNELS[self.kernel](cdist(points, grid))
        towards[np.arange(len(seen)), seen] += own  # the nugget of an observed entry is seen as well
        # A trace of noise keeps the system of a smooth kernel well-conditioned.
        smallest = 1e-10 * self.variance
        factor = cho_factor(among + (own + noise**2 + smallest) * np.eye(len(points)))
        solved = cho_solve(factor, towards)
        variances = self.variance + own - np.einsum("nm,nm->m", towards, solved)
        mean = observation.observed @ solved
        return fieldbench.Estimate(mean.reshape(self.shape), np.sqrt(np.maximum(variances, 0.0)).reshape(self.shape))


def stationary(
    shape: Sequence[int],
    lengths: FloatArray,
    kernel: Kernel,
    rng: np.random.Generator,
) -> FloatArray:
    """A field of unit variance whose correlation is the kernel of the distance in length scales.

    Args:
        shape: of the field.
        lengths: length scales in grid steps, one an axis.
        kernel: correlation at a distance in length scales.
        rng: draws.

    Raises:
        ValueError: if the length scales are too long for this grid.
    """
    powers = spectrum(tuple(shape), tuple(lengths), kernel)
    noise = rng.normal(size=powers.shape) + 1j * rng.normal(size=powers.shape)
    drawn = np.fft.fftn(np.sqrt(powers) * noise).real / np.sqrt(powers.size)
    return np.ascontiguousarray(drawn[tuple(slice(size) for size in shape)])


@functools.lru_cache(maxsize=1)  # all trials of a dataset draw from one
def spectrum(shape: tuple[int, ...], lengths: tuple[float, ...], kernel: Kernel) -> FloatArray:
    """The eigenvalues of the correlation on a torus that holds the grid, so large that none is negative.

    Args:
        shape: of the field.
        lengths: length scales in grid steps, one an axis.
        kernel: correlation at a distance in length scales.

    Raises:
        ValueError: if no torus of a size that can be drawn on is large enough.
    """
    sizes = [max(1, 2 * (size - 1)) for size in shape]
    while np.prod(sizes) <= _LARGEST_TORUS:
        # Halfway round the torus, the way back is shorter.
        steps = [np.minimum(np.arange(size), size - np.arange(size)) for size in sizes]
        squares = sum(
            np.square(part / length) for part, length in zip(np.meshgrid(*steps, indexing="ij"), lengths, strict=True)
        )
        powers = np.fft.fftn(kernel(np.sqrt(squares))).real
        if -powers[powers < 0].sum() <= _LOST * powers.sum():
            return np.maximum(powers, 0.0)
        sizes = [size if size == 1 else 2 * size for size in sizes]
    raise ValueError("the length scales are too long for this grid; give shorter ones, or a rougher kernel")
