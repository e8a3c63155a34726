"""The same trials on a Dask cluster that loses workers, its scheduler, and the sameness of its code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fieldbench
from fieldbench.errors import FieldbenchError, RequestError
from fieldbench.execution import Options, Stop, execute
from fieldbench.plan import Plan
from fieldbench.records import Record
from fieldbench.registry import Registry, Sources
from fieldbench.session import Session
from fieldbench.store.status import run_status
from tests.execution.conftest import SOURCES, Command, lines, plan, records, request, run_arguments, wait_until


def scores(found: list[Record]) -> dict[str, tuple[str, dict[str, float]]]:
    assert len({record.trial.key for record in found}) == len(found)
    return {record.trial.key: (record.status, record.metrics) for record in found}


METHODS = ["steady[seconds=0.1]", "batched", "troubled"]


@pytest.fixture(scope="module")
def undisturbed() -> Any:
    return scores(records(METHODS, 6))


def test_a_backend_that_is_not_there_is_refused() -> None:
    with pytest.raises(RequestError, match=r"backend 'loky' is not there; there are: local, dask"):
        records(backend="loky")


def test_timing_stays_on_this_machine() -> None:
    with pytest.raises(RequestError, match="--timing"):
        records(backend="dask", timing=True)


def test_a_scheduler_needs_dask() -> None:
    with pytest.raises(RequestError, match="--scheduler is for --backend dask"):
        records(scheduler="tcp://localhost:1")


class Here(fieldbench.Method):
    """Zero everywhere, by a class that no other process could import."""

    name = "here"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        return 0 * observation.mask.astype(float)


def test_a_class_of_the_running_program_reaches_its_process() -> None:
    sources = Sources(files=SOURCES.files, classes=(Here,))
    options = Options(device="cpu", jobs=2)
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

    def test_a_class_of_the_running_program_travels(self, cluster: Any) -> None:
        sources = Sources(files=SOURCES.files, classes=(Here,))
        trials = list(Plan(request("here"), Registry(sources)))
        assert [record.status for record in execute(trials, sources, self.options(cluster), Stop())] == ["ok"] * 4

    def test_fields_come_to_the_folder_of_the_run(self, cluster: Any, tmp_path: Path) -> None:
        options = replace(self.options(cluster), save_fields=str(tmp_path))
        found = list(execute(plan("steady", 2), SOURCES, options, Stop()))
        assert {path.stem for path in (tmp_path / "fields").iterdir()} == {record.trial.key for record in found}

    @pytest.mark.parametrize(("seconds", "waiting"), [(0.02, True), (2.5, False)])
    def test_only_short_trials_wait_at_the_workers(self, cluster: Any, seconds: float, waiting: bool) -> None:
        trials = plan(f"steady[seconds={seconds}]", 40 if waiting else 4)
        sent, over = [0], threading.Event()

        def look() -> None:
            while not over.wait(0.001):
                sent.append(sum(len(worker.processing) for worker in list(cluster.scheduler.workers.values())))

        looking = threading.Thread(target=look)
        looking.start()
        list(execute(iter(trials), SOURCES, self.options(cluster), Stop()))
        over.set()
        looking.join()
        assert (max(sent) > 2) == waiting

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


PROCESSES = """
import asyncio, sys
from distributed import Scheduler, Worker
async def main():
    if sys.argv[1] == "scheduler":
        server = Scheduler(host="127.0.0.1", port=0, dashboard=False)
    else:
        port = int(sys.argv[4])
        server = Worker(sys.argv[2], nthreads=1, host=sys.argv[3], port=port, dashboard=False, death_timeout=20)
    async with server:
        print(server.address, flush=True)
        await server.finished()
asyncio.run(main())
"""


class Started:
    """Scheduler and workers as processes of their own, each worker on a machine of its own as far as can be seen."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.scheduler = self._start("scheduler")

    def worker(self, number: int, port: int = 0, **environment: str) -> str:
        return self._start("worker", self.scheduler, f"127.0.0.{number}", str(port), **environment)

    def options(self) -> Options:
        return Options(device="cpu", backend="dask", scheduler=self.scheduler)

    def _start(self, *arguments: str, **environment: str) -> str:
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESSES, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
            cwd=Path(__file__).parent,  # no fieldbench lies beside it
        )
        self.processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()


@pytest.fixture
def started() -> Iterator[Started]:
    pytest.importorskip("distributed", reason="Dask is not installed")
    cluster = Started()
    yield cluster
    for process in cluster.processes:
        process.kill()
        process.wait()


def test_a_scheduler_that_is_killed_ends_the_run_with_one_line(started: Started) -> None:
    started.worker(2)
    stream = execute(plan("steady[seconds=0.1]", 200), SOURCES, started.options(), Stop())
    assert next(stream).status == "ok"
    started.processes[0].kill()
    with pytest.raises(FieldbenchError, match="the Dask scheduler is gone"):
        list(stream)


def test_a_worker_that_comes_back_at_its_address_goes_on(started: Started) -> None:
    address = started.worker(2)
    stream = execute(plan("steady[seconds=0.1]", 30), SOURCES, started.options(), Stop())
    found = [next(stream)]
    started.processes[-1].kill()
    started.processes[-1].wait()
    assert started.worker(2, int(address.rpartition(":")[2])) == address
    found.extend(stream)
    assert [record.status for record in found] == ["ok"] * 30


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
def test_a_command_ends_when_its_scheduler_does(
    started: Started, tmp_path: Path, command: Callable[..., Command], way: signal.Signals
) -> None:
    """One that is gone is told in one line; from one that hangs, Ctrl-C frees."""
    started.worker(2)
    out = tmp_path / "run"
    arguments = [*run_arguments(out, "steady[seconds=0.1]", 200), "--backend", "dask"]
    running = command(*arguments, "--scheduler", started.scheduler)
    wait_until(lambda: len(lines(out)) >= 2, "the second record", 120)
    os.kill(started.processes[0].pid, way)
    if way == signal.SIGSTOP:
        for _ in range(2):
            running.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
    code, _, said = running.finish()
    assert code == (1 if way == signal.SIGKILL else 130)
    assert "Traceback" not in said
    if way == signal.SIGKILL:
        assert said.splitlines()[-1].startswith("fieldbench: the Dask scheduler is gone")
    assert len(lines(out)) >= 2


def test_a_worker_with_other_code_is_refused_by_name(
    started: Started, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(Path(fieldbench.__file__).parent, tmp_path / "fieldbench")
    with (tmp_path / "fieldbench" / "metric.py").open("a") as file:
        file.write("# another line")
    started.worker(2)
    started.worker(3, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    found = list(execute(plan("steady", 6), SOURCES, started.options(), Stop()))
    assert [record.status for record in found] == ["ok"] * 6
    assert "127.0.0.3 gets no work: it runs another code of fieldbench" in caplog.text


def test_where_no_worker_runs_the_same_code_the_run_is_refused(started: Started, tmp_path: Path) -> None:
    shutil.copytree(Path(fieldbench.__file__).parent, tmp_path / "fieldbench")
    (tmp_path / "fieldbench" / "metric.py").open("a").write("# another line")
    started.worker(3, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(RequestError, match=r"no worker may compute; 127\.0\.0\.3: it runs another code of fieldbench"):
        list(execute(plan("steady", 2), SOURCES, started.options(), Stop()))


def test_what_one_machine_lacks_is_computed_on_another(
    started: Started, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started.worker(2, TOY_LACKS="1")
    started.worker(3)
    found = list(execute(plan("needs-a-file", 12), SOURCES, started.options(), Stop()))
    assert [record.status for record in found] == ["ok"] * 12
    assert "127.0.0.2 gets no work: FileNotFoundError" in caplog.text
    assert "127.0.0.2" in {record.diagnostics.get("failed_on") for record in found}


def test_what_every_machine_lacks_fails_and_costs_no_machine(started: Started) -> None:
    started.worker(2, TOY_LACKS="1")
    started.worker(3, TOY_LACKS="1")
    found = list(execute(plan(["needs-a-file", "steady"], 3), SOURCES, started.options(), Stop()))
    assert sorted((record.trial.cell.method, record.status) for record in found) == [
        *[("needs-a-file", "failed")] * 3,
        *[("steady", "ok")] * 3,
    ]


def test_devices_are_looked_for_where_the_work_is(started: Started, tmp_path: Path) -> None:
    """A session on a machine without any GPU may ask for one; the worker says that it has none either."""
    started.worker(2)
    options = replace(started.options(), device="cuda:9")
    session = Session(request("steady", 2), sources=SOURCES, options=options, out=tmp_path / "run")
    with pytest.raises(RequestError, match="'cuda:9' is not there"):
        session.run()


def test_fields_of_a_worker_in_another_folder_come_to_the_folder_of_the_run(started: Started, tmp_path: Path) -> None:
    away, out = tmp_path / "away", tmp_path / "run"
    away.mkdir()
    started.worker(2, PWD=str(away))
    options = replace(started.options(), save_fields=str(out))
    found = list(execute(plan("steady", 2), SOURCES, options, Stop()))
    assert {path.stem for path in (out / "fields").iterdir()} == {record.trial.key for record in found}
    assert list(away.iterdir()) == []


def test_status_names_the_machine_that_lacks_something(started: Started, tmp_path: Path) -> None:
    started.worker(2, TOY_LACKS="1")
    started.worker(3)
    Session(request("needs-a-file", 12), sources=SOURCES, options=started.options(), out=tmp_path / "run").run()
    (session,) = run_status(tmp_path / "run").sessions
    assert "failed on 127.0.0.2" in session


SBATCH = """#!/bin/sh
# A box of two GPUs, whose numbers Slurm tells the job.
CUDA_VISIBLE_DEVICES=0,1 PYTHONPATH="$SLURM_BOX:$PYTHONPATH" setsid sh "$1" >/dev/null 2>&1 &
echo "$!" >> "$SLURM_BOX/jobs"
echo "Submitted batch job $!"
"""

#: What makes a process of the box see GPUs that do not exist.
BOX = """
import os
import fieldbench.execution.machine as machine
names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
machine.visible_gpus = lambda: [machine.Gpu(f"sim:{name}", name, inside="sim:0") for name in names]
"""


def test_slurm_jobs_of_several_gpus_compute_on_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of docs/clusters.md, with a fake sbatch."""
    jobqueue = pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    for name, text in {"sbatch": SBATCH, "scancel": "#!/bin/sh\n", "sitecustomize.py": BOX}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_BOX", str(tmp_path))
    try:
        with jobqueue.SLURMCluster(
            queue="gpu", cores=4, processes=1, memory="4GB", walltime="00:10:00", job_extra_directives=["--gres=gpu:2"],
            python=sys.executable, log_directory=str(tmp_path), scheduler_options={"dashboard": False},
        ) as cluster:  # fmt: skip
            assert "#SBATCH --gres=gpu:2" in cluster.job_script()
            cluster.scale(jobs=1)
            options = Options(device="auto", jobs=1, backend="dask", scheduler=cluster.scheduler_address)
            found = list(execute(plan("probe", 8), SOURCES, options, Stop()))
    finally:
        for line in (tmp_path / "jobs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(line), signal.SIGKILL)
    assert {record.status for record in found} == {"ok"}
    assert {record.device for record in found} == {"sim:0", "sim:1"}
