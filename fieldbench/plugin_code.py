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
        before.callback(setattr, sys, "stdout", sys.stdout)
        before.callback(setattr, sys, "stderr", sys.stderr)
        yield


@contextlib.contextmanager
def process_kept() -> Iterator[None]:
    """Import plugins: environment, signals, alarms, limits, depth of calls and standard streams stay what they were."""
    if sys.platform == "win32":  # which has no such things, and computes nothing
        yield
        return
    import resource

    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
    environment = dict(os.environ)
    depth, limits = sys.getrecursionlimit(), {kind: resource.getrlimit(kind) for kind in kinds}
    copies, handlers = {}, {}
    for number in range(3):
        with contextlib.suppress(OSError):  # it is closed
            copies[number] = os.dup(number)
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        alarm = signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        sys.setrecursionlimit(depth)
        for kind, limit in limits.items():
            with contextlib.suppress(ValueError, OSError):  # one that it has lowered for good
                if resource.getrlimit(kind) != limit:
                    resource.setrlimit(kind, limit)
        if handlers and signal.getitimer(signal.ITIMER_REAL) != alarm == (0.0, 0.0):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        for descriptor, copy in copies.items():
            os.dup2(copy, descriptor)
            os.close(copy)


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
