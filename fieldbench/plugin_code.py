"""Code of plugins where a request is read: an error, an exit or an interrupt in it is a fault of its plugin alone."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator


class CtrlC(KeyboardInterrupt):
    """A Ctrl-C that came as a signal, and not a KeyboardInterrupt that a plugin raises."""


@contextlib.contextmanager
def plugin_code() -> Iterator[None]:
    """Run a plugin's code: what it raises passes, and the working folder, streams and Ctrl-C stay what they were.

    What it puts into ``sys.path`` stands behind what was there, where it hides nobody's modules.

    Raises:
        CtrlC: if the user interrupts it; any other KeyboardInterrupt is the plugin's own.
    """
    with contextlib.ExitStack() as before:
        with contextlib.suppress(OSError):  # the folder is gone
            before.callback(os.chdir, os.getcwd())
        before.callback(_put_behind, list(sys.path))
        before.enter_context(_ctrl_c_told_apart())
        before.enter_context(_streams_kept())
        yield


def _put_behind(path: list[str]) -> None:
    sys.path[:] = [*path, *(entry for entry in sys.path if type(entry) is str and entry not in path)]


@contextlib.contextmanager
def faults(tell: Callable[[BaseException], Exception | None]) -> Iterator[None]:
    """Run a plugin's code as :func:`plugin_code` does; a plugin may raise anything anywhere, and even call sys.exit.

    Args:
        tell: is told of what it raises, and says what is raised in its place, or None to go on behind the block.

    Raises:
        CtrlC: if the user interrupts it.
    """
    try:
        with plugin_code():
            yield
    except CtrlC:
        raise
    except BaseException as error:
        instead = tell(error)
        if instead is error:
            raise
        if instead is not None:
            raise instead from error


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
