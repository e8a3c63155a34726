"""A slot together with its worker: runs groups of trials, and replaces the worker when it is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fieldbench.execution.options import Options
from fieldbench.execution.process import GivenUp, Lost, Worker
from fieldbench.execution.slots import Slot
from fieldbench.execution.turns import turn
from fieldbench.execution.worker import Answer
from fieldbench.records import OUT_OF_MEMORY, Record, Trial
from fieldbench.registry import Sources


@dataclass(frozen=True)
class Outcome:
    """What a group of trials came to.

    Attributes:
        records: one for each trial that was run; trials that the caller gave up have none.
        batch_size: how many such trials are worth computing at once, if that became known.
        refusal: why the process could not even try: the options do not fit its machine.
    """

    records: tuple[Record, ...]
    batch_size: int | None = None
    refusal: str = ""


class Seat:
    """Runs one group at a time. Its worker starts with the first and stays for the next."""

    def __init__(self, slot: Slot, sources: Sources, options: Options, given_up: Callable[[], bool]) -> None:
        self.slot = slot
        self._sources, self._options, self._given_up = sources, options, given_up
        self._worker: Worker | None = None
        self._shares = 1

    def allow(self, shares: int) -> None:
        """Let its trial use the CPU threads of so many slots, from now on; a worker yet to come hears of it too."""
        if shares != self._shares:
            self._shares = shares
            if (worker := self._worker) is not None:
                worker.allow(shares * self._options.threads)

    def run(self, trials: Sequence[Trial], busy: int) -> Outcome:
        """Run trials of one cell; whatever happens to the worker, each gets a record of its own.

        If a worker is lost over several trials, they are run again one by one: only the culprit pays.

        Args:
            trials: the group.
            busy: how many slots are at work now, for the records.
        """
        with turn(self.slot, self._given_up):
            try:
                return self._finished(self._ask(trials), busy)
            except GivenUp:
                return Outcome(())
            except Lost as lost:
                if len(trials) == 1:
                    diagnostics = {"output": lost.output} if lost.output else {}
                    record = Record(
                        trials[0], lost.status, lost.message, device=self.slot.device, diagnostics=diagnostics
                    )
                    return self._finished(Answer([record], None), busy)
        outcomes = [self.run([trial], busy) for trial in trials]
        return Outcome(tuple(record for outcome in outcomes for record in outcome.records), outcomes[0].batch_size)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _ask(self, trials: Sequence[Trial]) -> Answer:
        if self._given_up():
            raise GivenUp
        if self._worker is None:
            self._worker = Worker(self.slot, self._sources, self._options, self._given_up)
            self._worker.allow(self._shares * self._options.threads)
        try:
            answer = self._worker.run(trials)
        except (Lost, GivenUp):
            self._worker = None
            raise
        if any(record.status == OUT_OF_MEMORY for record in answer.records):
            self.close()  # what such a trial leaves behind in memory would trouble the next
        return answer

    def _finished(self, answer: Answer, busy: int) -> Outcome:
        records = []
        for record in answer.records:
            place = self.slot.name if record.device == self.slot.device else record.device
            diagnostics = {**record.diagnostics, "busy_slots": busy}
            records.append(dataclasses.replace(record, device=place, diagnostics=diagnostics))
        return Outcome(tuple(records), answer.batch_size)
