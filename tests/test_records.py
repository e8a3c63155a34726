"""The key of a trial: what it is made of, and that nothing which determines a result is left out of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from fieldbench.records import Cell, Trial

CELL = Cell("tap", "ssf", "random", "none", "final", 0.1)
TRIAL = Trial(CELL, 3, 7, "abc")


def test_a_key_is_the_hash_of_canonical_json() -> None:
    text = (
        '{"dataset":"ssf","identity":"abc","method":"tap","noise":"none","rate":0.1,"sampler":"random","seed":3,'
        '"select":"final","trial":7}'
    )
    assert TRIAL.key == hashlib.sha256(text.encode()).hexdigest()[:24]


@pytest.mark.parametrize(
    "other",
    [
        *(replace(TRIAL, cell=replace(CELL, **{name: "other"})) for name in ("method", "dataset", "sampler")),
        *(replace(TRIAL, cell=replace(CELL, **{name: "other"})) for name in ("noise", "select")),
        replace(TRIAL, cell=replace(CELL, rate=0.2)),
        replace(TRIAL, seed=4),
        replace(TRIAL, number=8),
        replace(TRIAL, identity="abd"),
    ],
    ids=["method", "dataset", "sampler", "noise", "select", "rate", "seed", "number", "identity"],
)
def test_another_trial_has_another_key(other: Trial) -> None:
    assert other.key != TRIAL.key
