"""Threads of idle CPU slots, lent to the trials that still run once none waits for a slot.

A method looks up how many it may use, at any moment of its fit, and who does not look keeps to its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from fieldbench.execution.shared_text import SharedText


class ThreadLoans:
    """How many threads each fit of a run may use. Any thread may call it."""

    def __init__(self, slots: int, threads: int) -> None:
        """
        Args:
            slots: CPU slots of this machine.
            threads: those that each slot has of its own.
        """
        self._slots, self._threads, self._waits = slots, threads, True
        self._lock = threading.Lock()
        #: Slots' threads that each fit was told of, by the note in which its process looks them up.
        self._told: dict[SharedText, int] = {}

    @contextlib.contextmanager
    def to(self, note: SharedText) -> Iterator[None]:
        """Count a fit in, for as long as it lasts."""
        with self._lock:
            self._told[note] = 0
            self._deal()
        try:
            yield
        finally:
            with self._lock:
                del self._told[note]
                self._deal()

    def while_waiting(self, waits: bool) -> None:
        """Lend nothing as long as trials wait, since an idle slot is about to be taken."""
        with self._lock:
            self._waits = waits
            self._deal()

    def _deal(self) -> None:
        each, over = (1, 0) if self._waits or not self._told else divmod(self._slots, len(self._told))
        for number, (note, told) in enumerate(self._told.items()):
            share = each + (number < over)
            if share != told:
                note.write(str(share * self._threads))
                self._told[note] = share
