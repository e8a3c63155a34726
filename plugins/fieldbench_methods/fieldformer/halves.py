"""Two halves of a piece of work, one after the other or at once on two threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TypeAlias

HalfTask: TypeAlias = Callable[[], object]

Both: TypeAlias = Callable[[HalfTask, HalfTask], None]
"""Does two tasks that do not need each other, and returns when both are done."""


def in_turn(first: HalfTask, second: HalfTask) -> None:
    """Both on the calling thread."""
    first()
    second()


@contextlib.contextmanager
def threads_for_halves(allowed: Callable[[], int]) -> Iterator[Both]:
    """What does two tasks at once whenever two threads are allowed.

    The tasks gain by it as far as they leave the interpreter alone, as compiled loops and matrix products do.
    """
    tasks: SimpleQueue[HalfTask | None] = SimpleQueue()
    ends: SimpleQueue[BaseException | None] = SimpleQueue()
    helper = threading.Thread(target=_serve, args=(tasks, ends), name="second half", daemon=True)

    def both(first: HalfTask, second: HalfTask) -> None:
        if allowed() < 2:
            in_turn(first, second)
            return
        if helper.ident is None:
            helper.start()
        tasks.put(second)
        try:
            first()
        finally:
            error = ends.get()  # the second half may not outlive the buffers that it writes to
        if error is not None:
            raise error

    try:
        yield both
    finally:
        if helper.ident is not None:
            tasks.put(None)
            helper.join()


def _serve(tasks: SimpleQueue[HalfTask | None], ends: SimpleQueue[BaseException | None]) -> None:
    while (task := tasks.get()) is not None:
        try:
            task()
        except BaseException as error:
            ends.put(error)
        else:
            ends.put(None)
