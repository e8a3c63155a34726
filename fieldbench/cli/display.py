"""What is shown while a run works: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING

from fieldbench.progress import in_words

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from fieldbench.execution import Stop
    from fieldbench.progress import Progress
    from fieldbench.session import Watch
    from fieldbench.trial import Record


def display(console: Console, stop: Stop) -> Watch:
    """The display that suits the console."""
    return LiveDisplay(console, stop) if console.is_terminal else Lines(stop)


class LiveDisplay:
    """A bar of trials, the running mean of every method, and the time to go."""

    def __init__(self, console: Console, stop: Stop) -> None:
        self._console, self._stop = console, stop
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._latest = ""

    def start(self, progress: Progress) -> None:
        from rich.live import Live

        self._progress = progress
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def update(self, progress: Progress, record: Record) -> None:
        from rich.text import Text

        if record.status not in ("ok", "not-applicable") and self._live is not None:
            trial = record.trial
            line = f"{record.status}: {trial.method} on {trial.dataset}, rate {trial.rate:g}, trial {trial.trial}"
            self._live.console.print(Text(f"{line}: {record.error}", style="red"))

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()

    def _render(self) -> Group:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
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
        head.add_row(ProgressBar(total=max(1, progress.total), completed=progress.done, width=24), state)
        means = Table.grid(padding=(0, 2))
        means.add_column()
        means.add_column()
        means.add_column(justify="right")
        means.add_column(style="dim", justify="right")
        for (method, dataset), average in progress.means().items():
            score = f"{progress.headline(dataset)} {short(average.mean)}"
            means.add_row(Text(method, style="cyan"), Text(dataset), score, f"{average.count} trials")
        return Group(head, Padding(means, (0, 0, 0, 2)))


class Lines:
    """A plain line on stderr for every failure, and one about the state every few seconds."""

    def __init__(self, stop: Stop, every: float = 5.0) -> None:
        self._stop, self._every, self._said = stop, every, -math.inf

    def start(self, progress: Progress) -> None:
        self._state(progress)

    def update(self, progress: Progress, record: Record) -> None:
        if record.status not in ("ok", "not-applicable"):
            trial = record.trial
            line = f"{record.status}: {trial.method} on {trial.dataset}, rate {trial.rate:g}, trial {trial.trial}"
            _say(f"{line}: {record.error}")
        if progress.left == 0 or time.monotonic() - self._said >= self._every:
            self._state(progress)

    def close(self) -> None:
        return None

    def _state(self, progress: Progress) -> None:
        self._said = time.monotonic()
        line = f"{progress.done} of {progress.total} trials"
        if progress.failed:
            line += f", {progress.failed} failed"
        if progress.left:
            line += f", to go: {in_words(progress.seconds_left())}"
        means = "; ".join(
            f"{method} on {dataset}: {progress.headline(dataset)} {short(average.mean)}"
            for (method, dataset), average in progress.means().items()
        )
        _say(f"{line}; {means}" if means else line)


def short(value: float) -> str:
    """A number to four figures."""
    return f"{value:.4g}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
