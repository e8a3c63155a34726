"""Lemma 1 of the paper against simulation: where it holds, and that it does not hold beyond."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fieldbench_methods.fieldformer.lemma1 import extreme_value_support, lemma_law, lemma_support, simulated_support
from fieldbench_methods.fieldformer.sparsemax import sparsemax


@pytest.mark.parametrize("count", [2, 3, 10, 500])
def test_the_law_of_the_proof_is_a_law(count):
    law = lemma_law(count)
    assert (law >= 0).all()
    assert law.sum() == pytest.approx(1)


def test_the_printed_law_is_not():
    assert lemma_law(10, printed=True).sum() == pytest.approx(0.7755, abs=1e-4)


def test_first_probabilities_are_those_of_the_proof():
    stops, after_two = 2 - 2 * norm.cdf(1 / np.sqrt(2)), 2 - 2 * norm.cdf(1 / 2)
    for printed in (False, True):
        assert lemma_law(50, printed)[0] == pytest.approx(stops)
    assert lemma_law(50)[1] == pytest.approx((1 - stops) * after_two)


def test_two_scores_agree_with_the_simulation():
    mean, error = simulated_support(2, rows=200_000, seed=0)
    assert abs(mean - lemma_support(2)) < 4 * error


@pytest.mark.parametrize("count", [10, 100, 729])
def test_more_scores_disagree_with_the_lemma_and_agree_with_extreme_values(count):
    mean, error = simulated_support(count, rows=4000, seed=0)
    assert mean - lemma_support(count) > 10 * error
    assert mean == pytest.approx(extreme_value_support(count), rel=0.15)


def test_the_simulation_counts_what_sparsemax_keeps():
    rows = np.random.default_rng(5).standard_normal((300, 40))
    kept = (sparsemax(torch.from_numpy(rows)) > 0).sum(-1).double()
    assert simulated_support(40, 300, 5)[0] == pytest.approx(kept.mean().item())
