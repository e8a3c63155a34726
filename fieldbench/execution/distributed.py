"""Running trials on a Dask cluster. Dask sends tasks, and sends those of a lost worker again; this module decides who
may compute, and what a failure means.

Each worker process has a pool of slots of its own, as this machine has for local runs.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import cloudpickle

from fieldbench.errors import FieldbenchError, RequestError, how_to_install, one_line
from fieldbench.execution.machine import Lane, slots
from fieldbench.execution.options import Options, Stop
from fieldbench.execution.pool import Pool
from fieldbench.execution.provenance import what_runs
from fieldbench.execution.slot import Outcome
from fieldbench.execution.trial_queue import Group, TrialQueue
from fieldbench.records import CRASHED, Record, Trial
from fieldbench.registry import Registry, Sources

_LOG = logging.getLogger("fieldbench")

#: Seconds between looks at what has come back, and at who is there; and those without the scheduler before the end.
_LOOK, _ROLL_CALL, _SILENCE = 0.02, 1.0, 5.0


def execute_on_cluster(trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop) -> Iterator[Outcome]:
    """What came of trials that the workers of a cluster ran.

    Args:
        trials: to be run, in this order.
        sources: of the plugins.
        options: of the run, with the scheduler's address.
        stop: ends the run early.

    Raises:
        RequestError: if there is no Dask, no scheduler, or no worker that runs the same code on such devices.
        FieldbenchError: if the scheduler is lost.
    """
    client = _connected(options.scheduler)
    return _Cluster(client, trials, sources, options, stop).outcomes()


def _connected(scheduler: str | None) -> Any:
    try:
        import distributed
    except ImportError:
        raise RequestError(f"--backend dask needs Dask; {how_to_install('dask')}") from None
    try:
        if scheduler is None:
            return distributed.get_client()
        for name in ("distributed", *logging.root.manager.loggerDict):  # what goes wrong is said here, in one line
            if name.partition(".")[0] == "distributed":
                logging.getLogger(name).setLevel(logging.CRITICAL)
        return distributed.Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        if scheduler is None:
            hint = "give --scheduler tcp://HOST:PORT, or open a dask.distributed.Client first"
            raise RequestError(f"--backend dask: which cluster? {hint}") from None
        raise RequestError(f"--scheduler {scheduler}: no Dask scheduler answers there ({error})") from None


class _Cluster:
    def __init__(self, client: Any, trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop) -> None:
        from distributed import as_completed

        self._client, self._stop, self._run = client, stop, uuid.uuid4().hex
        self._is_ours = options.scheduler is not None
        self._parcel = cloudpickle.dumps((self._run, sources, options))
        registry = Registry(sources)
        self._wanted = what_runs(registry)
        threads = max(1, sum(client.nthreads().values()))
        lanes: dict[Lane, int] = {"cpu": threads} if options.device == "cpu" else {"gpu": threads, "cpu": threads}
        self._queue = TrialQueue(trials, registry, lanes)
        self._completed = as_completed(loop=client.loop)
        #: Groups that were sent, and where each has failed before and why.
        self._out: dict[str, tuple[Group, tuple[str, str] | None]] = {}
        #: Address of each worker that runs the same code, with its threads; reasons of those that do not get work.
        self._workers: dict[str, int] = {}
        self._refused: dict[str, str] = {}
        self._asked = self._heard = time.monotonic()

    def outcomes(self) -> Iterator[Outcome]:
        try:
            self._roll_call()
            while not self._stop.now:
                if self._client.status == "running" and not self._stop.asked:
                    self._send()
                if not self._out and (self._stop.asked or self._queue.empty):
                    return
                yield from self._received(self._completed.next_batch(block=False))
                self._look_after()
                time.sleep(_LOOK)
        finally:
            _quietly(lambda: self._client.run(dismiss, self._run, on_error="ignore"))
            if self._is_ours:
                _quietly(lambda: self._client.close(timeout=2))

    def _send(self) -> None:
        groups: list[Group] = []
        free = sum(self._workers.values()) - len(self._out)
        while len(groups) < free and (group := self._queue.take(["gpu", "cpu"])) is not None:
            groups.append(group)
        self._submit(groups, list(self._workers))

    def _submit(self, groups: list[Group], workers: list[str], before: tuple[str, str] | None = None) -> None:
        """Send groups, all with one message to the scheduler."""
        if groups:
            parcels = [cloudpickle.dumps(group) for group in groups]
            futures = self._client.map(fulfil, parcels, run=self._parcel, workers=workers, pure=False, retries=2)
            self._out |= {future.key: (group, before) for group, future in zip(groups, futures, strict=True)}
            self._completed.update(futures)

    def _received(self, futures: list[Any]) -> Iterator[Outcome]:
        """What came of tasks, fetched with one question to each worker."""
        finished = [future for future in futures if future.status == "finished"]
        fetched: dict[str, Any] = {}
        with contextlib.suppress(Exception):  # a worker is lost meanwhile
            found = self._client.gather(finished) if finished else []
            fetched = {future.key: given for future, given in zip(finished, found, strict=True)}
        for future in futures:
            group, before = self._out.pop(future.key)
            try:
                where, outcome = fetched.get(future.key) or future.result()
            except Exception as error:  # Dask gave it up: the workers that had it were lost again and again
                if future.cancelled() or self._client.status != "running":
                    self._queue.put_back(reversed(group.trials))  # with the scheduler, which may come back
                    continue
                reason = f"the workers that had it were lost: {one_line(error)}"
                yield Outcome(tuple(Record(trial, CRASHED, reason) for trial in group.trials))
                continue
            if outcome.batch_size is not None:
                self._queue.learn(group.trials[0], outcome.batch_size)
            yield from self._judged(group, where, outcome, before)

    def _judged(self, group: Group, where: str, outcome: Outcome, before: tuple[str, str] | None) -> Iterator[Outcome]:
        """What a failure means: one that is a machine's is tried on another one before it counts."""
        reason = next((item.error for item in outcome.records if "of_the_machine" in item.diagnostics), None)
        if before is None:
            others = [worker for worker in self._workers if _host(worker) != _host(where)]
            if reason is None or not others:
                yield outcome
            else:
                self._submit([group], others, (where, reason))
            return
        first, why = before
        if reason is None:  # so it was the first machine's fault
            self._refuse(first, why)
        failed_on = {"failed_on": _host(first)}
        marked = (replace(item, diagnostics={**item.diagnostics, **failed_on}) for item in outcome.records)
        yield replace(outcome, records=tuple(marked))

    def _look_after(self) -> None:
        now = time.monotonic()
        if self._client.status == "running":
            self._heard = now
            if now - self._asked > _ROLL_CALL:
                with contextlib.suppress(OSError):  # the scheduler is being lost
                    self._roll_call()
        elif now - self._heard > _SILENCE or self._client.status == "closed":
            raise FieldbenchError(
                "the Dask scheduler is gone; what was done is on disk, and the same command goes on from there"
            )

    def _roll_call(self) -> None:
        """Ask workers that are new what they run, and forget those that have gone."""
        self._asked = time.monotonic()
        there = self._client.nthreads()
        self._workers = {name: threads for name, threads in self._workers.items() if name in there}
        fresh = [name for name in there if name not in self._workers and name not in self._refused]
        said = self._client.run(describe, self._parcel, workers=fresh, on_error="return") if fresh else {}
        for name, found in said.items():
            if not isinstance(found, dict):
                self._refuse(name, str(found) if isinstance(found, str | RequestError) else one_line(found))
            elif other := [part for part in {**self._wanted, **found} if self._wanted.get(part) != found.get(part)]:
                self._refuse(name, f"it runs another {', another '.join(sorted(other))} than the machine that plans")
            else:
                self._workers[name] = there[name]
        if there and not self._workers and not self._out and self._refused.keys() >= there.keys():
            name, reason = next((name, self._refused[name]) for name in there)
            raise RequestError(f"no worker may compute; {_host(name)}: {reason}")

    def _refuse(self, name: str, reason: str) -> None:
        """A machine gets no more work, by none of its workers."""
        for worker in [name, *self._workers]:
            if _host(worker) == _host(name):
                self._workers.pop(worker, None)
                self._refused[worker] = reason
        _LOG.warning("%s gets no work: %s", _host(name), reason)


def _quietly(last: Callable[[], Any]) -> None:
    """Do something that may never return, and wait for it only a moment."""

    def attempt() -> None:
        with contextlib.suppress(Exception):
            last()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(3)


def _host(worker: str) -> str:
    """The machine of a worker's address. Workers of one machine share what it lacks."""
    return worker.rpartition(":")[0].rpartition("/")[2] or worker


# What runs in a worker process.

_LOCK = threading.Lock()
_POOLS: dict[str, Pool] = {}


def describe(parcel: bytes) -> dict[str, str]:
    """What a worker would compute with.

    Raises:
        RequestError: if it has not the devices that are asked for.
    """
    return what_runs(_pool(parcel).registry)


def fulfil(group: bytes, run: bytes) -> tuple[str, Outcome]:
    """Run a group in a slot of this process; the name of the worker comes along."""
    import distributed

    return distributed.get_worker().address, _pool(run).run(pickle.loads(group))


def dismiss(run: str) -> None:
    """A run is over: its processes end, in the midst of a trial too."""
    with _LOCK:
        pool = _POOLS.pop(run, None)
    if pool is not None:
        pool.stop.at_once()
        pool.close()


def _pool(parcel: bytes) -> Pool:
    run, sources, options = pickle.loads(parcel)
    with _LOCK:
        if run not in _POOLS:
            _POOLS[run] = Pool(slots(options), Registry(sources), options, elsewhere=True)
        return _POOLS[run]
