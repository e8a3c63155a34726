"""Who runs where, who knows what, and what a plugin can do to others: each promise follows from the processes."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import fieldbench
from fieldbench.errors import RequestError
from fieldbench.execution import Options, Stop, check_backend, execute
from fieldbench.plan import Plan, Request
from fieldbench.records import Record
from fieldbench.registry import Registry, Sources
from fieldbench.session import Session
from fieldbench.store.run import read_rows

SOURCES = Sources(files=(str(Path(__file__).with_name("spies.py")),))


def session(out: Path, methods: Any = "mean", datasets: Any = "scene", trials: int = 3, **options: Any) -> Session:
    request = Request(methods=methods, datasets=datasets, trials=trials, noises="hiss")
    return Session(request, sources=SOURCES, options=Options(**{"device": "cpu", "jobs": 2, **options}), out=out)


def rows(out: Path, *what: Any, **how: Any) -> list[dict[str, Any]]:
    session(out, *what, **how).run()
    return list(read_rows(out))


def records(methods: Any, trials: int = 2, seed: int = 0, **options: Any) -> list[Record]:
    plan = Plan(Request(methods=methods, datasets="scene", trials=trials, seed=seed), Registry(SOURCES))
    return list(execute(plan, SOURCES, Options(**{"device": "cpu", "jobs": 2, **options}), Stop()))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPY_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def test_every_hook_runs_in_the_process_it_belongs_to(tmp_path: Path, log: Path) -> None:
    assert {row["status"] for row in rows(tmp_path / "run", ["mean", "other"])} == {"ok"}
    where: dict[str, set[int]] = defaultdict(set)
    for line in log.read_text().splitlines():
        hook, process = line.split()
        where[hook].add(int(process))
    judges = {"prepare", "dataset-fingerprint", "draw", "sampler", "noise", "metric"}
    methods = {"applicable", "check_shape", "batch_size", "fingerprint", "complete-mean", "complete-other"}
    assert set(where) == judges | methods
    assert os.getpid() not in set().union(*where.values())
    assert not set().union(*map(where.get, judges)) & set().union(*map(where.get, methods))  # type: ignore[arg-type]
    assert not where["complete-mean"] & where["complete-other"]
    # Who imports the plugin is the command, or was forked by one that does not: the forkserver.
    imports = [map(int, line.split()) for line in Path(f"{log}-imports").read_text().splitlines()]
    parents = dict(imports)  # type: ignore[arg-type]
    assert {os.getpid()} < parents.keys()
    assert not {parent for process, parent in parents.items() if process != os.getpid()} & parents.keys()


@pytest.mark.skipif(sys.platform != "linux", reason="it reads its own memory by /proc")
def test_neither_truth_nor_base_seed_is_in_a_method_s_memory_or_on_its_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = 72_310_448_817_265_153
    monkeypatch.setenv("SPY_SECRET", bytes(byte ^ 1 for byte in str(seed).encode()).hex())
    for record in records("searcher", seed=seed):
        curve = record.diagnostics["curve"]
        assert curve["fields"] == [0]
        assert curve["told"] == [0]
        assert curve["secrets"] == [0]
        assert 0 <= curve["seed"][0] < 2**32


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("order", [["patches", "mean"], ["mean", "patches"]])
def test_no_digit_of_a_neighbour_changes(jobs: int, order: list[str]) -> None:
    alone = {record.trial.key: record.metrics for record in records("mean", 4)}
    beside = records(order, 4, jobs=jobs)
    assert {item.trial.key: item.metrics for item in beside if item.trial.cell.method == "mean"} == alone
    assert all(item.metrics["rmse"] > 0 for item in beside if item.status == "ok")


def test_a_method_cannot_shorten_its_seconds() -> None:
    assert all(record.seconds is not None and record.seconds > 0.5 for record in records("hides"))


@pytest.mark.parametrize(
    ("method", "status", "error"),
    [
        ("scribbles", "crashed", "the method's process sent something that is not an answer"),
        ("clings", "crashed", "the method's process exited with code 5"),
        ("explodes", "failed", "ValueError: the estimate is an array of object; a field holds real numbers"),
    ],
)
def test_what_is_no_answer_costs_its_own_trials_alone(method: str, status: str, error: str) -> None:
    found = records([method, "mean"])
    assert [(item.status, item.error) for item in found if item.trial.cell.method == method] == [(status, error)] * 2
    assert [item.status for item in found if item.trial.cell.method == "mean"] == ["ok"] * 2


def test_one_that_returns_twice_has_one_answer_for_each_trial() -> None:
    found = records("forks", 4, jobs=1)
    assert [record.status for record in found] == ["ok"] * 4
    assert len({record.metrics["rmse"] for record in found}) == 4
    # The answer is that of the process that was asked, not of its twin.
    assert all(
        record.metrics["rmse"] == pytest.approx(1e6, rel=1e-3) for record in found
    )  # the parent's, not its twin's


def test_one_that_kills_the_forkserver_costs_nobody_anything() -> None:
    assert {record.status for record in records(["murders", "mean", "other"], 3)} == {"ok"}


@pytest.mark.parametrize("hook", ["applicable", "check_shape", "fingerprint"])
@pytest.mark.parametrize(("act", "limit"), [("", None), ("-for-ever", 2.0)])
def test_a_question_that_is_not_answered_costs_that_method_s_trials(
    tmp_path: Path, hook: str, act: str, limit: float | None
) -> None:
    method = f"leaves[at={hook}{act}]"
    found = rows(tmp_path, [method, "mean"], timeout=limit)
    bad = [row for row in found if row["method"] != "mean"]
    assert len(bad) == 3
    reason = "ran longer than the 2 s" if act else "exited with code 0"
    assert all(row["status"] != "ok" and hook in row["error"] and reason in row["error"] for row in bad)
    assert [row["status"] for row in found if row["method"] == "mean"] == ["ok"] * 3


@pytest.mark.parametrize(
    ("at", "limit", "reason"),
    [
        ("prepare", None, "exited with code 0"),
        ("draw", None, "killed by SIGSEGV"),
        ("loop", 2.0, "ran longer than the 2 s"),
    ],
)
def test_a_dataset_that_ends_its_process_costs_its_own_trials(
    tmp_path: Path, at: str, limit: float | None, reason: str
) -> None:
    dataset = f"ends[at={at}]"
    found = rows(tmp_path, "mean", [dataset, "scene"], timeout=limit)
    named = "dataset ends" if at == "draw" else f"dataset {dataset}"
    assert all(named in row["error"] and reason in row["error"] for row in found if row["dataset"] != "scene")
    assert sorted(row["status"] for row in found)[-3:] == ["timeout"] * 3 if at == "loop" else True
    assert [row["status"] for row in found if row["dataset"] == "scene"] == ["ok"] * 3


class Ramp(fieldbench.Dataset):
    """A ramp."""

    name = "ramp"
    metric = "rmse"

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        return fieldbench.Field(np.outer(np.arange(6.0), np.arange(6.0)))


class Exits(fieldbench.Metric):
    """It ends its process."""

    name = "exits"

    def score(self, estimate: Any, truth: Any, where: Any, mask: Any) -> float:
        os._exit(9)


class Loops(fieldbench.Metric):
    """It never ends."""

    name = "loops"

    def score(self, estimate: Any, truth: Any, where: Any, mask: Any) -> float:
        while True:
            pass


class Unscored(Ramp):
    """A ramp whose metric ends its process."""

    name = "unscored"
    metric = "exits"


class Unmeasured(Ramp):
    """A ramp whose metric is nowhere."""

    name = "unmeasured"
    metric = "nowhere"


def ran(out: Path, *classes: Any, dataset: str = "ramp") -> list[dict[str, Any]]:
    Session(
        Request(methods="nearest", datasets=dataset, trials=2),
        sources=Sources(classes=classes),
        options=Options(device="cpu", jobs=1, timeout=2.0),
        out=out,
    ).run()
    return list(read_rows(out))


def test_a_metric_that_ends_or_hangs_is_left_out_and_named(tmp_path: Path) -> None:
    plain = ran(tmp_path / "plain", Ramp)
    found = ran(tmp_path / "run", Ramp, Exits, Loops)
    assert [row["metrics"] for row in found] == [row["metrics"] for row in plain]
    for row in found:
        assert "exited with code 9" in row["diagnostics"]["not_scored"]["exits"]
        assert "ran longer than the 2 s" in row["diagnostics"]["not_scored"]["loops"]


@pytest.mark.parametrize(
    ("dataset", "complaint"), [("unscored", "metric exits"), ("unmeasured", "unknown metric 'nowhere'")]
)
def test_a_headline_metric_that_fails_is_a_wrong_request(tmp_path: Path, dataset: str, complaint: str) -> None:
    ran(tmp_path / "plain", Ramp)  # the server that starts all others stays
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(RequestError, match=complaint):
        ran(tmp_path / "run", Unscored, Unmeasured, Exits, dataset=dataset)
    assert not (tmp_path / "run").exists()
    assert set(psutil.Process().children(recursive=True)) <= before


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(RequestError, match="Windows Subsystem for Linux"):
        check_backend(Options())
