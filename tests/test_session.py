"""``fieldbench.run`` from Python: names, objects, classes of a notebook, and what comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import fieldbench
from fieldbench.field import Axis, Field
from fieldbench.method import Report
from fieldbench_methods.residual import Residual


class Ramp(fieldbench.Dataset):
    """A ramp of random slope."""

    name = "ramp"
    default_rates: ClassVar[tuple[float, ...]] = (0.5,)

    steps: int = fieldbench.parameter(6, "points along x", ge=2)

    def draw(self, rng: np.random.Generator) -> Field:
        values = np.outer(np.arange(self.steps), [1.0, 2.0, 3.0]) * rng.random()
        return Field(values, (Axis.regular("x", self.steps), Axis.regular("y", 3)), unit="m/s")


class Median(fieldbench.Method):
    """The median of what is observed."""

    name = "median"

    shift: float = fieldbench.parameter(0.0, "added to the median")

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        return np.full(observation.shape, np.median(observation.observed) + self.shift)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(methods: Any = Median, datasets: Any = Ramp, **rest: Any) -> fieldbench.Results:
    return fieldbench.run(methods, datasets, **{"device": "cpu", "jobs": 1, "progress": False, **rest})


def test_a_class_of_the_notebook_may_stand_within_a_modifier() -> None:
    method = fieldbench.make("nearest") + Residual(of=Median(shift=1.0))
    frame = run([method]).frame()
    assert list(frame["method"]) == ["nearest+residual[of=median[shift=1.0]]"] * 3
    assert set(frame["status"]) == {"ok"}


def test_names_objects_and_classes_can_be_mixed() -> None:
    results = run(["nearest", Median, Median(shift=1.0)], [Ramp(steps=4)], trials=2)
    frame = results.frame()
    assert sorted(frame["method"].unique()) == ["median", "median[shift=1.0]", "nearest"]
    assert set(frame["dataset"]) == {"ramp[steps=4]"}
    assert set(frame["status"]) == {"ok"}


def test_the_frame_has_a_row_a_trial_and_metrics_as_columns() -> None:
    results = run(rates=[0.4, 0.8], trials=3)
    frame = results.frame()
    stored = [json.loads(line) for line in (results.path / "trials.jsonl").read_text().splitlines()]
    assert len(frame) == len(stored) == 6
    expected = {row["key"]: row["metrics"]["rmse"] for row in stored}
    assert dict(zip(frame["key"], frame["rmse"], strict=True)) == expected
    assert isinstance(frame, pd.DataFrame)
    frame["rmse"] = 0.0
    assert results.frame()["rmse"].abs().sum() > 0, "a caller's changes stay with the caller"


def test_the_table_is_that_of_the_frame() -> None:
    results = run(rates=[0.4, 0.8], trials=3)
    (row, _) = results.table(columns="rate", spread="std").cells()
    scores = results.frame().query("rate == 0.4")["rmse"]
    assert row["mean"] == pytest.approx(scores.mean())
    assert row["std"] == pytest.approx(scores.std())
    assert "ramp: rmse (m/s)" in str(results.table())


def test_a_notebook_sees_a_table_and_a_prompt_reads_one() -> None:
    results = run()
    assert "<table>" in results._repr_html_()
    assert "<table>" in results.table()._repr_html_()
    assert str(results.path) in results._repr_html_()
    assert "median" in repr(results)


def test_the_same_call_goes_on_where_it_stopped() -> None:
    first = run(trials=2)
    before = (first.path / "trials.jsonl").read_text()
    second = run(trials=4)
    assert second.path == first.path
    assert second.path.parent == Path("runs")
    assert (second.path / "trials.jsonl").read_text().startswith(before)
    assert len(second.frame()) == 4


def test_out_false_leaves_nothing_behind(here: Path) -> None:
    results = run(out=False)
    folder = results.path
    assert len(results.frame()) == 3
    assert list(here.iterdir()) == []
    del results
    assert not folder.exists()


def test_out_chooses_the_folder(here: Path) -> None:
    assert run(out=here / "mine").path == here / "mine"


def test_a_folder_can_be_opened_later() -> None:
    path = run().path
    assert fieldbench.Results(path).table().to("csv") == run().table().to("csv")
    with pytest.raises(fieldbench.RequestError, match="not a run"):
        fieldbench.Results("elsewhere")


def test_numbers_are_those_of_the_command_line(here: Path) -> None:
    results = run("nearest", "ssf-synthetic", trials=2)
    line = "run --methods nearest --datasets ssf-synthetic --trials 2 --device cpu --jobs 1 --out typed"
    program = f"from fieldbench.cli.main import main; main({line.split()!r})"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=os.environ)
    pd.testing.assert_frame_equal(
        fieldbench.Results("typed").frame()[["key", "rmse"]].sort_values("key", ignore_index=True),
        results.frame()[["key", "rmse"]].sort_values("key", ignore_index=True),
    )


def test_a_cell_run_again_with_another_class_of_the_same_name_replaces_it() -> None:
    class Other(Median):
        """Another idea under the same name."""

        name = "median"

        def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
            return np.zeros(observation.shape)

    assert run(Median).frame()["rmse"].tolist() != run(Other).frame()["rmse"].tolist()


def test_progress_is_told_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run(progress=True, trials=2)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "2 of 2 trials" in told.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"methods": "medain"}, "unknown method 'medain'"),
        ({"methods": []}, "methods"),
        ({"trials": 0}, "trials 0"),
        ({"seed": 2**63}, f"seed {2**63}: .* {2**63 - 1}"),
        ({"select": []}, "select .* at least 1 item"),
        ({"rates": 2.0}, "rate 2"),
        ({"select": "best"}, "unknown selection 'best'"),
        ({"jbos": 2}, "did you mean 'jobs'"),
    ],
)
def test_a_wrong_request_raises_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(fieldbench.RequestError, match=words) as error:
        run(**arguments)
    assert "\n" not in str(error.value)


def test_a_class_without_a_name_is_told_what_it_needs() -> None:
    class Nameless(fieldbench.Method):
        """It has no name."""

        def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
            return observation.filled()

    with pytest.raises(fieldbench.RequestError, match="Nameless needs a name"):
        run(Nameless)
