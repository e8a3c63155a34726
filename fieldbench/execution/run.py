"""From trials to records: one joblib call on this machine, a Dask cluster beyond it."""

from __future__ import annotations

import contextlib
import itertools
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from fieldbench import reconstructions
from fieldbench.errors import RequestError, one_line
from fieldbench.execution.machine import slots
from fieldbench.execution.options import Options, Stop
from fieldbench.execution.pool import Pool
from fieldbench.execution.slot import Outcome
from fieldbench.execution.trial_queue import TrialQueue
from fieldbench.judging import Records
from fieldbench.records import Trial
from fieldbench.registry import Registry, Sources
from fieldbench.sources import packed
from fieldbench.store.files import FIELDS, StorageError


def execute(
    trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop, pool: Pool | None = None
) -> Records:
    """Run trials and yield their records in the order in which they end.

    Trials are read as slots come free, so any number of them will do. Whatever becomes of a trial - it
    raises, crashes its process, takes too long or too much memory - it yields a record; only trials that
    were given up on a repeated wish to stop yield none.

    Args:
        trials, sources: what to run, and where the plugins are.
        options, stop: where and within which limits to run, and what asks for an early end.
        pool: the processes of this machine, if some were made before; they are ended with the run.

    Raises:
        RequestError: for a device, backend or scheduler that is not there, or a class that cannot be sent to
            other processes, before anything is run.
        StorageError: if the fields of a trial cannot be kept; the trial yields no record.
    """
    check_backend(options)
    for cls in sources.classes:
        try:
            packed(cls, (cls,))
        except Exception as error:  # it holds on to something that no other process can have
            reason = one_line(error)
            raise RequestError(f"{cls.__name__} cannot be sent to the processes that compute: {reason}") from None
    if options.backend == "dask":
        from fieldbench.execution.distributed import Cluster

        return _kept(Cluster(trials, sources, options, stop).outcomes(), options)
    if pool is None:
        pool = Pool(slots(options), Registry(sources), options)
    pool.stop = stop
    return _kept(_here(trials, pool, options, stop), options)


def check_backend(options: Options) -> None:
    """Say at once, before anything is run, that trials cannot be run so.

    Raises:
        RequestError: for a backend that there is not, options that contradict it, or a system that lacks what is
            needed.
    """
    if sys.platform == "win32":
        raise RequestError("fieldbench computes on Linux and macOS; on Windows, use the Windows Subsystem for Linux")
    if options.backend not in ("local", "dask"):
        raise RequestError(f"backend {options.backend!r} is not there; there are: local, dask")
    if options.backend == "dask" and options.timing:
        raise RequestError("--timing runs one trial at a time on this machine; leave --backend out")
    if options.backend == "local" and options.scheduler is not None:
        raise RequestError("--scheduler is for --backend dask")


def _here(trials: Iterable[Trial], pool: Pool, options: Options, stop: Stop) -> Iterator[Outcome]:
    """The joblib call: outcomes as they come, tasks drawn no further ahead than there are threads."""
    import joblib

    queue = TrialQueue(trials, pool.registry, pool.sizes, batching=not options.timing)
    parallel = joblib.Parallel(
        n_jobs=1 if options.timing else sum(pool.sizes.values()), backend="threading",
        return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs",
    )  # fmt: skip
    # Which group a task runs is decided when a slot is free for it.
    wanted = itertools.takewhile(lambda _: not (stop.asked or pool.has_nothing_for(queue)), itertools.repeat(None))
    outcomes = parallel((pool.serve, (queue,), {}) for _ in wanted)
    try:
        yield from outcomes
    finally:
        pool.close()
        with warnings.catch_warnings():  # what joblib has not returned is abandoned on purpose
            warnings.simplefilter("ignore")
            outcomes.close()


def _kept(outcomes: Iterator[Outcome], options: Options) -> Records:
    """The records of outcomes; before each, the fields that are to be kept are written."""
    with contextlib.closing(outcomes):  # type: ignore[type-var]
        for outcome in outcomes:
            for record in outcome.records:
                if options.save_fields is not None and record.trial.key in outcome.kept:
                    folder = Path(options.save_fields)
                    try:
                        reconstructions.save(folder / FIELDS, record.trial.key, outcome.kept[record.trial.key])
                    except OSError as error:
                        reason = error.strerror or error
                        raise StorageError(f"{folder}: the fields of a trial cannot be kept: {reason}") from None
                yield record
