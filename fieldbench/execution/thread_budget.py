"""How many CPU threads a trial may use: the parent says so through a pipe, while the method is at work."""

from __future__ import annotations

import contextlib
import os
import threading

#: A message is one byte, so that it is written and read whole.
_MOST = 255


def shares(slots: int, busy: int, more_waits: bool) -> list[int]:
    """For each busy one of some slots, how many slots' threads it may use.

    Args:
        slots: worker slots of the machine.
        busy: how many of them run a trial.
        more_waits: whether trials wait for a slot; then each keeps to its own, as an idle one is about to be taken.
    """
    if more_waits or not busy:
        return [1] * busy
    each, over = divmod(slots, busy)
    return [each + (number < over) for number in range(busy)]


class Lender:
    """The parent's end."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        for end in (self.reading, self._writing):
            os.set_blocking(end, False)
        # Closed by one thread, while another may be about to write: the number may be another file's by then.
        self._lock = threading.Lock()

    def handed_over(self) -> None:
        """The other process has its end; this one needs it no more."""
        os.close(self.reading)

    def allow(self, threads: int) -> None:
        """Say a new number. A process that is gone, or has not looked for thousands of changes, misses it."""
        with self._lock, contextlib.suppress(OSError):
            if self._writing >= 0:
                os.write(self._writing, bytes([min(threads, _MOST)]))

    def close(self) -> None:
        with self._lock:
            if self._writing >= 0:
                os.close(self._writing)
                self._writing = -1


class ThreadBudget:
    """The other end: call it for the latest number."""

    def __init__(self, reading: int, threads: int) -> None:
        self._reading, self._threads = reading, threads

    def __call__(self) -> int:
        with contextlib.suppress(OSError):  # nothing new, or nobody to say it
            while news := os.read(self._reading, 4096):
                self._threads = news[-1]
        return self._threads
