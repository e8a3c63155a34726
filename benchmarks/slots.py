"""Does the parent keep a thousand slots busy? Slots that only sleep take the place of processes that compute.

    python benchmarks/slots.py                         a thousand slots of this machine, a second a trial
    python benchmarks/slots.py --backend dask          the same behind a Dask scheduler, two workers of 500 threads
    python benchmarks/slots.py --slots 2 --sleep 0 --seconds 120      how memory grows over many trials

Everything else is as in a run: plan, queue, records, the log on disk. Printed are the records a second, the share of
the time that slots were at work (records times their sleep, over slots times seconds), the processor time of each
process a record, and the memory of this one after the start and at the end. The processor time tells how many slots a
process can feed on a core of its own, however many processes share the cores here.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent))

from runner import TOYS

from fieldbench.execution import Options, Stop
from fieldbench.execution.slot import Outcome, WorkerSlot
from fieldbench.plan import Request
from fieldbench.progress import Progress
from fieldbench.records import Record, Trial
from fieldbench.registry import Sources
from fieldbench.session import Listener, Session

#: Trials of the plan, more than are ever run here.
PLANNED = 10_000_000


class Counter(Listener):
    """Notes when records came, and stops the run after a time."""

    def __init__(self, stop: Stop, seconds: float, settling: float, processes: dict[str, psutil.Process]) -> None:
        self._stop, self._seconds, self._settling, self._processes = stop, seconds, settling, processes
        self._began = self._from = time.perf_counter()
        self._records, self._settled, self.memory = 0, False, [0.0]

    def start(self, progress: Progress) -> None:
        self._began = time.perf_counter()

    def update(self, progress: Progress, record: Record) -> None:
        now = time.perf_counter()
        if now < self._began + self._settling:
            return
        if not self._settled:
            self._settled, self._from, self._before = True, now, self._processor_times()
            self.memory = [_resident()]
            return
        self._records += 1
        if now > self._began + self._settling + self._seconds and not self._stop.asked:
            self.rate = self._records / (now - self._from)
            after = self._processor_times()
            self.processor_times = {name: (after[name] - self._before[name]) / self._records for name in after}
            self.memory.append(_resident())
            self.written = self._records
            self._stop.request()

    def _processor_times(self) -> dict[str, float]:
        times = {name: process.cpu_times() for name, process in self._processes.items()}
        return {name: time.user + time.system for name, time in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--sleep", type=float, default=1.0, help="seconds of a trial")
    parser.add_argument("--seconds", type=float, default=20.0, help="after a start of three, and two trials")
    parser.add_argument("--backend", choices=["local", "dask"], default="local")
    wanted = parser.parse_args()

    sleep_in_place_of_work(wanted.sleep)
    stop = Stop()
    with (
        tempfile.TemporaryDirectory() as folder,
        _cluster(Path(folder), wanted.backend, wanted.slots, wanted.sleep) as others,
    ):
        counter = Counter(stop, wanted.seconds, 3.0 + 2 * wanted.sleep, {"this one": psutil.Process(), **others})
        plugin = Path(folder) / "toys.py"
        plugin.write_text(TOYS)
        session = Session(
            Request(methods="nothing", datasets="small", trials=PLANNED, rates=[0.3]),
            sources=Sources(files=(str(plugin),)),
            options=Options(device="cpu", jobs=wanted.slots, backend=wanted.backend),
            out=Path(folder) / "run",
        )
        session.run(watch=counter, stop=stop)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {wanted.backend}")
    print(f"{wanted.slots} slots, {wanted.sleep} s a trial, {counter.written:,} records: {counter.rate:.0f} a second")
    if wanted.sleep:
        print(f"slots at work {counter.rate * wanted.sleep / wanted.slots:.0%} of the time")
    for name, seconds in counter.processor_times.items():
        print(f"processor time a record, {name}: {seconds * 1e3:.2f} ms")
    print(f"memory {counter.memory[0]:.0f} MiB after the start, {counter.memory[-1]:.0f} MiB at the end")


def sleep_in_place_of_work(seconds: float) -> None:
    """Let every slot of this process sleep and say that all went well."""

    def sleeping(self: WorkerSlot, trials: Sequence[Trial], busy: int) -> Outcome:
        time.sleep(seconds)
        records = (Record(trial, "ok", "", {"rmse": 1.0}, seconds, slots=busy) for trial in trials)
        return Outcome(tuple(records))

    WorkerSlot.run = sleeping  # type: ignore[method-assign]


@contextlib.contextmanager
def _cluster(folder: Path, backend: str, slots: int, sleep: float) -> Iterator[dict[str, psutil.Process]]:
    """The scheduler and the workers, each a process of its own as on a cluster."""
    if backend == "local":
        yield {}
        return
    from distributed import Client

    def start(*command: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", *command, "--scheduler-file", str(folder / "scheduler"), "--no-dashboard"]
        return processes.enter_context(subprocess.Popen(words, stderr=subprocess.DEVNULL))

    with contextlib.ExitStack() as processes:
        started = {"scheduler": start("distributed.cli.dask_scheduler", "--port", "0")}
        for number in range(2):
            limits = ("--nthreads", str(slots // 2), "--memory-limit", "0", "--no-nanny")
            started[f"worker {number}"] = start("distributed.cli.dask_worker", *limits)
        for process in started.values():
            processes.callback(process.kill)
        with Client(scheduler_file=str(folder / "scheduler")) as client:
            client.wait_for_workers(2)
            client.run(sleep_in_place_of_work, sleep)
            yield {name: psutil.Process(process.pid) for name, process in started.items()}


def _resident() -> float:
    return float(psutil.Process().memory_info().rss / 2**20)


if __name__ == "__main__":
    main()
