"""``fieldbench train-prior``, with a method whose training is a toy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

TOY = '''
import json

import fieldbench
from fieldbench.method import PriorTraining


class Practice(PriorTraining):
    """Practises."""

    name = "practice"
    steps: int = fieldbench.parameter(3, "steps of practice", ge=1)
    pace: tuple[float, float] = fieldbench.parameter((1.0, 2.0), "range of paces", unit="m/s")

    def run(self, out, *, seed, device, progress, resume):
        for step in range(1, self.steps + 1):
            progress(step, self.steps, effort=step / 4)
        out.write_text(json.dumps([self.steps, list(self.pace), seed, device, resume]))


class Practised(fieldbench.Method):
    """Needs practice."""

    name = "practised"
    trained = True
    prior_training = Practice

    def complete(self, observation, *, seed, device, report):
        return observation.filled(0.0)


@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Practised]
'''


@pytest.fixture
def train(fieldbench: Callable, tmp_path: Path) -> Callable:
    """``train("practised", ...)`` with the toy method at hand."""
    plugin = tmp_path / "toy_prior.py"
    plugin.write_text(TOY)
    return lambda *arguments: fieldbench("train-prior", *arguments, "--plugin", str(plugin))


def test_settings_seed_and_device_reach_the_training(train: Callable, tmp_path: Path) -> None:
    arguments = ("--out", "w.json", "--seed", "5", "--device", "cuda:0", "--resume", "--set", "steps=4")
    done = train("practised", *arguments, "--set", "pace=(0.5,3)")
    assert (done.code, done.err) == (0, "")
    assert json.loads((tmp_path / "w.json").read_text()) == [4, [0.5, 3.0], 5, "cuda:0", True]
    assert "step 4 of 4, effort 1" in done.out
    assert "practised[weights=w.json]" in done.out


def test_settings_are_listed_and_nothing_is_trained(train: Callable, tmp_path: Path) -> None:
    done = train("practised", "--out", "w.json", "--settings")
    assert done.code == 0
    for word in ("steps", "whole number >= 1", "pace", "(1.0,2.0) m/s", "range of paces"):
        assert word in done.out
    assert not (tmp_path / "w.json").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["practisd"], "'practisd'; did you mean 'practised'?"),
        (["nearest"], "nearest has no prior to train; methods that have one: dowjons, nasdac, practised"),
        (["practised", "--set", "step=4"], "no parameter 'step'; did you mean 'steps'?"),
        (["practised", "--set", "steps=0"], "greater than or equal to 1"),
        (["practised", "--set", "steps"], "write setting=value"),
    ],
)
def test_a_wrong_request_is_one_line(train: Callable, arguments: list[str], complaint: str) -> None:
    done = train(*arguments)
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count("\n") == 1
