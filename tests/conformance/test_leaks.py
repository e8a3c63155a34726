"""White noise drawn in secret: an honest method passes, and a harness that is made leaky is found out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fieldbench
from fieldbench import judging
from fieldbench.conformance.check import ConformanceFailure, NotChecked
from fieldbench.conformance.leaks import WhiteNoise, beats_no_white_noise
from fieldbench.records import Record, Trial
from fieldbench.registry import Registry, Sources
from tests import here


class Zero(fieldbench.Method):
    """Nothing everywhere: the best that can be said of white noise."""

    name = "zero"

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Any) -> Any:
        return np.zeros(observation.shape)


class Peeks(fieldbench.Method):
    """Takes what is withheld, where there is something."""

    name = "peeks"

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Any) -> Any:
        return np.nan_to_num(observation.values)


class Flat(Zero):
    """Works on maps alone."""

    name = "flat"
    orders = (2,)


REGISTRY = Registry(Sources(classes=(Zero, Peeks, Flat)))


@pytest.mark.parametrize("method", [Zero(), Peeks()])
def test_whoever_gets_no_truth_beats_no_white_noise(method: fieldbench.Method) -> None:
    beats_no_white_noise(method, REGISTRY)


def test_a_method_that_does_not_apply_is_not_checked() -> None:
    with pytest.raises(NotChecked, match="not applicable"):
        beats_no_white_noise(Flat(), REGISTRY)


def test_a_leaky_harness_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observations hold the whole truth, as if somebody had forgotten to hide the rest."""
    draw = judging.draw

    def leaky(*arguments: Any, **named: Any) -> judging.Draw:
        drawn = draw(*arguments, **named)
        values = np.array(drawn.field.values)
        seen = dataclasses.replace(drawn.observation, values=values, mask=np.ones(values.shape, dtype=bool))
        return dataclasses.replace(drawn, observation=seen)

    def run(trials: Sequence[Trial], registry: Registry) -> list[Record]:
        return [record for trial in trials for record in here.run([trial], registry)]

    beats_no_white_noise(Peeks(), REGISTRY, run)
    monkeypatch.setattr(judging, "draw", leaky)
    beats_no_white_noise(Zero(), REGISTRY, run)
    with pytest.raises(ConformanceFailure, match="mean square error at unobserved entries is 0, where"):
        beats_no_white_noise(Peeks(), REGISTRY, run)


def test_the_noise_cannot_be_drawn_again() -> None:
    first, second = (WhiteNoise().draw(np.random.default_rng(1)).values for _ in range(2))
    assert not np.isclose(first, second).any()
    assert abs(float(np.std(first)) - 1) < 0.2
