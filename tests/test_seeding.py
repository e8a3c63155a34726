"""Global random generators, set for a while."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import fieldbench
from fieldbench.seeding import snapshot


def drawn() -> list[float]:
    return [random.random(), float(np.random.random()), float(torch.rand(1))]  # noqa: NPY002


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_generators_as_they_were() -> None:
    before = snapshot()
    with fieldbench.seeded(3):
        first = drawn()
    assert snapshot() == before
    with fieldbench.seeded(3):
        assert drawn() == first
    with fieldbench.seeded(2**32 - 1):
        assert all(one != other for one, other in zip(drawn(), first, strict=True))


def test_the_generators_are_as_they_were_after_an_error_too() -> None:
    before = snapshot()
    with pytest.raises(ZeroDivisionError), fieldbench.seeded(3):
        print(drawn()[0] / 0)
    assert snapshot() == before
