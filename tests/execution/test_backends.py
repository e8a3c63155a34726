"""The same trials through other joblib backends, and through a Dask cluster that loses a worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fieldbench
from fieldbench.errors import RequestError
from fieldbench.execution import Options, Stop, execute
from fieldbench.plan import Plan
from fieldbench.records import Record
from fieldbench.registry import Registry, Sources
from tests.execution.conftest import SOURCES, Trouble, plan, records, request


def scores(found: list[Record]) -> dict[str, tuple[str, dict[str, float]]]:
    assert len({record.trial.key for record in found}) == len(found)
    return {record.trial.key: (record.status, record.metrics) for record in found}


METHODS = ["steady[seconds=0.1]", "batched", "troubled"]


@pytest.fixture(scope="module")
def undisturbed() -> Any:
    return scores(records(METHODS, 6))


def test_any_joblib_backend_gives_the_same_and_keeps_crashes_apart(undisturbed: Any, trouble: Trouble) -> None:
    trouble.begin("exit")
    found = scores(records(METHODS, 6, backend="loky"))
    assert found.keys() == undisturbed.keys()
    (bad,) = [key for key in found if found[key] != undisturbed[key]]
    assert found[bad][0] == "crashed"


def test_a_backend_that_is_not_there_is_refused() -> None:
    with pytest.raises(RequestError, match=r"backend 'nonsense': .*loky"):
        records(backend="nonsense")


def test_a_backend_that_returns_all_at_the_end_is_refused() -> None:
    with pytest.raises(RequestError, match="backend 'multiprocessing': it cannot return results as they come"):
        records(backend="multiprocessing")


def test_timing_stays_on_this_machine() -> None:
    with pytest.raises(RequestError, match="--timing"):
        records(backend="loky", timing=True)


def test_a_scheduler_needs_dask() -> None:
    with pytest.raises(RequestError, match="--scheduler is for --backend dask"):
        records(backend="loky", scheduler="tcp://localhost:1")


def test_one_trial_at_a_time_is_for_the_local_backend() -> None:
    with pytest.raises(RequestError, match="two trials at once"):
        records(backend="loky", jobs=1)


class Here(fieldbench.Method):
    """Zero everywhere, by a class that no other process could import."""

    name = "here"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        return 0 * observation.mask.astype(float)


@pytest.mark.parametrize("backend", ["local", "loky"])
def test_a_class_of_the_running_program_reaches_the_workers(backend: str) -> None:
    sources = Sources(files=SOURCES.files, classes=(Here,))
    options = Options(device="cpu", jobs=2, backend=backend)
    found = list(execute(iter(Plan(request("here"), Registry(sources))), sources, options, Stop()))
    assert [record.status for record in found] == ["ok"] * 4


def test_a_plugin_that_changes_after_planning_is_not_mistaken_for_the_planned_one(tmp_path: Any) -> None:
    file = tmp_path / "toys.py"
    original = Path(SOURCES.files[0]).read_text()
    file.write_text(original)
    sources = Sources(files=(str(file),))
    planned = list(Plan(request("steady", 2), Registry(sources)))
    file.write_text(original.replace("0.01 * noise", "0.02 * noise"))
    found = list(execute(planned, sources, Options(device="cpu", jobs=1), Stop()))
    assert [record.status for record in found] == ["failed"] * 2
    assert "differ from those the run was planned with" in found[0].error


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


class TestDask:
    def options(self, cluster: Any) -> Options:
        return Options(device="cpu", backend="dask", scheduler=cluster.scheduler_address)

    def test_a_killed_worker_costs_nothing(self, cluster: Any, undisturbed: Any) -> None:
        victim = next(iter(cluster.workers.values())).pid
        stream = execute(iter(plan(METHODS, 6)), SOURCES, self.options(cluster), Stop())
        found = [next(stream), next(stream)]
        os.kill(victim, signal.SIGKILL)
        found.extend(stream)
        assert scores(found) == undisturbed

    def test_a_stop_finishes_what_runs(self, cluster: Any) -> None:
        stop = Stop()
        stream = execute(iter(plan("steady[seconds=0.1]", 50)), SOURCES, self.options(cluster), stop)
        found = [next(stream)]
        stop.request()
        found.extend(stream)
        assert {record.status for record in found} == {"ok"}
        assert len(found) < 50

    def test_a_device_that_its_workers_lack_is_refused(self, cluster: Any) -> None:
        options = Options(device="cuda:9", backend="dask", scheduler=cluster.scheduler_address)
        with pytest.raises(RequestError, match="'cuda:9' is not there"):
            list(execute(iter(plan()), SOURCES, options, Stop()))

    def test_a_scheduler_that_does_not_answer_is_named(self) -> None:
        pytest.importorskip("distributed", reason="Dask is not installed")
        options = Options(device="cpu", backend="dask", scheduler="tcp://127.0.0.1:9")
        with pytest.raises(RequestError, match=r"--scheduler tcp://127\.0\.0\.1:9: no Dask scheduler answers"):
            execute(iter(plan()), SOURCES, options, Stop())
