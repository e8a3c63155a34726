"""Moderated variances of cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import polygamma

from fieldbench.regression.spread import _inverse_trigamma, moderated


def test_the_law_that_variances_were_drawn_from_is_found() -> None:
    """sigma^2 = d0 s0^2 / chi2(d0), s^2 = sigma^2 chi2(d) / d: Smyth 2004, section 3."""
    rng = np.random.default_rng(1000)
    prior, common, freedom, cells = 8.0, 0.04, 3.0, 200_000
    true = prior * common / rng.chisquare(prior, cells)
    variances = true * rng.chisquare(freedom, cells) / freedom
    drawn, freedoms = moderated(variances, np.full(cells, freedom))
    assert freedoms[0] - freedom == pytest.approx(prior, rel=0.05)
    found = (drawn * freedoms - variances * freedom) / (freedoms - freedom)
    assert found == pytest.approx(common, rel=0.02)
    # The best guess from one cell's own data is nearer to the truth than those data.
    assert np.abs(np.log(drawn / true)).mean() < 0.7 * np.abs(np.log(variances / true)).mean()


def test_cells_that_are_alike_are_pooled() -> None:
    variances, freedoms = np.array([1.0, 1.1, 0.9]), np.array([4.0, 5.0, 3.0])
    drawn, together = moderated(variances, freedoms)
    assert drawn == pytest.approx((4 * 1.0 + 5 * 1.1 + 3 * 0.9) / 12)
    assert together == pytest.approx(12)


def test_one_cell_has_nothing_to_learn_from() -> None:
    drawn, freedom = moderated(np.array([0.3]), np.array([2.0]))
    assert (drawn[0], freedom[0]) == (0.3, 2.0)


def test_cells_without_spread_stay_without() -> None:
    assert moderated(np.zeros(4), np.full(4, 2.0))[0].tolist() == [0.0] * 4
    assert np.isfinite(moderated(np.array([0.0, 0.1, 0.2]), np.full(3, 2.0))).all()


@pytest.mark.parametrize("value", [1e-8, 0.01, 1.0, 1e4])
def test_the_trigamma_function_is_inverted(value) -> None:
    assert polygamma(1, _inverse_trigamma(value)) == pytest.approx(value, rel=1e-9)
