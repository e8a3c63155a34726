"""What is shown while a run works: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fieldbench.cli.terminal import plain_console
from fieldbench.progress import in_words
from fieldbench.records import FAILURES, percent
from fieldbench.report.numbers import rounded
from fieldbench.session import Listener, interruptible

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from fieldbench.execution import Stop
    from fieldbench.progress import Progress
    from fieldbench.records import Cell, Record
    from fieldbench.session import Session


def run_displayed(session: Session, *, fresh: bool = False, retry_failed: bool = False) -> Progress:
    """Run what is missing, shown on stderr as suits it; Ctrl-C asks for an end.

    Args:
        session: the run.
        fresh: do not go on with the trials that are there.
        retry_failed: run failed trials again.
    """
    from fieldbench.execution import Stop

    stop, console = Stop(), plain_console(stderr=True)
    watch = LiveDisplay(console, stop) if console.is_terminal else Lines()
    with interruptible(stop, watch):
        return session.run(fresh=fresh, retry_failed=retry_failed, watch=watch, stop=stop)


class _Display(Listener):
    """Says of failed trials the first of each kind, since a thousand alike say no more."""

    def __init__(self) -> None:
        self._failures: set[tuple[str, str, str]] = set()

    def failure(self, record: Record) -> str:
        """A line about the record, or an empty text."""
        cell, number = record.trial.cell, record.trial.number
        kind = (cell.method, record.status, record.error)
        if record.status not in FAILURES or kind in self._failures:
            return ""
        self._failures.add(kind)
        where = f"{cell.method} on {cell.dataset}, rate {cell.rate:g}, trial {number}"
        return f"{record.status}: {where}: {record.error}"


class LiveDisplay(_Display):
    """A bar of trials, the running mean of every method, and the time to go."""

    def __init__(self, console: Console, stop: Stop) -> None:
        super().__init__()
        self._console, self._stop = console, stop
        self._progress: Progress | None = None
        self._echo = contextlib.ExitStack()
        self._live: Live | None = None

    def start(self, progress: Progress) -> None:
        from rich.live import Live

        self._progress = progress
        self._echo.enter_context(_no_echo_of_keys())
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
        with contextlib.suppress(OSError):
            self._live.start()

    def update(self, progress: Progress, record: Record) -> None:
        from rich.text import Text

        if (line := self.failure(record)) and self._live is not None:
            with contextlib.suppress(OSError):
                self._live.console.print(Text(line, style="red"))

    def say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def close(self) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError):
                self._live.stop()
        self._echo.close()

    def _render(self) -> Group:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Column, Table
        from rich.text import Text

        progress = self._progress
        assert progress is not None
        head = Table.grid(padding=(0, 2))
        state = Text(f"{progress.done} of {progress.total} trials")
        if progress.failed:
            state.append(f"  {progress.failed} failed", style="red")
        if self._stop.asked:
            state.append("  finishing what is running; Ctrl-C again stops now", style="yellow")
        elif progress.left:
            state.append(f"  to go: {in_words(progress.seconds_left())}", style="dim")
        total = max(1, progress.total)
        bar = ProgressBar(total, progress.done, width=24, complete_style="cyan", finished_style="cyan")
        head.add_row(bar, state)
        numbers = (Column(name, justify="right", no_wrap=True) for name in ("mean", "trials"))
        means = Table.grid("method", "setting", "metric", *numbers, padding=(0, 2))
        room = max(1, self._console.size.height - 4)
        for cell, setting, mean, count in _means(progress, room):
            trials = Text(f"{count} trial{'' if count == 1 else 's'}", style="dim")
            metric = Text(progress.headline(cell.dataset), style="dim")
            means.add_row(Text(cell.method, style="cyan"), Text(setting), metric, mean, trials)
        more = len(progress.means()) - room
        below = [Text(f"  and {more} more means, which changed before these", style="dim")] if more > 0 else []
        return Group(head, Padding(means, (0, 0, 0, 2)), *below)


#: Running means that a plain line still shows; with more nobody would find one in it, and the table is near.
_FEW = 4


class Lines(_Display):
    """A plain line on stderr for every failure, and one about the state now and then: every few seconds at first."""

    def __init__(self, every: float = 5.0) -> None:
        super().__init__()
        self._every = every
        self._started = self._said = time.monotonic()

    def start(self, progress: Progress) -> None:
        self._state(progress)

    def update(self, progress: Progress, record: Record) -> None:
        if line := self.failure(record):
            _say(line)
        now = time.monotonic()
        if progress.left == 0 or now - self._said >= max(self._every, (now - self._started) / 50):
            self._state(progress)

    def say(self, text: str) -> None:
        _say(text)

    def stopping(self) -> None:
        _say("finishing what is running; Ctrl-C again stops now")

    def _state(self, progress: Progress) -> None:
        self._said = time.monotonic()
        means = [
            f"{cell.method} on {setting}: {progress.headline(cell.dataset)} {mean}"
            for cell, setting, mean, _ in _means(progress)
        ]
        _say("; ".join([progress.sentence(), *(means if len(means) <= _FEW else [])]))


@contextlib.contextmanager
def _no_echo_of_keys() -> Iterator[None]:
    """Keep the terminal from writing ``^C`` into the display, as long as it is ours."""
    import termios

    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):  # stdin is not a terminal: nothing is echoed
        yield
        return
    changed = list(before)
    changed[3] = before[3] & ~termios.ECHOCTL
    if _in_foreground(terminal):
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
    try:
        yield
    finally:
        if _in_foreground(terminal):
            termios.tcsetattr(terminal, termios.TCSANOW, before)


def _in_foreground(terminal: int) -> bool:
    """Whether the terminal is ours: it stops a background job that sets it, and the shell sets it for the next."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # of another session: no key there reaches us
        return False


def _means(progress: Progress, most: int | None = None) -> Iterator[tuple[Cell, str, str, int]]:
    """Running means: the cell, its setting as far as settings differ, the mean, and over how many trials."""
    varying = progress.varying()
    for cell, average in progress.means(most).items():
        levels = [percent(cell.rate) if name == "rate" else getattr(cell, name) for name in varying]
        yield cell, ", ".join([cell.dataset, *levels]), rounded(average.mean, average.uncertainty), average.count


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the terminal is gone; the run does not need it
        print(line, file=sys.stderr, flush=True)
