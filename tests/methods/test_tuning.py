"""Parameters that are chosen in each trial: what a tuner may know and spend, what it chooses and what is kept of it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fieldbench
from fieldbench import RequestError, conformance, judging
from fieldbench.execution import Options
from fieldbench.plan import Plan, Request
from fieldbench.records import NOT_APPLICABLE, OK
from fieldbench.registry import Registry, Sources
from fieldbench.report.metadata import collect
from fieldbench.report.tables import make_table
from fieldbench.search import Choice, Log, Range, Space
from fieldbench.session import Session
from fieldbench.store.run import read_rows
from fieldbench.tuning import Study, TriedPoint
from tests.here import run

DATASET = "ssf-synthetic[shape=8x8x6]"


class Level(fieldbench.Method):
    """The observed mean plus a level: the best level is about 0."""

    name = "level"
    revision = "1"

    level: float = fieldbench.parameter(5.0, "what is added", search=(-8.0, 8.0))
    shift: float = fieldbench.parameter(0.0, "added as well", search=(-1.0, 1.0))
    bad: bool = fieldbench.parameter(False, "whether it fails unless the level is less than 1")

    def applicable(self, observation):
        return "it works on no such field" if observation.ndim == 2 else None

    def complete(self, observation, *, seed, device, report):
        if self.bad and self.level >= 1:
            raise ValueError("the level is too high")
        return np.full(observation.shape, observation.observed.mean() + self.level + self.shift)


class Noted(Level):
    """It writes down, by process, at which entries it has seen a value."""

    name = "noted"

    folder: str = fieldbench.parameter("", "where")

    def complete(self, observation, *, seed, device, report):
        np.save(Path(self.folder) / f"{time.monotonic_ns()}-{os.getpid()}.npy", observation.mask)
        return super().complete(observation, seed=seed, device=device, report=report)


class NoNumber(fieldbench.Metric):
    """The mean absolute error, and no number where it is large."""

    name = "no-number"
    revision = "1"

    def score(self, estimate, truth, where, mask):
        error = float(np.mean(np.abs(estimate.mean - truth.values)[where]))
        return error if error < 4.0 else np.nan


class Scored(fieldbench.Dataset):
    """Scored by no-number."""

    name = "scored"
    revision = "1"
    metric = "no-number"

    def draw(self, rng):
        return fieldbench.Field(rng.normal(size=(6, 7, 5)))


class Grid(fieldbench.Tuner):
    """Levels from the highest to the lowest."""

    name = "grid"
    revision = "1"

    def search(self, space, attempt, seed):
        for level in range(8, -9, -1):
            attempt({"level": float(level)})


class Peeking(fieldbench.Tuner):
    """A tuner that finds the truth in the process that judges it, and makes use of it."""

    name = "peeking"

    def search(self, space, attempt, seed):
        frame = sys._getframe()
        while "item" not in frame.f_locals and "draws" not in frame.f_locals:
            frame = frame.f_back
        truth = frame.f_locals["draws"][0].field.values
        attempt({next(iter(space.searches)): float(abs(truth.sum()) % 97 / 97)})


class Rereading(fieldbench.Tuner):
    """A tuner that looks at the withheld entries a second time, beside their errors."""

    name = "rereading"

    def search(self, space, attempt, seed):
        frame = sys._getframe()
        while "folds" not in frame.f_locals:
            frame = frame.f_back
        observation, (fold,) = frame.f_locals["observation"], frame.f_locals["folds"]
        attempt({next(iter(space.searches)): float(abs(observation.values[fold].sum()) % 97 / 97)})


PLANTED = Registry(Sources(classes=(Level, Noted, Grid, Peeking, Rereading)))
UNSCORED = Registry(Sources(classes=(Level, Grid, NoNumber, Scored)))


def record(method, dataset=DATASET, registry=PLANTED, number=0, **request):
    plan = Plan(Request(methods=[method], datasets=dataset, trials=1, first_trial=number, **request), registry)
    (trial,) = plan
    return run([trial], registry)[0]


def tuning(method, **where):
    return record(method, **where).diagnostics["tuning"]


def test_the_point_with_the_least_error_is_fitted_to_all_that_was_observed() -> None:
    found = record("level+grid")
    assert found.status == OK
    search = found.diagnostics["tuning"]
    errors = [point["error"] for point in search["points"]]
    assert search["points"][0]["values"] == {"level": "5.0", "shift": "0.0"}
    assert len(errors) == 17, "5 is tried once"
    assert search["chosen"] == search["points"][int(np.argmin(errors))]["values"]
    assert found.metrics == record(f"level[level={search['chosen']['level']}]").metrics
    assert found.diagnostics["fits"] == 18
    assert search["metric"] == "rmse"


def test_the_error_is_that_at_the_withheld_entries() -> None:
    (trial,) = Plan(Request(methods=["level+grid[budget=1]"], datasets=DATASET, trials=1), PLANTED)
    seen = judging.draw(trial, PLANTED).observation
    (fold,) = _folds(trial, seen)
    level = seen.values[seen.mask & ~fold].mean() + 5.0
    expected = np.sqrt(np.mean((seen.values[fold] - level) ** 2))
    assert run([trial], PLANTED)[0].diagnostics["tuning"]["points"][0]["error"] == pytest.approx(expected)


def _folds(trial, seen):
    cell = trial.cell
    settings = ("withhold", trial.seed, trial.number, cell.dataset, cell.sampler, cell.rate, "grid", 0)
    return [PLANTED.sampler(cell.sampler).withhold_from(seen, 0.2, judging.stream(*settings))]


def test_folds_are_those_of_every_method_and_budget() -> None:
    first = tuning("level+grid[budget=2]")["points"][0]["error"]
    assert tuning("level+grid[budget=9]")["points"][0]["error"] == first
    assert tuning("level+grid", number=1)["points"][0]["error"] != first


@pytest.mark.parametrize(("budget", "points"), [(1, 1), (4, 4), (None, 30)])
def test_no_more_points_are_tried_than_the_budget_allows(budget, points) -> None:
    space = Space({"level": Range(-99.0, 99.0)}, {"level": 5.0})

    class Endless(Grid):
        """It goes on for ever."""

        def search(self, space, attempt, seed):
            for level in range(10**6):
                attempt({"level": level % 99 / 2})

    study = Study(Endless(budget=budget), space, lambda values: TriedPoint(1.0, 1.0))
    study.run(0)
    assert len(study.tried) == points


def test_a_tuner_that_goes_on_whatever_is_raised_ends_with_its_budget() -> None:
    class Stubborn(Grid):
        """It tries again."""

        def search(self, space, attempt, seed):
            while True:
                with contextlib.suppress(Exception):
                    attempt({"level": 1.0})

    study = Study(
        Stubborn(budget=3), Space({"level": Range(-9.0, 9.0)}, {"level": 5.0}), lambda values: TriedPoint(1.0, 1.0)
    )
    assert study.run(0) == {"level": 5.0}


def test_no_other_point_is_tried_once_the_seconds_are_spent() -> None:
    study = Study(
        Grid(seconds=3.0), Space({"level": Range(-9.0, 9.0)}, {"level": 5.0}), lambda values: TriedPoint(1.0, 1.0)
    )
    study.run(0)
    assert len(study.tried) == 3
    assert Grid(seconds=3.0).allowance == "3 s of fits"
    assert Grid(seconds=3.0, budget=5).allowance == "5 points and at most 3 s of fits"


def test_a_point_that_fails_is_not_chosen_and_says_why() -> None:
    found = record("level[bad=true]+grid")
    assert found.status == OK
    search = found.diagnostics["tuning"]
    assert search["points"][0]["error"] is None
    assert "too high" in search["points"][0]["reason"]
    assert float(search["chosen"]["level"]) < 1


def test_where_every_point_fails_the_trial_says_why() -> None:
    found = record("level[bad=true]+grid[budget=3]")
    assert (found.status, "too high" in found.error) == ("failed", True)


def test_a_method_that_does_not_work_on_a_field_is_not_tuned_on_it() -> None:
    assert record("level+grid", "gaussian-field[shape=9x9]").status == NOT_APPLICABLE


def test_what_is_given_is_kept() -> None:
    assert {tuple(point["values"]) for point in tuning("level[level=2]+tuned[budget=4]")["points"]} == {("shift",)}


def test_points_can_be_tried_with_other_values_than_the_last_fit_has() -> None:
    found = record("level+grid[trying=shift=-1.0]")
    search = found.diagnostics["tuning"]
    shifted = {point["values"]["level"]: point["error"] for point in tuning("level[shift=-1]+grid")["points"]}
    assert {point["values"]["level"]: point["error"] for point in search["points"]} == shifted
    assert found.metrics == record(f"level[level={search['chosen']['level']}]").metrics
    assert Grid(trying="shift=-1").allowance == "30 points, tried with shift=-1"
    with pytest.raises(RequestError, match=r"level\+grid: trying=shfit=1: shfit"):
        PLANTED.method("level+grid[trying=shfit=1]")
    with pytest.raises(RequestError, match="trying='shift' is not understood"):
        PLANTED.method("level+grid[trying=shift]")


def test_values_that_no_search_has_are_refused() -> None:
    space = Space({"level": Range(0.0, 1.0), "rate": Log(1e-3, 1)}, {"level": 5.0, "rate": 0.1})
    study = Study(Grid(), space, lambda values: TriedPoint(1.0, 1.0))
    with pytest.raises(ValueError, match=r"tried level=3\.0, which its search does not have"):
        study.attempt({"level": 3.0})
    with pytest.raises(ValueError, match="tried depth, which is not to be tuned"):
        study.attempt({"depth": 3.0})
    assert study.attempt({"level": 5.0}) == 1.0


@pytest.mark.parametrize(
    "search", [Range(2, 9), Range(0.5, 2.0), Log(1e-4, 1), Log(4, 128), Choice(("a", None, True, 2))]
)
def test_what_is_drawn_lies_in_the_search(search) -> None:
    rng = np.random.default_rng(0)
    drawn = [search.draw(rng) for _ in range(300)]
    assert all(value in search for value in [*drawn, *search.corners])
    if isinstance(search, Choice) or search == Range(2, 9):
        assert set(drawn) == set(search.corners if isinstance(search, Choice) else range(2, 10))
    if isinstance(search, Log):
        assert np.mean([value < (search.low * search.high) ** 0.5 for value in drawn]) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ((9, 2), "less than the second"),
        (("a", "b"), "both are finite numbers; give choices as a list"),
        ((0, float("inf")), "both are finite numbers"),
        ((False, True), "both are finite numbers"),
        (Log, "give .low, high., Log.low, high. or a list"),
        ([], "or a list of values"),
        ([[1]], "is not a number, text, boolean or None"),
    ],
)
def test_what_cannot_be_searched_is_refused_where_it_is_declared(search, said) -> None:
    with pytest.raises(ValueError, match=said):
        fieldbench.parameter(1, "a parameter", search=search)
    with pytest.raises(ValueError, match="a logarithmic range starts above 0"):
        Log(0, 1)


def test_requests_that_make_no_sense_are_refused() -> None:
    with pytest.raises(RequestError, match=r"nearest has nothing for \+tuned to choose"):
        PLANTED.method("nearest+tuned")
    with pytest.raises(RequestError, match=r"\+tuned stands before \+conformal"):
        PLANTED.method("level+conformal+tuned")
    with pytest.raises(RequestError, match=r"\+tuned is given twice"):
        PLANTED.method("level+tuned+tuned")
    with pytest.raises(RequestError, match=r"\+tuned has nothing to choose"):
        Plan(Request(methods="level[level=1,shift=0.5]+tuned", datasets=DATASET), PLANTED)
    with pytest.raises(RequestError, match="use --select final"):
        Plan(Request(methods="level+tuned", datasets=DATASET, select="holdout"), PLANTED)


def test_the_estimator_of_optuna_finds_what_a_coarse_grid_finds() -> None:
    chosen, grid = (tuning(f"level+{tuner}") for tuner in ("tuned", "grid"))
    assert len(chosen["points"]) == 30
    best, coarse = (min(point["error"] for point in search["points"]) for search in (chosen, grid))
    assert best < 1.02 * coarse
    assert chosen["points"] == tuning("level+tuned")["points"]


@pytest.mark.parametrize("tuner", ["grid", "tuned[budget=9]"])
def test_an_error_that_is_no_number_is_never_the_least(tuner) -> None:
    found = record(f"level+{tuner}", "scored", UNSCORED)
    points = found.diagnostics["tuning"]["points"]
    assert points[0]["error"] is None
    assert points[0]["reason"] == "its no-number is nan"
    least = min(point["error"] for point in points if point["error"] is not None)
    (chosen,) = (point for point in points if point["error"] == least)
    assert found.diagnostics["tuning"]["chosen"] == chosen["values"]


def test_a_search_without_any_error_keeps_the_methods_own_values() -> None:
    found = record("level[shift=9.0]+grid[budget=1]", "scored", UNSCORED)
    assert found.status == OK
    assert found.diagnostics["tuning"]["chosen"] == {"level": "5.0"}


@pytest.mark.parametrize(
    ("searches", "start", "points"),
    [
        ({"degree": Range(0, 4)}, {"degree": 2}, 5),
        ({"way": Choice(("one", "two"))}, {"way": "none"}, 3),
        ({"ranks": Range(1, 6), "start": Choice(("svd", "random"))}, {"ranks": 1, "start": "svd"}, 12),
    ],
)
def test_a_search_by_seconds_ends_when_every_point_is_tried(searches, start, points) -> None:
    """Points that were tried before cost no seconds, so that it would ask for ever."""
    (tuner,) = Registry().refits("idw+tuned[seconds=1000]")
    study = Study(tuner, Space(searches, start), lambda values: TriedPoint(1.0, 0.001))
    study.run(0)
    assert len(study.tried) == points


def test_intervals_of_a_tuned_method_are_of_entries_that_its_tuner_did_not_see(tmp_path) -> None:
    method = f"noted[folder={tmp_path}]+grid[budget=4]+conformal[folds=2,share=0.3]"
    assert record(method).diagnostics["fits"] == 3 * 5
    masks = [np.load(file) for file in sorted(tmp_path.glob("*.npy"))]
    for number in range(2):
        *searched, fitted = masks[5 * number : 5 * number + 5]
        assert all(not (mask & ~fitted).any() for mask in searched)
        assert fitted.sum() < masks[-1].sum()


def test_no_process_of_a_method_holds_an_entry_that_is_withheld_from_a_fit(tmp_path) -> None:
    """On a field that is the same in both trials, at entries that are not."""
    method = f"noted[folder={tmp_path}]+grid[budget=3,folds=2]+conformal[folds=2,share=0.3]"
    rows = _rows(tmp_path / "run", method, "one-field", 2)
    assert [row["status"] for row in rows] == ["ok", "ok"]
    seen: dict[str, np.ndarray] = {}
    fits = sorted(tmp_path.glob("*.npy"))
    assert len(fits) == 2 * 3 * 7
    for file in fits:
        process, mask = file.stem.partition("-")[2], np.load(file)
        assert not (seen.get(process, mask) & ~mask).any(), "this process has seen what is withheld"
        seen[process] = seen.get(process, mask) | mask


class OneField(fieldbench.Dataset):
    """The same field in every trial."""

    name = "one-field"
    revision = "1"

    def draw(self, rng):
        return fieldbench.Field(np.random.default_rng(0).normal(size=(6, 7, 5)))


def _rows(folder, methods, datasets, trials):
    sources = Sources(classes=(Level, Noted, Grid, OneField))
    request = Request(methods=methods, datasets=datasets, rates=[0.3], trials=trials)
    Session(request, sources=sources, options=Options(device="cpu", jobs=1), out=folder).run()
    return list(read_rows(folder))


def test_processes_of_their_own_change_nothing(tmp_path) -> None:
    (row,) = _rows(tmp_path, "level+tuned[budget=6]", DATASET, 1)
    here = record("level+tuned[budget=6]", rates=[0.3])
    assert row["metrics"] == here.metrics
    chosen = row["diagnostics"]["tuning"]
    assert chosen["chosen"] == here.diagnostics["tuning"]["chosen"]
    assert chosen["seconds"] == pytest.approx(sum(point["seconds"] for point in chosen["points"]))
    assert 0 < chosen["seconds"] < row["seconds"]


def test_tables_mark_what_was_tuned_and_say_the_budget(tmp_path) -> None:
    import pandas as pd

    plan = Plan(Request(methods=["level", "level+tuned", "level+tuned[seconds=60]"], datasets=DATASET), PLANTED)
    metadata = collect(plan, PLANTED)
    rows = [
        {**record("level").as_row(), "method": method, "rmse": 1.0, "session": "", "diagnostics": {}}
        for method in plan.methods
    ]
    frame = pd.DataFrame(rows)
    table = make_table(frame, metadata)
    text = str(table)
    assert "level+tuned ◊" in text
    assert "level+tuned[seconds=60.0] ◊" in text
    assert "level ◊" not in text
    assert "◊ tuned in each trial by errors at observed entries that were withheld: 30 points or 60 s of fits" in text
    assert r"$\diamond$" in table.to("latex")


@pytest.mark.parametrize("tuner", [Peeking, Rereading])
def test_a_tuner_that_looks_at_more_than_errors_is_caught(tuner) -> None:
    outcomes = {check.name: check.outcome() for check in conformance.checks(tuner(), registry=PLANTED)}
    assert [name for name, outcome in outcomes.items() if outcome.status == "failed"] == ["learns-errors-alone"]
    assert "knows the field itself" in outcomes["learns-errors-alone"].message


def test_the_tuner_of_the_project_passes() -> None:
    for check in conformance.checks("tuned", registry=PLANTED):
        check()


def test_a_missing_library_is_named_with_its_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(RequestError, match=r"tuned needs optuna.*fieldbench-completion\[tune\]"):
        Registry().method("kriging+tuned")
