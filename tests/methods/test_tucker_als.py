"""Tucker-ALS against tensorly's own sweep, on tensors of known rank, and where imputation is delicate."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import tensorly

from fieldbench import Observation
from fieldbench_methods.tucker_als import TuckerALS, expand, expectation_maximisation, possible_ranks, sweep
from tests.methods.fields import complete, low_rank, observe


class Reports(list):
    def due(self, step):
        return step % 10 == 0

    def __call__(self, step, estimate, **diagnostics):
        self.append((step, estimate, diagnostics))


@pytest.mark.parametrize("shape", [(8, 9), (7, 6, 5), (4, 5, 3, 6)])
def test_one_sweep_is_tensorlys(shape):
    rng = np.random.default_rng(0)
    tensor, ranks = rng.normal(size=shape), possible_ranks(shape, 3)
    factors = [np.linalg.qr(rng.normal(size=(size, rank)))[0] for size, rank in zip(shape, ranks, strict=True)]
    core = tensorly.tenalg.multi_mode_dot(tensor, factors, transpose=True)
    expected = tensorly.decomposition.tucker(tensor, list(ranks), init=(core, list(factors)), n_iter_max=1, tol=0)
    ours = list(factors)
    np.testing.assert_allclose(
        expand(sweep(tensor, ours, ranks), ours), tensorly.tucker_to_tensor(expected), atol=1e-10
    )


@pytest.mark.parametrize(
    ("shape", "ranks"), [((20, 18), (2, 2)), ((12, 11, 10), (2, 3, 2)), ((8, 8, 7, 6), (2, 1, 2, 2))]
)
@pytest.mark.parametrize("start", ["svd", "random"])
def test_a_tensor_of_the_given_rank_is_recovered(shape, ranks, start):
    field = low_rank(shape, ranks)
    estimate = complete(TuckerALS(ranks=ranks, start=start, tolerance=1e-10), observe(field, 0.6))
    assert np.linalg.norm(estimate - field) < 1e-3 * np.linalg.norm(field)


@pytest.mark.parametrize("start", [None, 3])
def test_the_observed_misfit_never_rises(start):
    field = np.random.default_rng(1).normal(size=(8, 7, 6))
    mask = np.random.default_rng(2).random(field.shape) < 0.4
    rng = None if start is None else np.random.default_rng(start)
    misfits = np.array([misfit for _, misfit in islice(expectation_maximisation(field, mask, (3, 3, 3), rng), 60)])
    assert (np.diff(misfits) <= 1e-12).all()
    assert misfits[-1] < 0.9 * misfits[0]


def test_it_stops_by_itself_and_reports_on_the_way():
    observation = observe(low_rank((9, 8, 7), (2, 2, 2)), 0.7)
    reports = Reports()
    estimate = TuckerALS(ranks=2).complete(observation, seed=0, device="cpu", report=reports)
    steps = [step for step, *_ in reports]
    assert steps == list(range(10, 10 * len(steps) + 1, 10))
    assert len(steps) < 200
    np.testing.assert_array_equal(estimate, complete(TuckerALS(ranks=2), observation))
    misfit = np.linalg.norm((reports[0][1] - observation.values)[observation.mask]) / np.linalg.norm(
        observation.observed
    )
    assert reports[0][2]["misfit"] == pytest.approx(misfit)


def test_the_random_start_follows_the_seed():
    observation = observe(low_rank((8, 7, 6), (3, 3, 3)), 0.3)
    method = TuckerALS(start="random", iterations=5)
    np.testing.assert_array_equal(complete(method, observation, 1), complete(method, observation, 1))
    assert np.abs(complete(method, observation, 1) - complete(method, observation, 2)).max() > 1e-3


def test_ranks_are_lowered_to_what_the_shape_allows():
    assert possible_ranks((20, 20, 20), 5) == (5, 5, 5)
    assert possible_ranks((3, 20, 20), 5) == (3, 5, 5)
    assert possible_ranks((20, 20), (5, 3)) == (3, 3)
    assert possible_ranks((20, 2, 2), 5) == (4, 2, 2)
    assert possible_ranks((7,), 5) == (1,)


def test_ranks_of_another_order_are_refused():
    with pytest.raises(ValueError, match="ranks has 2 numbers"):
        TuckerALS(ranks=(5, 5)).check_shape((20, 20, 20))
    with pytest.raises(ValueError, match="at least 1"):
        TuckerALS(ranks=0).check_shape((20, 20, 20))


@pytest.mark.parametrize("observed", [np.s_[1, 2, 3], np.s_[:]])
def test_one_entry_and_all_entries(observed):
    mask = np.zeros((6, 5, 4), dtype=bool)
    mask[observed] = True
    field = np.full(mask.shape, 2.5)
    np.testing.assert_allclose(complete(TuckerALS(), Observation(field, mask)), field, rtol=1e-9)
