"""A field with gaps and a coast, as arrays; the file tests write it in every format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Example:
    """A small ocean: shape (depth 3, lat 4, lon 5), NaN where missing, valid is False on land."""

    values: np.ndarray
    valid: np.ndarray
    depth: np.ndarray
    lat: np.ndarray
    lon: np.ndarray


@pytest.fixture
def ocean() -> Example:
    rng = np.random.default_rng(0)
    values = 15 + rng.normal(size=(3, 4, 5))
    valid = np.ones((3, 4, 5), dtype=bool)
    valid[:, 0, :2] = False
    values[~valid] = np.nan
    values[1, 2, 3] = values[0, 3, 4] = np.nan  # two gaps in the sea
    return Example(values, valid, np.array([0.0, 10.0, 30.0]), 18 + 0.5 * np.arange(4), 110 + 0.25 * np.arange(5))
