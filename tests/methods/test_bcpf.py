"""Tensors whose rank, noise and unobserved entries are known."""

import numpy as np
import pytest

from fieldbench import Observation
from fieldbench_methods.bcpf import BCPF

SEEDS = range(1000, 1005)


class Last:
    """A report that keeps the last diagnostics."""

    def __init__(self):
        self.diagnostics = {}

    def due(self, step):
        return True

    def __call__(self, step, estimate, **diagnostics):
        self.diagnostics = diagnostics


def low_rank(shape, rank, seed):
    """A random tensor of this CP rank with unit standard deviation."""
    rng = np.random.default_rng(seed)
    letters = "ijkl"[: len(shape)]
    factors = [rng.normal(size=(size, rank)) for size in shape]
    tensor = np.einsum(",".join(f"{letter}r" for letter in letters) + "->" + letters, *factors)
    return tensor / tensor.std(), rng


def predict(tensor, rng, rate, noise, **parameters):
    mask = rng.random(tensor.shape) < rate
    observation = Observation(tensor + noise * rng.normal(size=tensor.shape), mask)
    report = Last()
    made = BCPF(**parameters).complete(observation, seed=1, device="cpu", report=report)
    return made.mean, made.deviation, mask, report.diagnostics


def relative_error(estimate, tensor, mask):
    return np.linalg.norm((estimate - tensor)[~mask]) / np.linalg.norm(tensor[~mask])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_low_rank_tensor_without_noise_is_recovered(seed):
    tensor, rng = low_rank((15, 16, 17), 3, seed)
    estimate, _, mask, _ = predict(tensor, rng, 0.3, 0.0, max_rank=10)
    assert relative_error(estimate, tensor, mask) < 1e-3


@pytest.mark.parametrize("shape", [(30, 25), (12, 13, 14), (8, 9, 7, 6)])
def test_unobserved_entries_are_found_to_better_than_the_noise_in_any_order(shape):
    tensor, rng = low_rank(shape, 2, 1003)
    estimate, _, mask, _ = predict(tensor, rng, 0.5, 0.05, max_rank=6)
    assert relative_error(estimate, tensor, mask) < 0.05


def test_the_rank_is_found_in_most_draws_and_never_missed():
    ranks = []
    for seed in SEEDS:
        tensor, rng = low_rank((15, 16, 17), 3, seed)
        ranks.append(predict(tensor, rng, 0.3, 0.1, max_rank=10)[3]["rank"])
    assert min(ranks) == 3
    assert ranks.count(3) >= 3


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_the_noise_level_is_found(noise):
    tensor, rng = low_rank((15, 16, 17), 3, 1002)
    found = predict(tensor, rng, 0.4, noise, max_rank=8)[3]["noise"]
    # About 1600 observed entries and 3 x 48 parameters: the estimate scatters by some 2 %.
    assert found == pytest.approx(noise, rel=0.08)


def test_the_standard_deviation_covers_the_error():
    tensor, rng = low_rank((15, 16, 17), 3, 1001)
    estimate, deviation, mask, _ = predict(tensor, rng, 0.4, 0.1, max_rank=6)
    within = np.abs(estimate - tensor)[~mask] < 2 * deviation[~mask]
    # A Gaussian would have 95 %; variational posteriors are a little too sure of themselves.
    assert 0.88 < within.mean() <= 1.0
    assert deviation[~mask].mean() < 0.1


def test_pure_noise_is_not_fitted():
    rng = np.random.default_rng(1000)
    noise = rng.normal(size=(15, 16, 17))
    mask = rng.random(noise.shape) < 0.3
    estimate = BCPF(max_rank=5).complete(Observation(noise, mask), seed=1, device="cpu", report=Last()).mean
    # The best answer is 0, whose error is 1.
    assert np.sqrt(np.mean((estimate - noise)[~mask] ** 2)) < 1.1


def test_an_axis_with_an_unobserved_slice_is_finite_there_and_unsure():
    tensor, rng = low_rank((12, 13, 14), 2, 1002)
    mask = rng.random(tensor.shape) < 0.5
    mask[3] = False
    made = BCPF(max_rank=4).complete(Observation(tensor, mask), seed=1, device="cpu", report=Last())
    assert np.isfinite(made.mean).all()
    assert made.deviation[3].mean() > 10 * made.deviation[4].mean()
