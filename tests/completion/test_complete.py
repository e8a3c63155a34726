"""Choosing a method by withheld entries: the best wins, and the failing, slow and unsuited are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldbench.completion import Candidate, complete
from fieldbench.errors import RequestError
from fieldbench.field import Observation
from fieldbench.registry import Registry, Sources

SOURCES = Sources.from_environment([str(Path(__file__).with_name("candidates.py"))])
SHAPE = (12, 10)
TRUTH = 3.0 + 0.5 * np.indices(SHAPE)[0] - 0.25 * np.indices(SHAPE)[1]


@pytest.fixture
def observation() -> Observation:
    return Observation(TRUTH, np.random.default_rng(0).random(SHAPE) < 0.4, unit="K")


def by_name(candidates: tuple[Candidate, ...]) -> dict[str, Candidate]:
    return {item.method: item for item in candidates}


def test_the_method_that_is_right_is_chosen_and_its_error_known(observation: Observation) -> None:
    made = complete(observation, candidates=["zero", "plane", "noisy"], budget=60, sources=SOURCES, device="cpu")
    assert made.method == "plane"
    assert made.expected_error < 1e-9
    np.testing.assert_allclose(made.values, TRUTH)
    assert made.comparison[0].method == "plane"
    assert all(len(item.errors) >= 3 for item in made.comparison)
    # What `zero` is off by is the size of the field itself.
    assert by_name(made.comparison)["zero"].expected == pytest.approx(np.sqrt(np.mean(TRUTH**2)), rel=0.3)
    # Where gaps are large, more than the share is withheld, and never more than half.
    assert 0.1 * observation.mask.sum() - 2 <= made.withheld <= 0.5 * observation.mask.sum() + 2


FAULTY = """
import fieldbench, pydantic

class Needy(fieldbench.Method):
    \"""A level, everywhere.\"""

    name = "needy"
    level: float = fieldbench.parameter(..., "the level")

    def complete(self, observation, *, seed, device, report):
        return 0 * observation.filled(self.level) + self.level

class Unsure(Needy):
    \"""Fails where it is asked whether it works.\"""

    name = "unsure"
    level: float = fieldbench.parameter(0.0, "the level")

    def applicable(self, observation):
        return None if observation.metadata["emitters"] else "no emitters"

class Lacking(Unsure):
    \"""Needs a library that is not there.\"""

    name = "lacking"

    @pydantic.model_validator(mode="after")
    def _with_library(self):
        import no_such_library

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Needy, Unsure, Lacking]
"""


def test_methods_that_cannot_be_made_or_asked_are_left_out_and_told(observation: Observation, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.py"
    faulty.write_text(FAULTY)
    sources = Sources(files=(*SOURCES.files, str(faulty)), blocked=frozenset(Registry(Sources()).entries("method")))
    made = complete(observation, budget=4, sources=sources, device="cpu", folds=1)
    assert made.method == "plane"
    assert "level" in by_name(made.comparison)["needy"].note
    assert by_name(made.comparison)["unsure"].note == "KeyError: 'emitters'"
    assert (
        "cannot be made: ModuleNotFoundError: No module named 'no_such_library'"
        in by_name(made.comparison)["lacking"].note
    )
    with pytest.raises(RequestError, match="level"):
        complete(observation, candidates=["needy", "zero"], budget=4, sources=sources, device="cpu")


def test_without_a_budget_nothing_is_withheld() -> None:
    single = Observation(TRUTH, np.arange(TRUTH.size).reshape(SHAPE) == 3)
    made = complete(single, "zero", budget=0, sources=SOURCES, device="cpu")
    assert made.withheld == 0
    np.testing.assert_array_equal(made.values, 0 * TRUTH)


def test_failing_slow_and_unsuited_methods_are_told_and_do_no_harm(observation: Observation) -> None:
    said, doing = list[str](), list[str]()
    names = ["broken", "deadly", "sleeper", "gaps", "picky", "zero"]
    made = complete(
        observation,
        candidates=names,
        budget=3,
        sources=SOURCES,
        device="cpu",
        watch=said.append,
        busy=doing.append,
    )
    assert made.method == "zero"
    notes = {item.method: item.note for item in made.comparison}
    assert "it cannot count" in notes["broken"]
    assert "SIGABRT" in notes["deadly"]
    assert notes["sleeper"].startswith("too slow: no fold in ")
    assert "NaN" in notes["gaps"]
    assert notes["picky"] == "picky works on 7-D fields; this one is 2-D"
    assert [item.method for item in made.comparison if item.out_of_time] == ["sleeper"]
    assert any("broken" in line and "count" in line for line in said)
    assert any(line.startswith("sleeper: not done in ") for line in said)
    assert doing[0] == "withholding entries in the pattern of the gaps"
    assert doing[1] == "measuring broken, fold 1 of 3"
    assert doing[-1] == "completing the field with zero"


def test_the_same_seed_gives_the_same_comparison(observation: Observation) -> None:
    first, again, other = (
        complete(observation, "noisy", budget=60, seed=seed, sources=SOURCES, device="cpu") for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.values, again.values)
    assert first.comparison[0].errors == again.comparison[0].errors
    assert first.comparison[0].errors != other.comparison[0].errors


def test_power_is_compared_by_its_logarithm() -> None:
    power = Observation(10.0 ** (-TRUTH), np.random.default_rng(0).random(SHAPE) < 0.4, log_floor=1e-6)
    made = complete(power, "zero", budget=60, sources=SOURCES, device="cpu")
    assert made.metric == "slnre"


def test_a_field_without_gaps_is_refused() -> None:
    with pytest.raises(RequestError, match="nothing is missing"):
        complete(Observation(TRUTH, np.ones(SHAPE, dtype=bool)), "zero", sources=SOURCES, device="cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "plain"}, "did you mean 'plane'"),
        ({"method": "picky"}, "picky works on 7-D fields"),
        ({"candidates": ["picky"]}, "no method works on this field: picky works on 7-D"),
        ({"budget": 0}, "needs a budget"),
        ({"folds": 0}, "at least 1"),
        ({"budget": float("nan")}, "the budget 0 or more seconds"),
        ({"budget": float("inf")}, "the budget 0 or more seconds"),
        ({"method": "zero", "candidates": ["plane"]}, "leave out zero or --among"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"candidates": ["broken"]}, r"no method got through .*broken: ArithmeticError.*raise the budget"),
        ({"method": "broken", "budget": 0}, "no method completed the field; broken: ArithmeticError: it cannot count"),
    ],
)
def test_a_wrong_request_is_one_clear_line(
    observation: Observation, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        complete(observation, sources=SOURCES, device="cpu", **arguments)  # type: ignore[arg-type]


def test_a_deviation_is_calibrated_at_withheld_entries(observation: Observation) -> None:
    """`plane` says 0.25 and is off by rounding only; `zero` says nothing and is off by the size of the field."""
    made = complete(observation, "zero", budget=60, sources=SOURCES, device="cpu")
    assert made.deviation is not None
    assert np.isnan(made.deviation[observation.mask]).all()
    unobserved = ~observation.mask
    ratios = np.abs(TRUTH / made.deviation)[unobserved]
    shares = {level: np.mean(ratios <= width) for level, width in made.intervals.items()}
    assert shares[0.5] < shares[0.9]
    own = complete(observation, "plane", budget=60, sources=SOURCES, device="cpu")
    assert own.deviation is not None
    assert not own.deviation[observation.mask].any()
    assert own.deviation[unobserved].max() < 1e-6


def test_calibrated_deviations_cover_the_gaps_as_often_as_they_promise() -> None:
    from fieldbench_datasets.gaussian_field import GaussianField

    rng, found = np.random.default_rng(5), []
    for method in ("nearest", "thin-plate", "nearest"):
        field = GaussianField(shape=(40, 40), lengths=(5.0,)).draw(rng).values
        some = Observation(field, rng.random(field.shape) < 0.3)
        made = complete(some, method, budget=60, folds=6, sources=SOURCES, device="cpu")
        assert made.deviation is not None
        error = np.abs(made.values - field)[~some.mask]
        found.append(np.mean(error <= made.intervals[0.9] * made.deviation[~some.mask]))
    assert np.mean(found) == pytest.approx(0.9, abs=0.04)


def test_where_nothing_as_deep_as_the_gaps_can_be_withheld_no_coverage_is_promised() -> None:
    mask = np.zeros(SHAPE, dtype=bool)
    mask[:2] = True
    made = complete(Observation(TRUTH, mask), "plane", budget=60, sources=SOURCES, device="cpu")
    assert made.beyond
    assert not made.intervals
    assert made.deviation is not None
