"""Soft-Impute against the conditions that its optimum fulfils, and a matrix of known rank."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench import Observation, RequestError
from fieldbench_methods.soft_impute import SoftImpute, shrunk


def test_a_whole_matrix_loses_the_penalty_from_each_singular_value():
    matrix = np.random.default_rng(0).normal(size=(12, 9))
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    expected = sum(
        max(value - 1.5, 0) * np.outer(one, other) for value, one, other in zip(singular, left.T, right, strict=True)
    )
    np.testing.assert_allclose(shrunk(matrix, 1.5), expected, atol=1e-12)


def test_its_answer_is_the_least_of_error_and_nuclear_norm():
    """The residual over the penalty is a subgradient of the nuclear norm: U V' and a part of spectral norm up to 1."""
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 15))
    mask = rng.random(truth.shape) < 0.5
    method = SoftImpute(axis=1, penalty=0.1, tolerance=1e-10, iterations=20_000)
    found = method.complete(Observation(truth, mask))
    mean = truth[mask].mean()
    penalty = 0.1 * np.linalg.norm(np.where(mask, truth - mean, 0), 2)
    residual = np.where(mask, truth - found, 0) / penalty
    left, singular, right = np.linalg.svd(found - mean, full_matrices=False)
    rank = int((singular > 1e-6 * singular[0]).sum())
    left, right = left[:, :rank], right[:rank]
    np.testing.assert_allclose(left.T @ residual @ right.T, np.eye(rank), atol=1e-4)
    outside = [np.eye(len(one)) - one @ one.T for one in (left, right.T)]
    beside = outside[0] @ residual @ outside[1]
    assert np.linalg.norm(beside, 2) <= 1 + 1e-4


def test_a_matrix_of_low_rank_is_completed():
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30))
    mask = rng.random(truth.shape) < 0.5
    found = SoftImpute().complete(Observation(truth, mask))
    assert np.linalg.norm((found - truth)[~mask]) < 0.1 * np.linalg.norm(truth[~mask])


def test_an_axis_that_is_not_there_is_refused():
    with pytest.raises(RequestError, match="axes 0 to 1"):
        SoftImpute(axis=2).complete(Observation(np.eye(3), np.eye(3) > 0))
