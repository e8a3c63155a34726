"""From trials to records: one joblib call on this machine, a Dask cluster beyond it."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

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

Job = Callable[[], Outcome]


def execute(
    trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop, pool: Pool | None = None
) -> Records:
    """Run trials and yield their records in the order in which they end.

    Trials are read as slots come free, so any number of them will do. Whatever becomes of a trial - it
    raises, crashes its process, takes too long or too much memory - it yields a record; only trials that
    were given up on a repeated wish to stop yield none.

    Args:
        trials: what to run.
        sources: where the plugins are.
        options: where and within which limits to run.
        stop: by which the caller asks for an early end.
        pool: the processes of this machine, if some were made before; they are ended with the run.

    Raises:
        RequestError: for a device, backend or scheduler that is not there, or a class that cannot be sent to
            other processes, before anything is run.
        StorageError: if the fields of a trial cannot be kept; the trial yields no record.
    """
    check_backend(options)
    _check_classes(sources)
    if options.backend == "dask":
        from fieldbench.execution.distributed import execute_on_cluster

        return _kept(execute_on_cluster(trials, sources, options, stop), options)
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


def _check_classes(sources: Sources) -> None:
    """
    Raises:
        RequestError: if a class of the running program holds on to something that no other process can have.
    """
    for cls in sources.classes:
        try:
            packed((cls,))
        except Exception as error:
            raise RequestError(
                f"{cls.__name__} cannot be sent to the processes that compute: {one_line(error)}"
            ) from None


def _here(trials: Iterable[Trial], pool: Pool, options: Options, stop: Stop) -> Iterator[Outcome]:
    queue = TrialQueue(trials, pool.registry, pool.sizes, batching=not options.timing)
    threads = 1 if options.timing else sum(pool.sizes.values())
    # Which group a task runs is decided when a slot is free for it.
    tasks = _while(lambda: not (stop.asked or pool.has_nothing_for(queue)), lambda: pool.serve(queue))
    outcomes = _parallel(tasks, threads)
    try:
        yield from outcomes
    finally:
        pool.close()
        _close(outcomes)


def _parallel(tasks: Iterable[Job], threads: int) -> Iterator[Outcome]:
    """The joblib call: outcomes as they come, tasks drawn no further ahead than there are threads."""
    import joblib

    call = joblib.Parallel(
        n_jobs=threads, backend="threading", return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs"
    )
    return call((task, (), {}) for task in tasks)  # type: ignore[no-any-return]


def _close(outcomes: Iterator[Outcome]) -> None:
    """Abandon what joblib has not returned yet; that it was on purpose need not be warned about."""
    with warnings.catch_warnings(), contextlib.suppress(AttributeError):
        warnings.simplefilter("ignore")
        outcomes.close()  # type: ignore[attr-defined]


def _kept(outcomes: Iterator[Outcome], options: Options) -> Records:
    """The records of outcomes; before each, the fields that are to be kept are written."""
    with contextlib.closing(outcomes):  # type: ignore[type-var]
        for outcome in outcomes:
            kept = dict(outcome.kept)
            for record in outcome.records:
                if options.save_fields is not None and record.trial.key in kept:
                    _keep(Path(options.save_fields), record.trial.key, kept[record.trial.key])
                yield record


def _keep(folder: Path, key: str, reconstruction: Any) -> None:
    try:
        reconstructions.save(folder / FIELDS, key, reconstruction)
    except OSError as error:
        raise StorageError(f"{folder}: the fields of a trial cannot be kept: {error.strerror or error}") from None


def _while(condition: Callable[[], bool], task: Job) -> Iterator[Job]:
    while condition():
        yield task
