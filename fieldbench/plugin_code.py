"""Code of plugins where a request is read: an error, an exit or an interrupt in it is a fault of its plugin alone."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator


class CtrlC(KeyboardInterrupt):
    """A Ctrl-C that came as a signal, and not a KeyboardInterrupt that a plugin raises."""


@contextlib.contextmanager
def plugin_code() -> Iterator[None]:
    """Run a plugin's code: what it raises passes, and the working folder, streams and Ctrl-C stay what they were.

    Raises:
        CtrlC: if the user interrupts it; any other KeyboardInterrupt is the plugin's own.
    """
    with contextlib.ExitStack() as before:
        with contextlib.suppress(OSError):  # the folder is gone
            before.callback(os.chdir, os.getcwd())
        before.enter_context(_ctrl_c_told_apart())
        before.enter_context(_streams_kept())
        yield


@contextlib.contextmanager
def _ctrl_c_told_apart() -> Iterator[None]:
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise CtrlC

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _streams_kept() -> Iterator[None]:
    out, err = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
