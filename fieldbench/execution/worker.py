"""The process that computes trials: told what to do over a socket, warm between trials, fit to be killed.

It leads a process group of its own, so that a Ctrl-C at the terminal does not reach it and a kill reaches
whatever it has started. What plugins print goes to a pipe of its own and cannot disturb the messages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import os
import pickle
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fieldbench.errors import one_line
from fieldbench.execution.allowance import Allowance
from fieldbench.execution.lifeline import hold_on_to
from fieldbench.execution.memory import peak_memory, reset_peak
from fieldbench.identity import identified
from fieldbench.records import FAILED, Record, Trial
from fieldbench.registry import Registry, Sources
from fieldbench.trial import Keep, run


@dataclass(frozen=True)
class Setup:
    """What a worker is made of: where plugins are, its device, and what :class:`Options` asks of it."""

    sources: Sources
    device: str
    timing: bool = False
    save_fields: str | None = None


@dataclass(frozen=True)
class Answer:
    """Records of a group, in its order, and how many such trials are worth computing at once."""

    records: list[Record]
    batch_size: int | None


def main(socket: int, lifeline: int, allowance: int) -> None:
    """Serve until the socket is closed. Arguments are file descriptors."""
    link = Connection(socket)
    hold_on_to(lifeline)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    with contextlib.suppress(OSError):  # if memory runs out, the kernel shall take this process
        Path("/proc/self/oom_score_adj").write_text("1000")
    desk = Desk(pickle.loads(link.recv_bytes()), Allowance(allowance))
    link.send_bytes(b"ready")
    while True:
        try:
            trials = link.recv()
        except EOFError:
            os._exit(0)
        if desk.timing:
            desk.warm_up(trials[0])
            link.send_bytes(b"warm")
        link.send(desk.answer(trials))


class Desk:
    """Computes trials, one group after another."""

    def __init__(self, setup: Setup, allowance: Allowance) -> None:
        self._setup, self._allowance = setup, allowance
        self._registry = Registry(setup.sources)
        self._keep = self._keeper()
        self._known: set[str] = set()
        self._warm: set[str] = set()

    def answer(self, trials: Sequence[Trial]) -> Answer:
        """Run the trials of one cell together."""
        first = trials[0]
        reason = self._other_plugins(first)
        if reason:
            return Answer([Record(trial, FAILED, reason, device=self._setup.device) for trial in trials], None)
        reset_peak()
        records = run(trials, self._registry, self._setup.device, self._keep, self._allowance)
        peak = peak_memory()
        return Answer([dataclasses.replace(record, peak_memory=peak) for record in records], self._batch_size(records))

    def _keeper(self) -> Keep | None:
        if self._setup.save_fields is None:
            return None
        from fieldbench.fields import keeping

        return keeping(self._setup.save_fields)

    @property
    def timing(self) -> bool:
        """Whether times will be compared."""
        return self._setup.timing

    def warm_up(self, trial: Trial) -> None:
        """Run a trial of each kind once for nothing: imports and compilers must not count as the method's time."""
        kind = repr((trial.cell.method, trial.cell.dataset))
        if kind not in self._warm:
            run([trial], self._registry, self._setup.device)
            self._warm.add(kind)

    def _other_plugins(self, trial: Trial) -> str:
        """Why this process would compute something else than the trial's key says, or nothing."""
        # A class of the running program has no version that two processes could compare, nor has what has no identity.
        if trial.identity in self._known or self._setup.sources.classes or not trial.identity:
            return ""
        try:
            here = identified(self._registry, trial.cell)
        except Exception as error:  # a plugin that has gone, or is half written
            return one_line(error)
        if here != trial.identity:
            place = os.uname().nodename
            return (
                f"plugins or data on {place} differ from those the run was planned with; start the run again, and if a "
                "constant of the method has another value in each process, set revision in its class"
            )
        self._known.add(trial.identity)
        return ""

    def _batch_size(self, records: list[Record]) -> int | None:
        shape = records[0].diagnostics.get("shape")
        if shape is None:
            return None
        method = self._registry.method(records[0].trial.cell.method)
        try:
            return method.batch_size(tuple(shape), self._setup.device)
        except Exception:  # the trial is computed; the next ones go singly
            return None
