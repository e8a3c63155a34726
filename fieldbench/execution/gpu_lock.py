"""Runs of one user on one machine take turns on a GPU's slots instead of crowding them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fieldbench.execution.machine import Slot

_LOG = logging.getLogger("fieldbench")
_LOOK = 0.05


@contextlib.contextmanager
def gpu_lock(slot: Slot, given_up: Callable[[], bool]) -> Iterator[None]:
    """Hold a GPU's slot against other processes, waiting for them to finish a trial. CPU slots are free to all."""
    if not slot.token:
        yield
        return
    with _lock_file(slot.token).open("a") as lock:
        waiting = False
        while not given_up():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    _LOG.warning("%s is in use by another run of fieldbench; they take turns", slot.name)
                waiting = True
                time.sleep(_LOOK)
        yield


def _lock_file(token: str) -> Path:
    folder = Path(tempfile.gettempdir()) / f"fieldbench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{hashlib.sha256(token.encode()).hexdigest()[:16]}.lock"
