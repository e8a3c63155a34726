"""What happens in a process that a joblib backend calls: it leases one of its own slots to the work sent."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import cloudpickle

from fieldbench.errors import RequestError
from fieldbench.execution.feed import Group
from fieldbench.execution.options import Options
from fieldbench.execution.pool import Pool
from fieldbench.execution.seat import Outcome
from fieldbench.execution.slots import slots
from fieldbench.execution.stop import Stop
from fieldbench.registry import Sources

#: Seconds after which workers without work are ended, should nobody have said that the run is over.
PATIENCE = 300.0


@dataclass(frozen=True)
class Order:
    """A group of trials as it is sent out.

    Attributes:
        run: tells runs apart: what a process keeps warm belongs to one of them.
        group: what to run.
        sources: where its plugins are.
        options: where and within which limits to run it.
    """

    run: str
    group: Group
    sources: Sources
    options: Options


class Parcel:
    """A pickled order. Backends see one small object, and have nothing in it to take apart or to share out."""

    def __init__(self, order: Order) -> None:
        self.content = cloudpickle.dumps(order)

    def open(self) -> Order:
        """The order; classes that came with it are defined here now."""
        order = pickle.loads(self.content)
        assert isinstance(order, Order)
        return order


def fulfil(parcel: Parcel) -> Outcome:
    """Run what a parcel asks for in a slot of this process."""
    order = parcel.open()
    try:
        with _branch(order) as pool:
            return pool.run(order.group)
    except RequestError as error:
        return Outcome((), refusal=str(error))


def halt(run: str) -> None:
    """Ask this process to stop working for a run; the second time, at once."""
    with _LOCK:
        if run in _BRANCHES:
            _BRANCHES[run].stop.request()


def dismiss(run: str) -> None:
    """Tell this process that a run is over: its workers end."""
    with _LOCK:
        branch = _BRANCHES.pop(run, None)
    if branch is not None:
        branch.pool.close()


class _Branch:
    """The slots that this process has for one run."""

    def __init__(self, order: Order) -> None:
        self.stop = Stop()
        self.pool = Pool(slots(order.options), order.sources, order.options, self.stop)
        self.visitors = 0
        self.left = time.monotonic()


_LOCK = threading.Lock()
_BRANCHES: dict[str, _Branch] = {}


@contextmanager
def _branch(order: Order) -> Iterator[Pool]:
    with _LOCK:
        if order.run not in _BRANCHES:
            _BRANCHES[order.run] = _Branch(order)
            threading.Thread(target=_close_when_forgotten, args=(order.run,), daemon=True).start()
        branch = _BRANCHES[order.run]
        branch.visitors += 1
    try:
        yield branch.pool
    finally:
        with _LOCK:
            branch.visitors -= 1
            branch.left = time.monotonic()


def _close_when_forgotten(run: str) -> None:
    while True:
        time.sleep(PATIENCE / 10)
        with _LOCK:
            branch = _BRANCHES.get(run)
            if branch is None:
                return
            forgotten = not branch.visitors and time.monotonic() - branch.left > PATIENCE
            if forgotten:
                del _BRANCHES[run]
        if forgotten:
            branch.pool.close()
            return
