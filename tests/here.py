"""Trials judged in the test's own process: the same judge and the same desk, with nothing between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fieldbench import reconstructions
from fieldbench.execution import Options, Pool, slots
from fieldbench.execution.frames import Frame
from fieldbench.execution.preflight import examine
from fieldbench.execution.worker import Desk
from fieldbench.judging import Answer, Apart, Judged, Task, judge
from fieldbench.method import Method
from fieldbench.plan import Plan
from fieldbench.records import OK, Record, Trial
from fieldbench.registry import Registry
from fieldbench.selection import Recorder
from fieldbench.store.files import FIELDS


def run(
    trials: Sequence[Trial], registry: Registry, device: str = "cpu", keep: Callable[[Judged], None] | None = None
) -> list[Record]:
    """The records of trials of one cell; a batch that fails is run one by one."""
    complete = completing(registry.method(trials[0].cell.method), device)
    try:
        judged = judge(trials, registry, complete)
    except Apart:
        return [record for trial in trials for record in run([trial], registry, device, keep)]
    if keep is not None:
        for item in judged:
            if item.record.status == OK:
                keep(item)
    return [item.record for item in judged]


def completing(method: Method, device: str = "cpu") -> Callable[[Sequence[Task], Sequence[Recorder]], Answer]:
    """A method that is asked here."""

    def complete(tasks: Sequence[Task], recorders: Sequence[Recorder]) -> Answer:
        def tell(said: Frame) -> None:
            if "report" in said:
                recorders[said["report"]](said["step"], said["estimate"], said["numbers"])

        said = Desk(method, device=device, tell=tell).reply({"ask": "complete", "tasks": tasks, "id": 0})
        estimates = said.get("estimates", ())
        return Answer(said["status"], said.get("error", ""), estimates, 0.0, said.get("diagnostics", {}))

    return complete


def examined(plan: Plan, registry: Registry) -> dict[str, str]:
    """What the look at the data before a run says."""
    options = Options(device="cpu", jobs=1)
    with Pool(slots(options), registry, options) as pool:
        return examine(plan, pool)


def keeping(folder: Path) -> Callable[[Judged], None]:
    """Keeps every trial's fields in a run's folder."""

    def keep(item: Judged) -> None:
        assert item.draw is not None
        kept = reconstructions.Reconstruction(item.draw.field, item.draw.observation, item.estimate)
        reconstructions.save(folder / FIELDS, item.record.trial.key, kept)

    return keep
