"""Held-out entries imitate the gaps: in number, in depth, and fiber by fiber."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt

from fieldbench.completion.gaps import withheld_like_the_gaps
from fieldbench.errors import RequestError
from fieldbench.field import Observation
from fieldbench.sampler import is_fiber_mask


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def scattered(shape: tuple[int, ...] = (20, 20, 10), rate: float = 0.2) -> Observation:
    return Observation(np.zeros(shape), rng().random(shape) < rate)


def with_a_hole(width: int) -> Observation:
    mask = np.ones((60, 60), dtype=bool)
    mask[20 : 20 + width, 20 : 20 + width] = False
    return Observation(np.zeros((60, 60)), mask)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_exactly_the_share_is_withheld_and_only_what_is_observed(share: float) -> None:
    observation = scattered()
    withheld = withheld_like_the_gaps(observation, share, rng())
    assert withheld.sum() == round(share * observation.mask.sum())
    assert not (withheld & ~observation.mask).any()


def mean_depth(observation: Observation, withheld: np.ndarray) -> float:
    """Mean distance of withheld entries to what is left."""
    return float(distance_transform_edt(~(observation.mask & ~withheld))[withheld].mean())


@pytest.mark.parametrize("width", [3, 6, 20])
def test_held_out_entries_are_as_far_from_the_rest_as_missing_ones(width: int) -> None:
    observation = with_a_hole(width)
    missing = distance_transform_edt(~observation.mask)[~observation.mask].mean()
    depths = [mean_depth(observation, withheld_like_the_gaps(observation, 0.1, rng(seed))) for seed in range(8)]
    assert np.mean(depths) == pytest.approx(missing, rel=0.25)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_scattered_observations_lose_scattered_entries(rate: float) -> None:
    observation = scattered(rate=rate)
    missing = distance_transform_edt(~observation.mask)[~observation.mask].mean()
    depths = [mean_depth(observation, withheld_like_the_gaps(observation, 0.1, rng(seed))) for seed in range(8)]
    assert np.mean(depths) == pytest.approx(missing, rel=0.1)


def test_whole_fibers_are_withheld_where_fibers_are_observed() -> None:
    mask = np.zeros((20, 20, 8), dtype=bool)
    mask[rng().random((20, 20)) < 0.2] = True
    withheld = withheld_like_the_gaps(Observation(np.zeros(mask.shape), mask), 0.2, rng())
    assert is_fiber_mask(withheld)
    assert withheld[..., 0].sum() == round(0.2 * mask[..., 0].sum())


def test_whole_fibers_are_withheld_as_far_as_they_exist() -> None:
    valid = np.arange(8) < rng(1).integers(1, 9, size=(20, 20, 1))
    mask = valid & (rng().random((20, 20, 1)) < 0.2)
    withheld = withheld_like_the_gaps(Observation(np.zeros(mask.shape), mask, valid=valid), 0.2, rng())
    at = withheld.any(axis=-1)
    np.testing.assert_array_equal(withheld[at], mask[at])
    assert at.sum() == round(0.2 * mask.any(axis=-1).sum())


def test_land_is_no_gap() -> None:
    valid = np.ones((30, 30), dtype=bool)
    valid[:, :15] = False  # deep land must make no deep holes
    mask = valid & (rng().random((30, 30)) < 0.7)
    withheld = withheld_like_the_gaps(Observation(np.zeros((30, 30)), mask, valid=valid), 0.1, rng())
    left = mask & ~withheld
    assert distance_transform_edt(~left)[withheld].max() < 4


def test_the_generator_alone_decides() -> None:
    observation = scattered()
    first, again, other = (withheld_like_the_gaps(observation, 0.1, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_something_is_always_left() -> None:
    mask = np.zeros((5, 5), dtype=bool)
    mask[0, 0] = mask[4, 4] = True
    assert withheld_like_the_gaps(Observation(np.zeros((5, 5)), mask), 0.9, rng()).sum() == 1


def test_without_gaps_or_with_one_observation_it_says_so() -> None:
    with pytest.raises(RequestError, match="nothing is missing"):
        withheld_like_the_gaps(Observation(np.zeros((3, 3)), np.ones((3, 3), dtype=bool)), 0.1, rng())
    point, fiber = np.zeros((2, 3, 3, 3), dtype=bool)
    point[1, 1, 1] = fiber[1, 1] = True
    for mask in (point, fiber):
        with pytest.raises(RequestError, match=r"only one position .* named and --budget 0"):
            withheld_like_the_gaps(Observation(np.zeros((3, 3, 3)), mask), 0.1, rng())
