"""Errors by distance, counted by hand on a line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fieldbench.completion.nearby import AtDistance, by_distance
from fieldbench.completion.validation import WithheldFold
from fieldbench.field import Observation


def test_errors_are_by_the_distance_to_what_is_left() -> None:
    """Observed at 0 to 3 of 6; 2 and 3 are withheld, so they are 1 and 2 steps from what is left."""
    mask = np.array([[True, True, True, True, False, False]])
    observation = Observation(np.zeros(mask.shape), mask)
    withheld = np.array([[False, False, True, True, False, False]])
    fold = WithheldFold(withheld, np.argwhere(withheld), np.ones(2), np.array([1.0, 0.5]))
    validation: Any = SimpleNamespace(folds=[fold], power=0.5)
    found = by_distance(observation, validation, [np.array([9.0, 25.0])])
    assert found == (AtDistance(0.0, 1.0, 1, 3.0, 1), AtDistance(1.0, 2.0, 1, 5.0, 1))
