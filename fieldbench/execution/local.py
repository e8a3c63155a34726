"""Run trials one after another in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fieldbench.execution.options import Options
from fieldbench.execution.stop import Stop
from fieldbench.registry import Registry, Sources
from fieldbench.trial import Record, Trial, run


def execute(trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop) -> Iterator[Record]:
    """Run trials and yield their records as they end."""
    registry = Registry(sources)
    for trial in trials:
        if stop.asked:
            return
        yield from run([trial], registry)
