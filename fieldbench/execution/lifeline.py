"""A worker dies when its parent does, however the parent dies and whatever the worker is doing."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading

#: Linux's F_SETSIG (fcntl(2)); Python's fcntl module does not name it.
_F_SETSIG = 10


def hold_on_to(lifeline: int) -> None:
    """End this process's whole group as soon as the other end of a pipe is closed.

    On Linux the kernel itself is asked to send SIGKILL then, so that it also reaches a worker whose
    interpreter is stuck in compiled code. Elsewhere a thread waits for the end of the pipe.

    Args:
        lifeline: the reading end of a pipe; nothing is ever written to it. The process must lead a group
            of its own.
    """
    threading.Thread(target=_wait, args=(lifeline,), name="lifeline", daemon=True).start()
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _wait(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)
