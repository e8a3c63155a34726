"""Samplers: exact counts, patterns and uniformity; and how a mask and noise make an observation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.ndimage import distance_transform_edt

from fieldbench.errors import RequestError
from fieldbench.field import Field, grid_axes
from fieldbench.sampler import Blocks, Fibers, RandomEntries, Sampler, is_fiber_mask, observe

SHAPE = (12, 10, 8)
EVERYWHERE = np.ones(SHAPE, dtype=bool)
COAST = EVERYWHERE.copy()
COAST[:3] = False  # land
COAST[5, 5, 4:] = False  # a shallow spot: the last depths do not exist
SAMPLERS = [RandomEntries(), RandomEntries(count="bernoulli"), Fibers(), Blocks()]


def draw(sampler: Sampler, valid: np.ndarray = EVERYWHERE, rate: float = 0.3, seed: int = 0) -> np.ndarray:
    return sampler.draw(valid, grid_axes(valid.shape), rate, np.random.default_rng(seed))


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.1, 1 / 3, 0.999, 1.0])
def test_random_entries_are_exactly_as_many_as_asked(rate: float) -> None:
    for valid in (EVERYWHERE, COAST):
        assert draw(RandomEntries(), valid, rate).sum() == round(rate * valid.sum())


@pytest.mark.parametrize("rate", [0.05, 0.1, 1.0])
def test_fibers_are_whole_and_exactly_as_many_as_asked(rate: float) -> None:
    mask = draw(Fibers(), EVERYWHERE, rate)
    assert is_fiber_mask(mask)
    assert mask.any(axis=-1).sum() == round(rate * 120)


def test_the_papers_radio_maps_have_260_sensors_at_10_percent() -> None:
    mask = draw(Fibers(), np.ones((51, 51, 64), dtype=bool), 0.1)
    assert mask.sum() == 260 * 64


def test_fibers_stop_where_the_field_does() -> None:
    mask = draw(Fibers(), COAST, 1.0)
    np.testing.assert_array_equal(mask, COAST)
    assert draw(Fibers(), COAST, 0.5).any(axis=-1).sum() == 45  # of 90 positions in the sea


def test_bernoulli_counts_vary_as_a_binomial() -> None:
    counts = [draw(RandomEntries(count="bernoulli"), rate=0.2, seed=seed).sum() for seed in range(300)]
    total = EVERYWHERE.sum()
    assert np.mean(counts) == pytest.approx(0.2 * total, abs=5 * np.sqrt(total * 0.16 / 300))
    assert np.std(counts) == pytest.approx(np.sqrt(total * 0.16), rel=0.25)


@pytest.mark.parametrize("sampler", [RandomEntries(), RandomEntries(count="bernoulli"), Fibers()], ids=str)
def test_every_position_is_as_likely_as_any_other(sampler: Sampler) -> None:
    shape = (6, 5, 2)
    valid = np.ones(shape, dtype=bool)
    draws = 2000
    hits = np.sum([draw(sampler, valid, 0.3, seed)[..., 0] for seed in range(draws)], axis=0).ravel()
    # Counts of draws without replacement are less spread than multinomial ones, so this is conservative.
    assert stats.chisquare(hits).pvalue > 1e-4
    assert hits.std() > 0


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_nothing_is_observed_where_the_field_does_not_exist(sampler: Sampler) -> None:
    mask = draw(sampler, COAST)
    assert mask.dtype == np.bool_
    assert not (mask & ~COAST).any()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_the_generator_alone_decides(sampler: Sampler) -> None:
    np.testing.assert_array_equal(draw(sampler, seed=3), draw(sampler, seed=3))
    assert (draw(sampler, seed=3) != draw(sampler, seed=4)).any()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("shape", [(9, 11), (4, 5, 6, 7)])
def test_any_order_of_tensor_is_sampled(sampler: Sampler, shape: tuple[int, ...]) -> None:
    mask = draw(sampler, np.ones(shape, dtype=bool), 0.5)
    assert mask.shape == shape
    assert 0 < mask.sum() < mask.size


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
def test_one_block_of_about_the_right_size_is_missing(rate: float) -> None:
    shape = (40, 40, 40)
    missing = ~draw(Blocks(), np.ones(shape, dtype=bool), rate)
    corners = np.argwhere(missing)
    low, high = corners.min(axis=0), corners.max(axis=0) + 1
    assert missing[tuple(slice(*edge) for edge in zip(low, high, strict=True))].all()  # contiguous and full
    assert missing.mean() == pytest.approx(1 - rate, rel=0.1)
    assert len(set(high - low)) == 1  # the field's proportions


def test_the_missing_block_moves() -> None:
    corners = {tuple(np.argwhere(~draw(Blocks(), seed=seed))[0]) for seed in range(20)}
    assert len(corners) > 5


@pytest.mark.parametrize("sampler", [RandomEntries(), Fibers()], ids=str)
def test_a_rate_that_observes_nothing_is_refused(sampler: Sampler) -> None:
    with pytest.raises(RequestError, match="observes none; use at least"):
        draw(sampler, rate=1e-5)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_withheld_entries_are_a_part_of_the_observed_ones(sampler: Sampler) -> None:
    mask = draw(sampler)
    withheld = sampler.withhold(mask, 0.1, np.random.default_rng(5))
    assert withheld.dtype == np.bool_
    assert not (withheld & ~mask).any()
    assert 0 < withheld.sum() < mask.sum()
    assert withheld.sum() == pytest.approx(0.1 * mask.sum(), rel=0.15)


def test_whole_fibers_are_withheld() -> None:
    mask = draw(Fibers())
    withheld = Fibers().withhold(mask, 0.25, np.random.default_rng(0))
    assert withheld.any(axis=-1).sum() == round(0.25 * 36)
    assert is_fiber_mask(withheld)
    assert is_fiber_mask(mask & ~withheld)


def test_a_missing_block_is_imitated_by_holes_not_by_scattered_entries() -> None:
    mask = draw(Blocks(), np.ones((40, 40), dtype=bool), 0.7)
    withheld = Blocks().withhold(mask, 0.1, np.random.default_rng(0))
    assert withheld.sum() == round(0.1 * mask.sum())
    depth = distance_transform_edt(~(mask & ~withheld))[withheld].mean()
    scattered = RandomEntries().withhold(mask, 0.1, np.random.default_rng(0))
    assert depth > 1.5 * distance_transform_edt(~(mask & ~scattered))[scattered].mean()
    everything = np.ones((5, 5), dtype=bool)
    assert Blocks().withhold(everything, 0.2, np.random.default_rng(0)).sum() == 5


@pytest.mark.parametrize("share", [0.001, 0.999])
def test_at_least_one_is_withheld_and_at_least_one_is_left(share: float) -> None:
    mask = np.zeros((3, 3), dtype=bool)
    mask[0, 0] = mask[2, 1] = True
    assert RandomEntries().withhold(mask, share, np.random.default_rng(0)).sum() == 1


def test_one_observation_cannot_be_split() -> None:
    mask = np.zeros((3, 3, 4), dtype=bool)
    mask[1, 1] = True
    with pytest.raises(RequestError, match="only one position is observed"):
        Fibers().withhold(mask, 0.5, np.random.default_rng(0))


def test_noise_is_added_where_observed_and_the_rest_is_unobserved() -> None:
    field = Field(
        np.arange(6.0).reshape(2, 3), unit="K", quantity="temperature", log_floor=1e-3, metadata={"emitters": 4}
    )
    mask = np.array([[True, False, False], [False, True, True]])
    observation = observe(field, mask, np.full((2, 3), 0.5))
    np.testing.assert_array_equal(observation.values, [[0.5, np.nan, np.nan], [np.nan, 4.5, 5.5]])
    np.testing.assert_array_equal(observation.mask, mask)
    assert (observation.unit, observation.quantity, observation.log_floor) == ("K", "temperature", 1e-3)
    assert (observation.axes, observation.metadata) == (field.axes, {"emitters": 4})
    np.testing.assert_array_equal(field.values, np.arange(6.0).reshape(2, 3))  # the truth keeps clean


def test_observing_keeps_single_precision() -> None:
    field = Field(np.ones((2, 2), dtype=np.float32))
    assert observe(field, np.ones((2, 2), dtype=bool), np.zeros((2, 2))).values.dtype == np.float32


def test_observing_nothing_is_refused() -> None:
    with pytest.raises(RequestError, match="no entry is observed"):
        observe(Field(np.ones((2, 2))), np.zeros((2, 2), dtype=bool), np.zeros((2, 2)))


def test_a_partly_observed_position_makes_no_fiber_mask() -> None:
    mask = np.zeros((3, 3, 4), dtype=bool)
    mask[1, 1] = True
    assert is_fiber_mask(mask)
    mask[1, 1, 0] = False
    assert not is_fiber_mask(mask)
