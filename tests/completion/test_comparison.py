"""What decides between candidates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fieldbench import Estimate, Observation
from fieldbench.completion.bench import FitResult
from fieldbench.completion.comparison import CandidateComparison, rank
from fieldbench.completion.validation import Validation


class Errs:
    """A bench of methods that are wrong by a known amount in each fold, of a field that is zero."""

    width = 1

    def __init__(self, errors: dict[str, list[float]]) -> None:
        self._errors, self._fits = errors, Counter[str]()

    def pointwise(self, method: str) -> bool:
        return False

    def fit(self, method: str, seen: Observation, seed: int, **_: Any) -> FitResult:
        errors = self._errors[method]
        error = errors[self._fits[method] % len(errors)]
        self._fits[method] += 1
        return FitResult(Estimate(np.full(seen.shape, error)), 0.001, 0.001)


def compared(errors: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """Ratio and expected error of each method, best first."""
    mask = np.random.default_rng(0).random((20, 20)) < 0.5
    observation = Observation(np.where(mask, 0.0, np.nan), mask)
    validation = Validation(observation, 0.1, 3, np.random.default_rng(1))
    ignored = lambda text: None  # noqa: E731
    comparison = CandidateComparison(Errs(errors), observation, validation, 0, 60.0, ignored, ignored)  # type: ignore[arg-type]
    return {made.method: (made.ratio, made.expected) for made in sorted(comparison.run(list(errors)), key=rank)}


def test_one_bad_fold_of_eight_does_not_decide() -> None:
    made = compared({"steady": [0.2], "mostly better": [0.1, 0.1, 0.1, 1.0, 0.1, 0.1, 0.1, 0.1]})
    assert list(made) == ["mostly better", "steady"]
    assert made["steady"][0] == pytest.approx(0.2 / (0.1**7 * 1.0) ** (1 / 8))
    # What is promised of it is a root mean square, the bad fold with it.
    assert made["mostly better"][1] == pytest.approx(np.sqrt((7 * 0.1**2 + 1.0**2) / 8), rel=0.05)


def test_better_in_all_folds_is_better() -> None:
    made = compared({"worse": [0.3, 3.0, 0.6], "better": [0.1, 1.0, 0.2]})
    assert list(made) == ["better", "worse"]
    assert made["worse"][0] == pytest.approx(3)


def test_errors_beyond_all_numbers_are_compared() -> None:
    made = compared({"endless": [np.inf], "one": [1.0], "half": [0.5]})
    assert list(made) == ["half", "one", "endless"]
