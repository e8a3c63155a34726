"""Tucker decomposition by alternating least squares, with the unobserved entries imputed (EM)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np

import fieldbench
from fieldbench import FloatArray, Mask, Observation, Value
from fieldbench_methods.scaling import fit_scaling


class TuckerALS(fieldbench.Method):
    """Tucker decomposition fitted to the observed entries by expectation-maximisation, through tensorly.

    Each iteration imputes the unobserved entries from the current decomposition, then runs one sweep of
    alternating least squares (higher-order orthogonal iteration) on the imputed tensor. The misfit at
    the observed entries never rises; the iteration stops when it hardly falls any more. Unobserved entries
    start at the observed mean, so nothing that stands in them can matter.
    (Kolda and Bader 2009, section 4.2; Tomasi and Bro 2005 for the imputation.)
    """

    name = "tucker-als"
    revision = "1"
    conformance_parameters: ClassVar[dict[str, Value]] = {"iterations": 20}

    ranks: int | tuple[int, ...] = fieldbench.parameter(
        5,
        "multilinear ranks, one for all axes or one an axis (5x5x5)",
        source="paper, section V-A: core (5,5,5)",
        search=(1, 12),
    )
    iterations: int = fieldbench.parameter(2000, "most iterations", ge=1)
    tolerance: float = fieldbench.parameter(
        1e-6, "stop when an iteration lowers the observed misfit by less than this share of the observed norm", ge=0
    )
    start: Literal["svd", "random"] = fieldbench.parameter(
        "svd",
        "initial factor matrices: singular vectors of the mean-filled unfoldings, or random orthonormal ones",
        search=["svd", "random"],
    )

    def check_shape(self, shape: Sequence[int]) -> None:
        if isinstance(self.ranks, tuple) and len(self.ranks) != len(shape):
            raise ValueError(f"ranks has {len(self.ranks)} numbers, the field {len(shape)} axes; give one an axis")
        if min(np.atleast_1d(self.ranks)) < 1:
            raise ValueError("ranks must be at least 1")

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        self.check_shape(observation.shape)
        scaling = fit_scaling(observation)
        tensor = scaling.forward(observation.filled(1.0))
        mask = observation.mask
        ranks = possible_ranks(observation.shape, self.ranks)
        norm = float(np.linalg.norm(tensor[mask])) or 1.0

        rng = np.random.default_rng(seed) if self.start == "random" else None
        estimate, previous = tensor, np.inf
        for step, (estimate, misfit) in enumerate(expectation_maximisation(tensor, mask, ranks, rng), start=1):
            if report.due(step):
                report(step, scaling.inverse(estimate), misfit=misfit / norm)
            if step == self.iterations or previous - misfit < self.tolerance * norm:
                break
            previous = misfit
        return scaling.inverse(estimate)


def expectation_maximisation(
    tensor: FloatArray, mask: Mask, ranks: Sequence[int], rng: np.random.Generator | None
) -> Iterator[tuple[FloatArray, float]]:
    """Impute and refit, without end.

    Args:
        tensor: array of any order; only the entries of ``mask`` (True = observed) are read.
        mask: boolean array of the same shape.
        ranks: multilinear ranks.
        rng: draws random orthonormal factor matrices to start from; None starts from singular vectors.

    Yields:
        The low-rank tensor of full shape, and the norm of its misfit at the observed entries.
    """
    imputed = np.where(mask, tensor, tensor[mask].mean())
    factors = _singular_vectors(imputed, ranks) if rng is None else _random_orthonormal(imputed.shape, ranks, rng)
    while True:
        core = sweep(imputed, factors, ranks)
        estimate = expand(core, factors)
        yield estimate, float(np.linalg.norm((estimate - tensor)[mask]))
        imputed = np.where(mask, tensor, estimate)


def sweep(tensor: FloatArray, factors: list[FloatArray], ranks: Sequence[int]) -> FloatArray:
    """One sweep of higher-order orthogonal iteration: replaces every factor matrix, returns the core tensor.

    Args:
        tensor: the current estimate.
        factors: one matrix an axis, shape (size, rank); replaced.
        ranks: one an axis.
    """
    from tensorly import unfold
    from tensorly.tenalg import mode_dot, multi_mode_dot

    for mode, rank in enumerate(ranks):
        compressed = multi_mode_dot(tensor, factors, skip=mode, transpose=True)
        factors[mode] = np.linalg.svd(unfold(compressed, mode), full_matrices=False)[0][:, :rank]
    return mode_dot(compressed, factors[-1].T, mode=len(factors) - 1)


def expand(core: FloatArray, factors: Sequence[FloatArray]) -> FloatArray:
    """The full tensor of a Tucker decomposition."""
    from tensorly.tenalg import multi_mode_dot

    return multi_mode_dot(core, factors)


def possible_ranks(shape: Sequence[int], ranks: int | Sequence[int]) -> tuple[int, ...]:
    """The ranks asked for, lowered to what a tensor of this shape can have.

    No mode's rank exceeds its size, nor the product of the other modes' ranks.
    """
    wanted = [ranks] * len(shape) if isinstance(ranks, int) else list(ranks)
    possible = [min(rank, size) for rank, size in zip(wanted, shape, strict=True)]
    for mode in range(len(possible)):
        others = int(np.prod([rank for other, rank in enumerate(possible) if other != mode], dtype=np.int64))
        possible[mode] = min(possible[mode], others)
    return tuple(possible)


def _singular_vectors(tensor: FloatArray, ranks: Sequence[int]) -> list[FloatArray]:
    from tensorly import unfold

    return [np.linalg.svd(unfold(tensor, mode), full_matrices=False)[0][:, :rank] for mode, rank in enumerate(ranks)]


def _random_orthonormal(shape: Sequence[int], ranks: Sequence[int], rng: np.random.Generator) -> list[FloatArray]:
    return [np.linalg.qr(rng.normal(size=(size, rank)))[0] for size, rank in zip(shape, ranks, strict=True)]
