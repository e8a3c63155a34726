"""A window of a large field, and what a comparison does with it."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench import Axis, Estimate, Observation
from fieldbench.completion.bench import FitResult
from fieldbench.completion.comparison import CandidateComparison, rank
from fieldbench.completion.validation import Validation
from fieldbench.completion.window import window

DAYS = (8, 90, 120)


def cloudy(shape: tuple[int, ...] = DAYS) -> Observation:
    """A field that tells by its values where it was cut, with land and 40 % missing."""
    rng = np.random.default_rng(2)
    values = np.arange(np.prod(shape), dtype=float).reshape(shape) / 1000
    valid = np.ones(shape, dtype=bool)
    valid[..., : shape[-1] // 3] = False
    mask = valid & (rng.random(shape) < 0.6)
    axes = tuple(Axis(f"a{number}", 3.0 * np.arange(size)) for number, size in enumerate(shape))
    return Observation(np.where(mask, values, np.nan), mask, axes, valid=valid)


def test_a_small_field_has_no_window() -> None:
    assert window(cloudy((8, 9, 12)), 2000, np.random.default_rng(0)) is None


def test_a_window_is_a_part_of_the_field_with_its_short_axes_whole() -> None:
    whole = cloudy()
    part = window(whole, 2000, np.random.default_rng(0))
    assert part is not None
    assert part.shape[0] == DAYS[0]
    assert 1000 <= part.mask.sum() <= 4000
    first = [int(axis.coordinates[0] / 3) for axis in part.axes]
    box = tuple(slice(start, start + size) for start, size in zip(first, part.shape, strict=True))
    np.testing.assert_array_equal(part.values, whole.values[box])
    np.testing.assert_array_equal(part.valid, whole.valid[box])
    for axis, own, where in zip(part.axes, whole.axes, box, strict=True):
        np.testing.assert_array_equal(axis.coordinates, own.coordinates[where])


@pytest.mark.parametrize("seed", range(5))
def test_a_window_has_observed_and_missing_entries(seed: int) -> None:
    """Two thirds of the windows of this field would hold nothing, or nothing that is missing."""
    values = np.zeros((200, 200))
    mask = np.zeros(values.shape, dtype=bool)
    mask[:70, :70] = True
    mask[10:20, 10:20] = False
    mask[150:160, 150:160] = True
    part = window(Observation(np.where(mask, values, np.nan), mask), 500, np.random.default_rng(seed))
    assert part is None or (part.mask.any() and (part.valid & ~part.mask).any())


class Bench:
    """Candidates whose errors and times are known: ``error:seconds``, and by which power of the size these grow."""

    width = 1

    def __init__(self, truth: np.ndarray) -> None:
        self.truth, self.fits = truth, list[tuple[str, int]]()

    def pointwise(self, method: str) -> bool:
        return False

    def fit(self, method: str, seen: Observation, seed: int, *, limit: float | None = None) -> FitResult:
        self.fits.append((method, seen.mask.size))
        error, seconds, power = map(float, f"{method}:1".split(":")[:3])
        seconds *= max(1.0, seen.mask.size / 5000) ** power
        if limit is not None and seconds > limit:
            return FitResult(None, limit, limit, "took too long", late=True)
        known = np.where(seen.mask, seen.values, 0.0)
        # Errors alternate, so that any withheld entries have the same root mean square.
        sign = np.where(np.indices(seen.shape).sum(axis=0) % 2, 1.0, -1.0)
        truth = self.truth if seen.shape == self.truth.shape else known
        return FitResult(Estimate(truth + error * sign), seconds, seconds)


def compared(methods: list[str], budget: float) -> tuple[Bench, list[str]]:
    """Which fits are made, and the candidates from best to worst."""
    whole = cloudy()
    bench = Bench(np.where(whole.mask, whole.values, 0.0))
    validation = Validation(whole, 0.1, 3, np.random.default_rng(0))
    comparison = CandidateComparison(
        bench,  # type: ignore[arg-type]
        whole,
        validation,
        0,
        budget,
        lambda line: None,
        lambda work: None,
    )
    made = sorted(comparison.run(methods), key=rank)
    return bench, [candidate.method for candidate in made]


def test_all_that_may_be_the_best_are_measured_alike() -> None:
    bench, ranked = compared(["1:0.01", "1.2:0.01", "9:0.01"], 100.0)
    assert ranked[0] == "1:0.01"
    whole = [method for method, size in bench.fits if size == np.prod(DAYS)]
    assert whole.count("1:0.01") == whole.count("1.2:0.01") == 8
    assert whole.count("9:0.01") == 3


def test_what_was_too_slow_in_a_window_waits_until_the_others_have_done() -> None:
    bench, ranked = compared(["1:50", "2:0.01"], 10.0)
    assert ranked[0] == "2:0.01"
    whole = [method for method, size in bench.fits if size == np.prod(DAYS)]
    assert whole[:3] == ["2:0.01"] * 3


def test_nobody_uses_up_the_budget_before_the_others() -> None:
    """Two grow faster than a window lets expect; the last one takes as long for the whole as for a window."""
    bench, ranked = compared(["1:1.2:2", "1.1:1.21:2", "1.2:1.3:0"], 45.0)
    assert ranked[0] == "1.2:1.3:0"
    assert [method for method, size in bench.fits if size == np.prod(DAYS)].count("1.2:1.3:0") >= 3


def test_where_all_are_slow_the_budget_is_used() -> None:
    _, ranked = compared(["1:0.2:1", "2:0.3:0"], 60.0)
    assert ranked[0] in ("1:0.2:1", "2:0.3:0")
