"""Variational inference of a CP factorisation from some of a tensor's entries.

Zhao, Zhang and Cichocki, "Bayesian CP factorization of incomplete tensors with automatic rank
determination", IEEE TPAMI 37(9), 2015. The model: an observed entry is the entry of a sum of rank-one
tensors plus Gaussian noise of precision tau; the rows of the factor matrices are Gaussian with one precision
lambda_r for each component, shared by all modes; lambda and tau have flat Gamma priors. A component that the
data do not need gets a large precision, fades, and is dropped: the rank is found, not given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Shape and rate of all Gamma priors: flat (paper, section 5).
FLAT = 1e-6

#: A noise of a tenth of the values' root mean square.
START_NOISE_PRECISION = 100.0


@dataclass
class Posterior:
    """What is believed about a tensor after some rounds of updates.

    Attributes:
        means: for each mode the posterior mean of its factor matrix, shape (size, rank).
        covariances: for each mode the posterior covariances of its rows, shape (size, rank, rank).
        precisions: expected precision of each component, shape (rank,).
        noise_precision: expected precision of the noise.
    """

    means: list[Array]
    covariances: list[Array]
    precisions: Array
    noise_precision: float

    @property
    def rank(self) -> int:
        """The number of components that are left."""
        return len(self.precisions)

    def tensor(self) -> Array:
        """Posterior mean of the tensor, of its shape."""
        return _expanded(self.means)

    def variance(self) -> Array:
        """Posterior variance of each entry, without the noise of a measurement, of the tensor's shape."""
        rank = self.rank
        pairs = zip(self.means, self.covariances, strict=True)
        squares = [_second_moments(*pair).reshape(-1, rank * rank) for pair in pairs]
        return np.maximum(_expanded(squares) - self.tensor() ** 2, 0.0)

    def keep(self, components: NDArray[np.bool_]) -> None:
        """Drop all components but these."""
        self.means = [mean[:, components] for mean in self.means]
        self.covariances = [covariance[:, components][:, :, components] for covariance in self.covariances]
        self.precisions = self.precisions[components]


def infer(
    shape: Sequence[int],
    indices: NDArray[np.intp],
    values: Array,
    *,
    max_rank: int,
    rounds: int,
    tolerance: float,
    negligible: float,
    rng: np.random.Generator,
) -> Iterator[Posterior]:
    """Update the posterior round by round until the fitted entries change by less than ``tolerance``.

    Args:
        shape: of the tensor.
        indices: of the observed entries, shape (n, order).
        values: of the observed entries, shape (n,), with a mean square of about 1.
        max_rank: number of components to start with.
        rounds: most rounds to do.
        tolerance: largest root mean square change of the fitted entries that counts as none.
        negligible: a component is dropped when its norm is below this share of the largest one's.
        rng: where columns of the first factors come from that have no singular vector.
    """
    posterior = _start(shape, indices, values, max_rank, rng)
    fitted = np.full(len(values), np.inf)
    for _ in range(rounds):
        for mode in range(len(shape)):
            _update_factor(posterior, mode, indices, values)
        _update_precisions(posterior)
        before, fitted = fitted, _at(posterior.means, indices).sum(axis=1)
        _update_noise(posterior, indices, values, fitted)
        _drop_faded(posterior, negligible)
        yield posterior
        if np.sqrt(np.mean((fitted - before) ** 2)) < tolerance:
            return


def _start(
    shape: Sequence[int], indices: NDArray[np.intp], values: Array, rank: int, rng: np.random.Generator
) -> Posterior:
    """Where the updates start: singular vectors of the tensor with 0 at unobserved entries.

    Rows start without covariance and noise starts small, so that the first round is nearly least squares.
    A start that is believed less lets components fade that are needed, and they never come back.
    """
    filled = np.zeros(shape)
    filled[tuple(indices.T)] = values
    means = []
    for mode, size in enumerate(shape):
        unfolding = np.moveaxis(filled, mode, 0).reshape(size, -1)
        vectors, singular, _ = np.linalg.svd(unfolding, full_matrices=False)
        found = min(rank, len(singular))
        mean = rng.normal(size=(size, rank))
        mean[:, :found] = vectors[:, :found] * np.sqrt(singular[:found])
        means.append(mean)
    covariances = [np.zeros((size, rank, rank)) for size in shape]
    return Posterior(means, covariances, np.ones(rank), START_NOISE_PRECISION)


def _update_factor(posterior: Posterior, mode: int, indices: NDArray[np.intp], values: Array) -> None:
    """Rows of one factor matrix, each from the observed entries of its slice (paper, eqs. 17 and 18)."""
    others = [other for other in range(len(posterior.means)) if other != mode]
    size, rank = posterior.means[mode].shape
    weights = _at([posterior.means[other] for other in others], indices[:, others])
    products = np.ones((len(values), rank, rank))
    for other in others:
        moments = _second_moments(posterior.means[other], posterior.covariances[other])
        products *= moments[indices[:, other]]
    gram, target = np.zeros((size, rank, rank)), np.zeros((size, rank))
    np.add.at(gram, indices[:, mode], products)
    np.add.at(target, indices[:, mode], weights * values[:, np.newaxis])
    precision = posterior.noise_precision * gram + np.diag(posterior.precisions)
    covariance = np.linalg.inv(precision)
    covariance = (covariance + covariance.transpose(0, 2, 1)) / 2
    posterior.covariances[mode] = covariance
    posterior.means[mode] = posterior.noise_precision * np.einsum("irs,is->ir", covariance, target)


def _update_precisions(posterior: Posterior) -> None:
    """One precision for each component, from its columns in all modes (paper, eqs. 19 to 21)."""
    rows = sum(len(mean) for mean in posterior.means)
    energy = np.zeros(posterior.rank)
    for mean, covariance in zip(posterior.means, posterior.covariances, strict=True):
        energy += (mean**2).sum(axis=0) + np.einsum("irr->r", covariance)
    posterior.precisions = (FLAT + rows / 2) / (FLAT + energy / 2)


def _update_noise(posterior: Posterior, indices: NDArray[np.intp], values: Array, fitted: Array) -> None:
    """The precision of the noise, from the expected squared residual (paper, eqs. 22 to 24)."""
    squares = np.ones((len(values), posterior.rank, posterior.rank))
    for mode, (mean, covariance) in enumerate(zip(posterior.means, posterior.covariances, strict=True)):
        squares *= _second_moments(mean, covariance)[indices[:, mode]]
    variance = max(0.0, float(squares.sum() - (fitted**2).sum()))
    residual = float(((values - fitted) ** 2).sum()) + variance
    posterior.noise_precision = (FLAT + len(values) / 2) / (FLAT + residual / 2)


def _drop_faded(posterior: Posterior, negligible: float) -> None:
    norms = np.prod([np.linalg.norm(mean, axis=0) for mean in posterior.means], axis=0)
    needed = norms > negligible * norms.max()
    if needed.any() and not needed.all():
        posterior.keep(needed)


def _second_moments(mean: Array, covariance: Array) -> Array:
    """Expected outer product of each row with itself, shape (size, rank, rank)."""
    return mean[:, :, np.newaxis] * mean[:, np.newaxis, :] + covariance


def _at(factors: Sequence[Array], indices: NDArray[np.intp]) -> Array:
    """Products over modes of the factors' rows at each index, shape (n, rank)."""
    product = np.ones((len(indices), factors[0].shape[1]))
    for mode, factor in enumerate(factors):
        product *= factor[indices[:, mode]]
    return product


def _expanded(factors: Sequence[Array]) -> Array:
    """Sum over components of the outer products of their columns."""
    first, *rest = factors
    shape = tuple(len(factor) for factor in factors)
    product = first
    for factor in rest[:-1]:
        product = (product[:, np.newaxis, :] * factor[np.newaxis, :, :]).reshape(-1, factor.shape[1])
    return (product @ rest[-1].T if rest else product.sum(axis=1)).reshape(shape)
