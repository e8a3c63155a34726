"""Running trials through any joblib backend: the processes that it calls have slots of their own."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from fieldbench.errors import FieldbenchError, RequestError
from fieldbench.execution.branch import Order, Parcel, fulfil
from fieldbench.execution.feed import Feed, Group
from fieldbench.execution.options import Options
from fieldbench.execution.scheduling import Task, close, parallel
from fieldbench.execution.seat import Outcome
from fieldbench.execution.slots import Lane, cores
from fieldbench.execution.stop import Stop
from fieldbench.records import CRASHED, Record, Trial
from fieldbench.registry import Registry, Sources
from fieldbench.trial import Records

#: How often a trial is sent out before it counts as the cause of its processes' end.
ATTEMPTS = 4


def execute_elsewhere(trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop) -> Records:
    """What :func:`fieldbench.execution.execute` does, for any backend but the local one.

    Raises:
        RequestError: if backend or scheduler are not there.
        FieldbenchError: if the backend fails again and again, with nothing to show in between.
    """
    if options.timing:
        raise RequestError("--timing runs one trial at a time on this machine; leave --backend out")
    if options.backend == "dask":
        from fieldbench.execution.cluster import Cluster

        return _on_cluster(trials, sources, options, stop, Cluster(options.scheduler, stop))
    if options.scheduler is not None:
        raise RequestError(f"--scheduler is for --backend dask, not for {options.backend!r}")
    if options.jobs == 1:  # joblib would compute the trial in this very process
        raise RequestError(f"--backend {options.backend} runs at least two trials at once; for one, leave it out")
    jobs = options.jobs or cores()
    return _Round(trials, sources, options, stop, jobs).records(options.backend, max(2, jobs))


def _on_cluster(trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop, cluster: Any) -> Records:
    round_ = _Round(trials, sources, options, stop, cluster.cores())
    with cluster.watching(round_.run):
        yield from round_.records(cluster.backend, -1)


class _Round:
    """One run through a backend: what is out, what came back, and what has to be sent again."""

    def __init__(self, trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop, slots: int) -> None:
        self.run = uuid.uuid4().hex
        self._sources, self._options, self._stop = sources, options, stop
        lanes: dict[Lane, int] = {"cpu": slots} if options.device == "cpu" else {"gpu": slots, "cpu": slots}
        self._feed = Feed(trials, Registry(sources), lanes)
        self._lock = threading.Lock()
        self._out: dict[str, Group] = {}
        self._losses: Counter[str] = Counter()

    def records(self, backend: Any, jobs: int) -> Records:
        """Records as they come back, from as many joblib calls as it takes."""
        failures = 0
        while True:
            outcomes = parallel(self._orders(), backend, jobs)
            try:
                for outcome in outcomes:
                    yield from self._received(outcome)
                    failures = 0
                return
            except FieldbenchError:
                raise
            except Exception as error:  # the backend lost processes, and with them what they were working on
                failures += 1
                if self._stop.asked:
                    return
                if failures >= ATTEMPTS:
                    raise FieldbenchError(f"backend {self._options.backend!r} keeps failing: {error!r}") from error
                yield from self._lost(error)
            finally:
                close(outcomes)

    def _orders(self) -> Iterator[Task]:
        while not self._stop.asked:
            with self._lock:
                group = self._next()
                if group is None:
                    return
                self._out[group.trials[0].key] = group
            yield partial(fulfil, Parcel(Order(self.run, group, self._sources, self._options)))

    def _next(self) -> Group | None:
        """A group for the lane that has fewer of them out, so that neither CPUs nor GPUs wait for the other."""
        out = Counter(group.lane for group in self._out.values())
        lanes: list[Lane] = ["gpu", "cpu"]
        first, second = sorted(lanes, key=lambda lane: out[lane])
        return self._feed.take([first]) or self._feed.take([second])

    def _received(self, outcome: Outcome) -> Iterator[Record]:
        if outcome.refusal:
            raise RequestError(outcome.refusal)
        with self._lock:
            if outcome.records:
                first = outcome.records[0].trial
                self._out.pop(first.key, None)
                if outcome.batch_size is not None:
                    self._feed.learn(first, outcome.batch_size)
        yield from outcome.records

    def _lost(self, error: Exception) -> Iterator[Record]:
        """Take back everything that is out; trials that were lost too often are given up."""
        with self._lock:
            trials = [trial for group in self._out.values() for trial in group.trials]
            self._out.clear()
            self._losses.update(trial.key for trial in trials)
            hopeless = [trial for trial in trials if self._losses[trial.key] >= ATTEMPTS]
            self._feed.put_back(trial for trial in reversed(trials) if self._losses[trial.key] < ATTEMPTS)
        for trial in hopeless:
            yield Record(trial, CRASHED, f"its process was lost {ATTEMPTS} times: {error!r}")
