"""How a caller asks a running execution to end."""

from __future__ import annotations

import threading


class Stop:
    """A request to stop that grows more urgent when it is repeated (the first and the second Ctrl-C)."""

    def __init__(self) -> None:
        self._asked, self._now = threading.Event(), threading.Event()

    def request(self) -> None:
        """Ask: the first time to finish what is running, the second time to end at once."""
        (self._now if self._asked.is_set() else self._asked).set()

    def at_once(self) -> None:
        """Ask to end now; trials that are running are given up and leave no record."""
        self._asked.set()
        self._now.set()

    @property
    def asked(self) -> bool:
        """Whether no new trial should be started."""
        return self._asked.is_set()

    @property
    def now(self) -> bool:
        """Whether running trials should be given up."""
        return self._now.is_set()
