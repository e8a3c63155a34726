"""The slots of this machine for one run: who is free, who gets the next group, and what is asked before."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache

from fieldbench.dataset import Dataset
from fieldbench.errors import FingerprintError, RequestError, in_one_line, one_line
from fieldbench.execution.lending import ThreadLoans
from fieldbench.execution.machine import Lane, Slot
from fieldbench.execution.options import Options, Stop
from fieldbench.execution.processes import LOOK, Lost
from fieldbench.execution.slot import Outcome, WorkerSlot
from fieldbench.execution.trial_queue import TrialQueue, lane_of
from fieldbench.identity import cell_identity
from fieldbench.method import Method
from fieldbench.plan import Setting
from fieldbench.plugin import Plugin
from fieldbench.records import FAILED, Cell, Trial
from fieldbench.registry import Registry, plain_text

#: Seconds for a small question (``applicable``, ``check_shape``, ``batch_size``, ``fingerprint``, a metric's score)
#: where no time limit is given.
QUESTION = 60.0

#: Seconds in which a process has to load its plugin, if the time limit is not longer; and those without a limit.
LOADING, PATIENT_LOADING = 60.0, 600.0


class Pool(contextlib.AbstractContextManager["Pool"]):
    """The slots of this machine for one run, planned here or ``elsewhere``. At its end no process is left."""

    def __init__(self, slots: Sequence[Slot], registry: Registry, options: Options, *, elsewhere: bool = False) -> None:
        self.registry, self.options, self.stop, self._elsewhere = registry, options, Stop(), elsewhere
        #: What ``sys.argv`` is in the processes: a script's own, but not those of fieldbench's command.
        self.arguments = list(sys.argv) if registry.sources.classes else [""]
        #: Metrics that come with fieldbench share the judges; each other one has a process of its own.
        self.metrics_together = [item for item in registry.metrics() if registry.is_own("metric", item.name)]
        self.metrics_apart = [item for item in registry.metrics() if item not in self.metrics_together]
        self.is_foreign = cache(self._is_foreign)
        #: The name of the metric of a dataset.
        self.headline: Callable[[str], str] = cache(lambda dataset: registry.dataset(dataset).metric)
        #: Seconds for a small question, and those in which a process has to load its plugin.
        self.question, self.loading = QUESTION, PATIENT_LOADING
        if options.timeout is not None:
            self.question, self.loading = options.timeout, max(LOADING, options.timeout)
        self.closed = False
        self._changed = threading.Condition()
        self.workers = [WorkerSlot(slot, self, self.given_up) for slot in slots]
        # Taken from the end, so that GPUs go in their order and processes that are warm are used before new ones.
        self._free: dict[Lane, list[WorkerSlot]] = {"gpu": [], "cpu": []}
        for worker in reversed(self.workers):
            self._free[worker.slot.lane].append(worker)
        #: How many slots each lane has.
        self.sizes = {lane: len(workers) for lane, workers in self._free.items()}
        self._lane = cache(lambda method: lane_of(method, registry, self.sizes))
        self._busy = 0
        self.loans = ThreadLoans(self.sizes["cpu"], options.threads)
        #: Where everything is asked that is not a trial; it never runs one, and only who has the lock may ask.
        environment = next(item.environment for item in reversed(slots))
        self.questions = WorkerSlot(Slot("cpu", "cpu", environment), self, lambda: self.closed or self.stop.asked)
        self.asking = threading.RLock()
        self._fingerprints: dict[str, str | FingerprintError] = {}
        self._hopeless: dict[tuple[str, str | Setting], tuple[str, str]] = {}
        self._compared = cache(self._other_plugins)

    def __exit__(self, *_: object) -> None:
        self.close()

    def given_up(self) -> bool:
        """Whether nobody waits for an answer any more."""
        return self.closed or self.stop.now

    def _is_foreign(self, kind: str, text: str) -> bool:
        """Whether a plugin does not come with fieldbench."""
        if kind in ("selection", "space"):
            return False
        name = getattr(self.registry, kind)(text).name
        return not self.registry.is_own("method" if kind == "modifier" else kind, name)

    # Questions before and beside trials.

    def fingerprint(self, plugin: Plugin) -> str:
        """The fingerprint of a plugin, asked of its own process or a judge, once; or a ``FingerprintError``."""
        base = Method if isinstance(plugin, Method) else Dataset
        if not isinstance(plugin, base) or type(plugin).fingerprint is base.fingerprint:
            return ""
        key = f"{base.__name__.lower()} {plain_text(plugin)}"
        with self.asking:
            if key not in self._fingerprints:
                self._fingerprints[key] = self._asked_fingerprint(plugin)
            found = self._fingerprints[key]
        if isinstance(found, FingerprintError):
            raise FingerprintError(*found.args)
        return found

    def _asked_fingerprint(self, plugin: Method | Dataset) -> str | FingerprintError:
        text = plain_text(plugin)
        doing = f"fingerprint of {text}"
        question = {"ask": "fingerprint", "dataset": text}
        try:
            if isinstance(plugin, Method):
                said = self.questions.ask_method(text, question, doing)
            else:
                said = self.questions.ask_judge(question, doing, self.question, ("dataset", text), fingerprint=str)
        except (Lost, RequestError) as error:
            return FingerprintError(str(error))
        found = said.get("fingerprint")
        return found if isinstance(found, str) else FingerprintError(f"{doing}: {in_one_line(str(said.get('error')))}")

    def doom(self, kind: str, what: str | Setting, lost: Lost) -> None:
        """No trial is worth trying: its processes end before one begins.

        Args:
            kind: ``method``, ``dataset`` or ``setting``.
            what: its spec, or the setting.
            lost: how its process ended.
        """
        self._hopeless[kind, what] = lost.status, lost.message

    def hopeless(self, trial: Trial) -> tuple[str, str] | None:
        """Status and reason, where a trial need not be tried."""
        cell = trial.cell
        for key in (("method", cell.method), ("dataset", cell.dataset), ("setting", Setting.of(cell))):
            if key in self._hopeless:
                return self._hopeless[key]
        return self._compared(cell, trial.identity)

    def _other_plugins(self, cell: Cell, identity: str) -> tuple[str, str] | None:
        """Why something else would be computed than the trial's key says, or nothing."""
        try:
            for plugin in (self.registry.method(cell.method), self.registry.dataset(cell.dataset)):
                self.fingerprint(plugin)
            here = cell_identity(self.registry, cell, self.fingerprint)
        except FingerprintError as error:
            return FAILED, str(error)
        except Exception as error:  # a plugin that has gone, or is half written
            return FAILED, one_line(error)
        # A class of the running program has no version that two machines could compare.
        if here != identity and not (self._elsewhere and self.registry.sources.classes):
            host = os.uname().nodename
            return FAILED, f"plugins or data on {host} differ from those the run was planned with; start the run again"
        return None

    # Trials.

    def has_nothing_for(self, queue: TrialQueue) -> bool:
        """Whether every trial of a queue that is served here has been handed out."""
        with self._changed:
            return queue.empty

    def serve(self, queue: TrialQueue) -> Outcome:
        """Run the next group that suits a free slot; nothing if there is none left or a stop was asked for."""
        return self._work(queue.take, queue)

    def run(self, trials: Sequence[Trial]) -> Outcome:
        """Run trials of one cell together, as soon as a slot for them is free."""
        return self._work(lambda lanes: trials if self._lane(trials[0].cell.method) in lanes else ())

    def _work(self, take: Callable[[list[Lane]], Sequence[Trial]], queue: TrialQueue | None = None) -> Outcome:
        with self._changed:
            while True:
                if self.stop.asked or self.closed or (queue is not None and queue.empty):
                    return Outcome(())
                if trials := take([lane for lane, workers in self._free.items() if workers]):
                    break
                self._changed.wait(LOOK)
            free = self._free[self._lane(trials[0].cell.method)]
            worker = free.pop()
            self._busy += 1
            busy = self._busy
            if queue is not None:
                self.loans.while_waiting(queue.waits("cpu"))
        try:
            outcome = worker.run(trials, busy)
        finally:
            with self._changed:
                self._busy -= 1
                if self.closed:
                    worker.close()
                free.append(worker)
                self._changed.notify_all()
        if queue is not None and outcome.batch_size is not None:
            with self._changed:
                queue.learn(trials[0], outcome.batch_size)
        return outcome

    def close(self) -> None:
        """End all processes; who still waits for one gets nothing."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            for workers in self._free.values():
                for worker in workers:
                    worker.close()
            self.questions.close()
