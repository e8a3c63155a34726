"""Does the parent keep a thousand slots busy? Slots that only sleep take the place of processes that compute.

    python benchmarks/slots.py                         a thousand slots of this machine, a second a trial
    python benchmarks/slots.py --backend dask          the same behind a Dask scheduler, two workers of 500 threads
    python benchmarks/slots.py --slots 2 --sleep 0 --seconds 120      how memory grows over many trials

Everything else is as in a run: plan, queue, records, the log on disk. Printed are the records a second, the share of
the time that slots were at work (records times their sleep, over slots times seconds), the processor time of this
process a record, and its memory after a tenth of the records and at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

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

    def __init__(self, stop: Stop, seconds: float, settling: float) -> None:
        self._stop, self._seconds, self._settling = stop, seconds, settling
        self._began = self._from = self._to = time.perf_counter()
        self._records, self._cpu, self.memory = 0, 0.0, [0.0]

    def start(self, progress: Progress) -> None:
        self._began = time.perf_counter()

    def update(self, progress: Progress, record: Record) -> None:
        now = time.perf_counter()
        if now < self._began + self._settling:
            self._from, self._cpu = now, time.process_time()
            self.memory = [_resident()]
            return
        self._records += 1
        self._to = now
        if now > self._began + self._settling + self._seconds and not self._stop.asked:
            self.rate = self._records / (now - self._from)
            self.processor_time = (time.process_time() - self._cpu) / self._records
            self.memory.append(_resident())
            self.written = self._records
            self._stop.request()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--sleep", type=float, default=1.0, help="seconds of a trial")
    parser.add_argument("--seconds", type=float, default=20.0, help="after a start of three, and two trials")
    parser.add_argument("--backend", choices=["local", "dask"], default="local")
    wanted = parser.parse_args()

    sleep_in_place_of_work(wanted.sleep)
    stop = Stop()
    counter = Counter(stop, wanted.seconds, 3.0 + 2 * wanted.sleep)
    with tempfile.TemporaryDirectory() as folder, _cluster(wanted.backend, wanted.slots, wanted.sleep):
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
    print(f"processor time a record {counter.processor_time * 1e3:.2f} ms")
    print(f"memory {counter.memory[0]:.0f} MiB after the start, {counter.memory[-1]:.0f} MiB at the end")


def sleep_in_place_of_work(seconds: float) -> None:
    """Let every slot of this process sleep and say that all went well."""

    def sleeping(self: WorkerSlot, trials: Sequence[Trial], busy: int) -> Outcome:
        time.sleep(seconds)
        records = (Record(trial, "ok", "", {"rmse": 1.0}, seconds, slots=busy) for trial in trials)
        return Outcome(tuple(records))

    WorkerSlot.run = sleeping  # type: ignore[method-assign]


@contextlib.contextmanager
def _cluster(backend: str, slots: int, sleep: float) -> Iterator[None]:
    if backend == "local":
        yield
        return
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=slots // 2, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(sleep_in_place_of_work, sleep)
        yield


def _resident() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss / 2**20)


if __name__ == "__main__":
    main()
