"""Withheld entries imitate the gaps: whole slices, pieces, the edge, single entries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt

from fieldbench.errors import RequestError
from fieldbench.gap_holdout import withhold_like_gaps
from fieldbench.sampler import is_fiber_mask


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def chosen(mask: np.ndarray, seed: int = 0, share: float = 0.1, valid: np.ndarray | None = None) -> np.ndarray:
    missing = ~mask if valid is None else valid & ~mask
    return withhold_like_gaps(mask, missing, share, rng(seed), most=0.5)


def depths(mask: np.ndarray, entries: np.ndarray) -> np.ndarray:
    return distance_transform_edt(~mask)[entries]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.4])
def test_of_single_gaps_exactly_the_share_is_withheld(share: float) -> None:
    mask = rng().random((60, 60)) < 0.97
    withheld = chosen(mask, share=share)
    assert withheld.sum() == pytest.approx(share * mask.sum(), abs=1)
    assert not (withheld & ~mask).any()


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_scattered_observations_lose_scattered_entries(rate: float) -> None:
    mask = rng().random((40, 40)) < rate
    means = [depths(mask & ~withheld, withheld).mean() for withheld in (chosen(mask, seed) for seed in range(8))]
    assert np.mean(means) == pytest.approx(depths(mask, ~mask).mean(), rel=0.15)


def test_a_block_is_imitated_by_a_block() -> None:
    mask = np.ones((80, 80), dtype=bool)
    mask[10:35, 20:45] = False
    for seed in range(5):
        withheld = chosen(mask, seed)
        left = mask & ~withheld
        # Somewhere it is as deep as the block is; nowhere are its surroundings emptier than two blocks side by side.
        assert depths(left, withheld).max() >= 12
        assert depths(left, withheld).max() <= 26


def test_missing_maps_are_imitated_by_missing_maps() -> None:
    mask = np.ones((30, 12, 12), dtype=bool)
    mask[[3, 11, 12, 25]] = False
    withheld = chosen(mask)
    whole = withheld.all(axis=(1, 2))
    assert 2 <= whole.sum() <= 6
    assert withheld[~whole].sum() < 0.05 * mask.sum()  # and a few entries beside them


def test_the_last_maps_are_imitated_by_the_last_that_remain() -> None:
    mask = np.ones((30, 8, 8), dtype=bool)
    mask[-3:] = False
    withheld = chosen(mask)
    assert withheld[24:27].all()
    assert withheld[:20].sum() < 0.05 * mask.sum()


def test_beyond_a_range_the_edge_of_what_remains_is_withheld() -> None:
    distance = np.hypot(*(np.indices((60, 60)) - 30))
    mask = distance < 24
    withheld = chosen(mask)
    assert distance[withheld].mean() > distance[mask & ~withheld].mean() + 5


def test_a_gap_of_a_day_is_not_imitated_across_land() -> None:
    valid = np.ones((30, 30), dtype=bool)
    valid[:, :15] = False  # land is not a gap, however large
    mask = valid & (rng().random((30, 30)) < 0.7)
    withheld = chosen(mask, valid=valid)
    assert depths(mask & ~withheld, withheld).max() < 6


def test_whole_fibers_are_withheld_where_fibers_are_observed() -> None:
    mask = np.repeat(rng().random((20, 20, 1)) < 0.2, 8, axis=2)
    withheld = chosen(mask, share=0.2)
    most = withheld.any(axis=-1)
    assert is_fiber_mask(np.where(withheld.sum(axis=-1, keepdims=True) > 2, withheld, False))
    assert withheld[..., 0].sum() == pytest.approx(0.2 * mask[..., 0].sum(), rel=0.6)
    assert most.any()


def test_the_generator_alone_decides() -> None:
    mask = rng().random((20, 20, 5)) < 0.4
    first, again, other = (chosen(mask, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_something_is_always_left() -> None:
    mask = np.zeros((5, 5), dtype=bool)
    mask[0, 0] = mask[4, 4] = True
    for seed in range(5):
        assert chosen(mask, seed, share=0.9).sum() == 1


def test_without_gaps_single_entries_are_withheld() -> None:
    assert chosen(np.ones((10, 10), dtype=bool), share=0.2).sum() == 20


def test_one_observation_is_never_withheld() -> None:
    point, fiber = np.zeros((2, 3, 3, 3), dtype=bool)
    point[1, 1, 1] = fiber[1, 1] = True
    with pytest.raises(RequestError, match=r"only one position .* named and --budget 0"):
        chosen(point)


def test_many_small_gaps_are_imitated_one_by_one() -> None:
    """Of 500 x 500 with 1 % isolated gaps 25,000 entries are withheld."""
    mask = rng().random((500, 500)) < 0.99
    assert chosen(mask).sum() == pytest.approx(0.1 * mask.sum(), rel=0.01)
