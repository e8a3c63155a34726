"""From trials to records: one joblib call, whatever the backend."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fieldbench.errors import RequestError, one_line
from fieldbench.execution.feed import Feed
from fieldbench.execution.options import Options
from fieldbench.execution.pool import Pool
from fieldbench.execution.seat import Outcome
from fieldbench.execution.slots import slots
from fieldbench.execution.stop import Stop
from fieldbench.records import Trial
from fieldbench.registry import Registry, Sources
from fieldbench.sources import packed
from fieldbench.trial import Records

Task = Callable[[], Outcome]


def execute(trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop) -> Records:
    """Run trials and yield their records in the order in which they end.

    Trials are read as slots come free, so any number of them will do. Whatever becomes of a trial - it
    raises, crashes its process, takes too long or too much memory - it yields a record; only trials that
    were given up on a repeated wish to stop yield none.

    Args:
        trials: what to run.
        sources: where workers find the plugins.
        options: where and within which limits to run.
        stop: by which the caller asks for an early end.

    Raises:
        RequestError: for a device, backend or scheduler that is not there, or a class that cannot be sent to
            workers, before anything is run.
    """
    _check_classes(sources)
    if options.backend == "local":
        return _here(trials, Pool(slots(options), sources, options, stop), sources, options, stop)
    from fieldbench.execution.elsewhere import execute_elsewhere

    return execute_elsewhere(trials, sources, options, stop)


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


def _here(trials: Iterable[Trial], pool: Pool, sources: Sources, options: Options, stop: Stop) -> Records:
    feed = Feed(trials, Registry(sources), pool.sizes, batching=not options.timing)
    threads = 1 if options.timing else sum(pool.sizes.values())
    # A task is a turn rather than a trial: which group it runs is decided when a slot is free for it.
    turns = _while(lambda: not (stop.asked or pool.has_nothing_for(feed)), lambda: pool.serve(feed))
    outcomes = parallel(turns, "threading", threads)
    try:
        for outcome in outcomes:
            yield from outcome.records
    finally:
        pool.close()
        close(outcomes)


def parallel(tasks: Iterable[Task], backend: Any, jobs: int) -> Iterator[Outcome]:
    """The joblib call: outcomes as they come, tasks drawn no further ahead than there are jobs.

    Raises:
        RequestError: if joblib has no such backend, or it cannot return results as they come.
    """
    return _caller(backend, jobs)((task, (), {}) for task in tasks)  # type: ignore[no-any-return]


def check_backend(options: Options) -> None:
    """Say at once, before anything is run, that joblib has no backend of this name.

    Raises:
        RequestError: if it has none, or one that cannot return results as they come.
    """
    if options.backend not in ("local", "dask"):  # dask is looked for when its scheduler is
        _caller(options.backend, 1)


def _caller(backend: Any, jobs: int) -> Any:
    import joblib

    try:
        return joblib.Parallel(
            n_jobs=jobs, backend=backend, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs"
        )
    except ValueError as error:
        reason = "it cannot return results as they come" if "return_as" in str(error) else str(error)
        raise RequestError(f"backend {backend!r}: {reason}") from None


def close(outcomes: Iterator[Outcome]) -> None:
    """Abandon what joblib has not returned yet; that it was on purpose need not be warned about."""
    with warnings.catch_warnings(), contextlib.suppress(AttributeError):
        warnings.simplefilter("ignore")
        outcomes.close()  # type: ignore[attr-defined]


def _while(condition: Callable[[], bool], task: Task) -> Iterator[Task]:
    while condition():
        yield task
