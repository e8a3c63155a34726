"""Running trials on a Dask cluster. Dask sends tasks, and those of a lost worker again, and fetches what came of them;
this module decides who may compute, and what a failure means.

Each worker process has a pool of slots of its own, as this machine has for local runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import pickle
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

import cloudpickle

from fieldbench.errors import FieldbenchError, RequestError, as_reason, how_to_install, one_line
from fieldbench.execution.machine import Lane, slots
from fieldbench.execution.options import Options, Stop
from fieldbench.execution.pool import Pool
from fieldbench.execution.provenance import what_runs
from fieldbench.execution.slot import Outcome
from fieldbench.execution.trial_queue import TrialQueue
from fieldbench.records import CRASHED, Record, Trial
from fieldbench.registry import Registry, Sources

_LOG = logging.getLogger("fieldbench")

#: Seconds between looks at what has come back, and at who is there; and those that a lost scheduler is waited for.
_LOOK, _ROLL_CALL, _FAREWELL = 0.02, 1.0, 3.0

_LANES: tuple[Lane, ...] = ("gpu", "cpu")

Group: TypeAlias = tuple[Trial, ...]

#: Seconds from the end of a task until its slot could have the next from here, where a thousand slots work.
_ON_THE_WAY = 1.0


class Cluster:
    """Trials on the workers of a Dask cluster."""

    def __init__(self, trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop) -> None:
        """
        Args:
            trials, sources, options, stop: as for :func:`fieldbench.execution.execute`.

        Raises:
            RequestError: if there is no Dask or no scheduler.
        """
        self._client, self._completed = _connected(options.scheduler)
        self._options, self._stop = options, stop
        #: What workers need, and what they know this run by: another run like it has another one.
        self._parcel = cloudpickle.dumps((sources, options, uuid.uuid4().hex))
        registry = Registry(sources)
        self._wanted = what_runs(registry)
        threads = max(1, sum(self._client.nthreads().values()))
        lanes: dict[Lane, int] = {"cpu": threads} if options.device == "cpu" else {"gpu": threads, "cpu": threads}
        self._queue = TrialQueue(trials, registry, lanes)
        #: Groups that were sent, and where each has failed before and why.
        self._out: dict[str, tuple[Group, tuple[str, str] | None]] = {}
        #: Seconds that workers had groups, of the newest ones above all: the first ones wait for processes to start.
        self._took = math.inf
        #: Threads of the workers that are there, by address; of those that were asked, why each gets no work, or "".
        self._threads: dict[str, int] = {}
        self._reasons: dict[str, str] = {}

    def outcomes(self) -> Iterator[Outcome]:
        """What came of them. A scheduler that hangs is never waited for.

        Raises:
            RequestError: if there is no worker that runs the same code on such devices.
            FieldbenchError: if the scheduler is lost.
        """
        roll_calls = asyncio.run_coroutine_threadsafe(self._call_roll(), self._client.loop.asyncio_loop)
        try:
            while not self._stop.now:
                self._must_be_there()
                if roll_calls.done():
                    roll_calls.result()
                if not self._stop.asked:
                    self._send()
                if not self._out and (self._stop.asked or self._queue.empty):
                    return
                for future, found in self._completed.next_batch(block=False):
                    if (outcome := self._received(future, found)) is not None:
                        yield outcome
                time.sleep(_LOOK)
        finally:
            roll_calls.cancel()
            client = self._client
            with contextlib.suppress(Exception):  # the scheduler is gone or hangs
                client.sync(client.run, dismiss, self._parcel, on_error="ignore", callback_timeout=_FAREWELL)
            if self._options.scheduler is not None:
                with contextlib.suppress(Exception):
                    client.close(timeout=1)

    def _must_be_there(self) -> None:
        if self._client.status != "running":
            raise FieldbenchError(
                "the Dask scheduler is gone; what was done is on disk, and the same command goes on from there"
            )

    @property
    def _workers(self) -> dict[str, int]:
        """Threads of those that may compute."""
        return {name: count for name, count in self._threads.items() if self._reasons.get(name) == ""}

    def _send(self) -> None:
        """Send a group for each free thread. Short ones wait at the workers, so that no slot is idle until its end is
        heard of here."""
        workers = self._workers
        threads = sum(workers.values())
        waiting = int(threads * min(1.0, _ON_THE_WAY / self._took))
        groups = iter(lambda: self._queue.take(_LANES), ())
        self._submit(list(islice(groups, max(0, threads + waiting - len(self._out)))), list(workers))

    def _submit(self, groups: list[Group], workers: list[str], before: tuple[str, str] | None = None) -> None:
        """Send groups, all with one message to the scheduler."""
        if groups:
            parcels = [pickle.dumps(group) for group in groups]
            futures = self._client.map(fulfil, parcels, run=self._parcel, workers=workers, pure=False, retries=2)
            self._out |= {future.key: (group, before) for group, future in zip(groups, futures, strict=True)}
            self._completed.update(futures)

    def _received(self, future: Any, found: Any) -> Outcome | None:
        group, before = self._out.pop(future.key)
        if future.status in ("error", "cancelled"):  # Dask gave it up: the workers that had it were lost each time
            self._must_be_there()
            error = one_line(found[1] if future.status == "error" else found)
            lost = f"the workers that had it were lost: {error}"
            return Outcome(tuple(Record(trial, CRASHED, lost) for trial in group))
        answer: tuple[str, float, Outcome] = found
        where, seconds, outcome = answer
        self._took = seconds if math.isinf(self._took) else (self._took + seconds) / 2
        if outcome.batch_size is not None:
            self._queue.learn(group[0], outcome.batch_size)
        reason = next((item.error for item in outcome.records if "of_the_machine" in item.diagnostics), None)
        if before is not None:
            return self._tried_twice(outcome, *before, failed_again=reason is not None)
        others = [worker for worker in self._workers if _host(worker) != _host(where)]
        if reason is None or not others:
            return outcome
        self._submit([group], others, (where, reason))  # a machine's failure does not count before another had it
        return None

    def _tried_twice(self, outcome: Outcome, where: str, reason: str, *, failed_again: bool) -> Outcome:
        machine = _host(where)
        if not failed_again:  # so it was the first machine's fault
            self._decide([name for name in [where, *self._threads] if _host(name) == machine], reason)
        said = {"failed_on": machine}
        records = (replace(item, diagnostics={**item.diagnostics, **said}) for item in outcome.records)
        return replace(outcome, records=tuple(records))

    async def _call_roll(self) -> None:
        """Again and again, on the client's own loop: who is there, and what do those run that are new?"""
        while True:
            with contextlib.suppress(OSError):  # the scheduler is being lost
                there = await self._client.nthreads()
                for gone in self._reasons.keys() - there.keys():
                    if not self._reasons[gone]:  # who comes back is asked again
                        del self._reasons[gone]
                fresh = [name for name in there if name not in self._reasons]
                asked = self._client.run(describe, self._parcel, workers=fresh, on_error="return") if fresh else None
                said = await asked if asked is not None else {}
                self._threads = there
                for name, found in said.items():
                    self._decide([name], self._objection(found))
                reasons = [self._reasons.get(name) for name in there]
                if there and all(reasons) and not self._out:
                    raise RequestError(f"no worker may compute; {_host(next(iter(there)))}: {reasons[0]}")
            await asyncio.sleep(_ROLL_CALL)

    def _objection(self, found: Any) -> str:
        """Why a worker may not compute, by what it says that it runs."""
        if not isinstance(found, dict):
            return found if isinstance(found, str) else as_reason(found)
        other = [part for part in {**self._wanted, **found} if self._wanted.get(part) != found.get(part)]
        return f"it runs another {', another '.join(sorted(other))} than the machine that plans" if other else ""

    def _decide(self, workers: list[str], reason: str) -> None:
        """Let workers of a machine compute from now on, or for a reason no more."""
        self._reasons |= dict.fromkeys(workers, reason)
        if reason:
            _LOG.warning("%s gets no work: %s", _host(workers[0]), reason)


def _connected(scheduler: str | None) -> tuple[Any, Any]:
    """A client of the scheduler, and what brings the results of its tasks."""
    try:
        import distributed
    except ImportError:
        raise RequestError(f"--backend dask needs Dask; {how_to_install('dask')}") from None
    if scheduler is None:
        try:
            client = distributed.get_client()
        except ValueError:
            hint = "give --scheduler tcp://HOST:PORT, or open a dask.distributed.Client first"
            raise RequestError(f"--backend dask: which cluster? {hint}") from None
    else:
        for name in ("distributed", *logging.root.manager.loggerDict):  # what goes wrong is said in one line
            if name.partition(".")[0] == "distributed":
                logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            client = distributed.Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise RequestError(f"--scheduler {scheduler}: no Dask scheduler answers there ({error})") from None
    return client, distributed.as_completed(loop=client.loop, with_results=True)


def _host(worker: str) -> str:
    """The machine of a worker's address. Workers of one machine share what it lacks."""
    return worker.rpartition(":")[0].rpartition("/")[2] or worker


# What runs in a worker process.

_LOCK = threading.Lock()
_POOLS: dict[bytes, Pool] = {}


def describe(parcel: bytes) -> dict[str, str]:
    """What a worker would compute with.

    Raises:
        RequestError: if it has not the devices that are asked for.
    """
    return what_runs(_pool(parcel).registry)


def _pool(parcel: bytes) -> Pool:
    """The pool of a run; a worker that has come back at its address has none yet."""
    with _LOCK:
        if parcel not in _POOLS:
            sources, options, _ = pickle.loads(parcel)
            _POOLS[parcel] = Pool(slots(options), Registry(sources), options, elsewhere=True)
        return _POOLS[parcel]


def fulfil(group: bytes, run: bytes) -> tuple[str, float, Outcome]:
    """Run a group in a slot of this process; the name of the worker comes along, and the seconds that it took."""
    import distributed

    start = time.perf_counter()
    outcome = _pool(run).run(pickle.loads(group))
    return distributed.get_worker().address, time.perf_counter() - start, outcome


def dismiss(parcel: bytes) -> None:
    """A run is over: its processes end, in the midst of a trial too."""
    if (pool := _POOLS.pop(parcel, None)) is not None:
        pool.stop.at_once()
        pool.close()
