"""Running trials through any joblib backend: each process that joblib calls has slots of its own."""

from __future__ import annotations

import os
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fieldbench.errors import FieldbenchError, RequestError
from fieldbench.execution.feed import Feed, Group
from fieldbench.execution.options import Options
from fieldbench.execution.pool import Pool
from fieldbench.execution.scheduling import Task, close, parallel
from fieldbench.execution.seat import Outcome
from fieldbench.execution.slots import Lane, slots
from fieldbench.execution.stop import Stop
from fieldbench.registry import Registry, Sources
from fieldbench.trial import CRASHED, Record, Trial

#: How often a trial is sent out again after the process that had it was lost.
ATTEMPTS = 4


class Parcel:
    """Pickled trials and what is needed to run them: opaque to the backend, which has nothing to take apart."""

    def __init__(self, content: bytes) -> None:
        self.content = content


@dataclass(frozen=True)
class Order:
    """A group of trials as it is sent out.

    Attributes:
        run: tells runs apart: what a process keeps warm belongs to one of them.
    """

    run: str
    group: Group
    sources: Sources
    options: Options


@dataclass(frozen=True)
class Refusal:
    """Why a process could not even try: its options do not fit the machine."""

    reason: str


def execute_elsewhere(trials: Iterable[Trial], sources: Sources, options: Options, stop: Stop) -> Iterator[Record]:
    """What :func:`fieldbench.execution.execute` does, for any backend but the local one."""
    if options.timing:
        raise RequestError("--timing runs one trial at a time on this machine; leave --backend out")
    if options.backend == "dask":
        from fieldbench.execution.cluster import Cluster

        cluster = Cluster(options.scheduler)
        return _run(trials, sources, options, stop, cluster.backend, -1, cluster)
    if options.scheduler is not None:
        raise RequestError(f"--scheduler is for --backend dask, not for {options.backend!r}")
    return _run(trials, sources, options, stop, options.backend, options.jobs or -1, None)
