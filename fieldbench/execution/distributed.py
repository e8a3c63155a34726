"""Running trials on a Dask cluster. Dask sends tasks, and sends those of a lost worker again; this module decides who
may compute, and what a failure means.

Each worker process has a pool of slots of its own, as this machine has for local runs.
"""

from __future__ import annotations

import contextlib
import logging
import math
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import cloudpickle

from fieldbench.errors import FieldbenchError, RequestError, how_to_install, one_line
from fieldbench.execution.machine import Lane, slots
from fieldbench.execution.options import Options, Stop
from fieldbench.execution.pool import Pool
from fieldbench.execution.processes import GivenUp
from fieldbench.execution.provenance import what_runs
from fieldbench.execution.slot import Outcome
from fieldbench.execution.trial_queue import Group, TrialQueue
from fieldbench.records import CRASHED, Record, Trial
from fieldbench.registry import Registry, Sources

_LOG = logging.getLogger("fieldbench")

T = TypeVar("T")

#: Seconds between looks at what has come back, and at who is there; and those that a lost scheduler is waited for.
_LOOK, _ROLL_CALL, _FAREWELL = 0.02, 1.0, 3.0
#: Seconds between looks at whether an answer is still wanted.
_PATIENCE = 0.2

_LANES: tuple[Lane, ...] = ("gpu", "cpu")

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
        self._is_ours, self._stop, self._run = options.scheduler is not None, stop, uuid.uuid4().hex
        self._parcel = cloudpickle.dumps((self._run, sources, options))
        registry = Registry(sources)
        self._wanted = what_runs(registry)
        threads = max(1, sum(self._client.nthreads().values()))
        lanes: dict[Lane, int] = {"cpu": threads} if options.device == "cpu" else {"gpu": threads, "cpu": threads}
        self._queue = TrialQueue(trials, registry, lanes)
        #: Groups that were sent, and where each has failed before and why.
        self._out: dict[str, tuple[Group, tuple[str, str] | None]] = {}
        #: When each of them was sent; the seconds from sending to return of the newest of each method and dataset.
        self._sent: dict[str, float] = {}
        self._took: dict[tuple[str, str], float] = {}
        #: Address of each worker that runs the same code, with its threads; reasons of those that do not get work.
        self._workers: dict[str, int] = {}
        self._refused: dict[str, str] = {}
        self._asked = -math.inf

    def outcomes(self) -> Iterator[Outcome]:
        """What came of them.

        Raises:
            RequestError: if there is no worker that runs the same code on such devices.
            FieldbenchError: if the scheduler is lost.
        """
        with contextlib.suppress(GivenUp), contextlib.ExitStack() as leaving:
            leaving.callback(self._leave)
            while not self._stop.now:
                self._must_be_there()
                if time.monotonic() - self._asked > _ROLL_CALL:
                    with contextlib.suppress(OSError):  # the scheduler is being lost
                        self._roll_call()
                if not self._stop.asked:
                    self._send()
                if not self._out and (self._stop.asked or self._queue.empty):
                    return
                yield from self._received(self._completed.next_batch(block=False))
                time.sleep(_LOOK)

    def _leave(self) -> None:
        wait([_begun(lambda: self._client.run(dismiss, self._run, on_error="ignore"))], _FAREWELL)
        if self._is_ours:
            wait([_begun(lambda: self._client.close(timeout=1))], _FAREWELL)

    def _answer(self, ask: Callable[[], T]) -> T:
        """What the cluster says, or the end of the run: a scheduler that hangs may never answer."""
        answer = _begun(ask)
        while not wait([answer], _PATIENCE).done:
            if self._stop.now:
                raise GivenUp
        return answer.result()

    def _must_be_there(self) -> None:
        if self._client.status != "running":
            raise FieldbenchError(
                "the Dask scheduler is gone; what was done is on disk, and the same command goes on from there"
            )

    def _send(self) -> None:
        groups: list[Group] = []
        while self._has_room(len(groups)) and (group := self._queue.take(_LANES)) is not None:
            groups.append(group)
        self._submit(groups, list(self._workers))

    def _has_room(self, more: int) -> bool:
        """Whether the next task may be sent after some more: to a free thread or, if it is short, to wait at a worker,
        so that no slot is idle until its end is heard of here."""
        threads, out = sum(self._workers.values()), len(self._out) + more
        if out < threads or (first := self._queue.first(_LANES)) is None:
            return out < threads
        took = self._took.get(_kind(first), math.inf)
        return out < threads + int(threads * min(1.0, _ON_THE_WAY / took))

    def _submit(self, groups: list[Group], workers: list[str], before: tuple[str, str] | None = None) -> None:
        """Send groups, all with one message to the scheduler."""
        if groups:
            parcels = [cloudpickle.dumps(group) for group in groups]
            futures = self._client.map(fulfil, parcels, run=self._parcel, workers=workers, pure=False, retries=2)
            self._out |= {future.key: (group, before) for group, future in zip(groups, futures, strict=True)}
            self._sent |= dict.fromkeys((future.key for future in futures), time.monotonic())
            self._completed.update(futures)

    def _received(self, futures: list[Any]) -> Iterator[Outcome]:
        """What came of tasks, fetched with one question to each worker."""
        finished, fetched = [future for future in futures if future.status == "finished"], {}
        with contextlib.suppress(Exception):  # a worker is lost meanwhile
            found = self._answer(lambda: self._client.gather(finished)) if finished else []
            fetched = dict(zip(finished, found, strict=True))
        for future in futures:
            group, before = self._out.pop(future.key)
            self._took[_kind(group.trials[0])] = time.monotonic() - self._sent.pop(future.key)
            try:
                where, outcome = fetched.get(future) or self._answer(future.result)
            except GivenUp:
                raise
            except Exception as error:  # Dask gave it up: the workers that had it were lost again and again
                self._must_be_there()
                reason = f"the workers that had it were lost: {one_line(error)}"
                yield Outcome(tuple(Record(trial, CRASHED, reason) for trial in group.trials))
                continue
            if outcome.batch_size is not None:
                self._queue.learn(group.trials[0], outcome.batch_size)
            yield from self._judged(group, where, outcome, before)

    def _judged(self, group: Group, where: str, outcome: Outcome, before: tuple[str, str] | None) -> Iterator[Outcome]:
        """What a failure means: one that is a machine's is tried on another one before it counts."""
        reason = next((item.error for item in outcome.records if "of_the_machine" in item.diagnostics), None)
        if before is not None:
            if reason is None:  # so it was the first machine's fault
                self._refuse(*before)
            failed_on = {"failed_on": _host(before[0])}
            marked = (replace(item, diagnostics={**item.diagnostics, **failed_on}) for item in outcome.records)
            yield replace(outcome, records=tuple(marked))
        elif reason and (others := [worker for worker in self._workers if _host(worker) != _host(where)]):
            self._submit([group], others, (where, reason))
        else:
            yield outcome

    def _roll_call(self) -> None:
        """Ask workers that are new what they run, and forget those that have gone."""
        self._asked = time.monotonic()
        there = self._answer(self._client.nthreads)
        self._workers = {name: threads for name, threads in self._workers.items() if name in there}
        fresh = [name for name in there if name not in self._workers and name not in self._refused]
        said = partial(self._client.run, describe, self._parcel, workers=fresh, on_error="return")
        for name, found in self._answer(said).items() if fresh else ():
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


def _connected(scheduler: str | None) -> tuple[Any, Any]:
    """A client of the scheduler, and what tells of its tasks that have ended."""
    try:
        import distributed
    except ImportError:
        raise RequestError(f"--backend dask needs Dask; {how_to_install('dask')}") from None
    try:
        if scheduler is None:
            client = distributed.get_client()
        else:
            for name in ("distributed", *logging.root.manager.loggerDict):  # what goes wrong is said in one line
                if name.partition(".")[0] == "distributed":
                    logging.getLogger(name).setLevel(logging.CRITICAL)
            client = distributed.Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        if scheduler is None:
            hint = "give --scheduler tcp://HOST:PORT, or open a dask.distributed.Client first"
            raise RequestError(f"--backend dask: which cluster? {hint}") from None
        raise RequestError(f"--scheduler {scheduler}: no Dask scheduler answers there ({error})") from None
    return client, distributed.as_completed(loop=client.loop)


def _begun(ask: Callable[[], T]) -> Future[T]:
    """The answer to a question that may never be answered; nobody waits for its thread at the end."""
    answer = Future[T]()

    def answered() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=answered, daemon=True).start()
    return answer


def _kind(trial: Trial) -> tuple[str, str]:
    return trial.cell.method, trial.cell.dataset


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
