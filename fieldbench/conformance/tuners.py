"""Checks of tuners, each on a trial of a method whose error is known at every point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np

from fieldbench.conformance import examples
from fieldbench.conformance.check import fail
from fieldbench.conformance.general import NamedCheck, named
from fieldbench.dataset import Dataset
from fieldbench.estimate import Estimate
from fieldbench.field import Field, FloatArray
from fieldbench.judging import Answer, Shelf, Task, judge
from fieldbench.method import Tuner
from fieldbench.metric import RMSE
from fieldbench.noise import Noise
from fieldbench.records import OK, Cell, Trial
from fieldbench.sampler import RandomEntries
from fieldbench.search import Choice, Log, Range, Space
from fieldbench.selection import Final, Recorder

_SHAPE = (12, 15)

_SPACE = Space(
    {"share": Range(0.0, 1.0), "rate": Log(1e-3, 1.0), "size": Range(2, 9), "kind": Choice(("a", "b", None))},
    {"share": 0.5, "rate": 0.1, "size": 4, "kind": "a"},
)


def of_tuner(tuner: Tuner) -> Iterator[NamedCheck]:
    """The checks of a modifier that chooses parameters."""
    yield from named([_tries_points, _deterministic, _learns_errors_alone], tuner)


class _Given(Dataset):
    """A field of whole numbers."""

    name = "given"
    number: int

    def draw(self, rng: np.random.Generator) -> Field:
        return Field(_values(self.number), examples.axes_of(_SHAPE), "m/s", "example")


class _Exact(Noise):
    """No noise."""

    name = "exact"

    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> FloatArray:
        return np.zeros(shape)


def _values(number: int) -> FloatArray:
    return np.random.default_rng(number).integers(-99, 99, _SHAPE).astype(float)


def _tried(tuner: Tuner, number: int = 1) -> list[dict[str, object]]:
    """The points that a trial tries, each with its error; another number is another field with the same mask."""

    def complete(tasks: Sequence[Task], recorders: Sequence[Recorder]) -> Answer:
        """Off by the same at every entry, by how much the point says: whole 64ths, so that no digit is rounded."""
        (task,) = tasks
        point = {**_SPACE.start, **task.values}
        far = abs(float(point["share"]) - 0.3) + abs(np.log10(float(point["rate"])) + 2) + abs(int(point["size"]) - 7)  # type: ignore[arg-type]
        error = round(64 * (far + (point["kind"] != "b"))) / 64
        return Answer(OK, "", [Estimate(_values(number) + error)], seconds=1.0)

    shelf = SimpleNamespace(
        dataset=lambda _: _Given(number=number),
        sampler=lambda _: RandomEntries(),
        noise=lambda _: _Exact(),
        selection=lambda _: Final(),
        metric=lambda _: RMSE(),
        metrics=lambda: [RMSE()],
        refits=lambda _: [tuner],
        space=lambda _: _SPACE,
    )
    trial = Trial(Cell("method", "given", "random", "exact", "final", 0.4), 0, 0, "")
    (judged,) = judge([trial], cast(Shelf, shelf), complete)
    if judged.record.status != OK:
        done = f"tuning a method of four parameters by +{tuner.name}"
        fail(done, judged.record.error, "tries points of the space that it is given")
    points = judged.record.diagnostics["tuning"]["points"]
    return [{"values": point["values"], "error": point["error"]} for point in points]


def _tries_points(tuner: Tuner) -> None:
    if len(_tried(tuner)) < 2:
        done = f"counting the points that +{tuner.name} tried of a space of four parameters"
        fail(done, "there is none but the method's own", "tries some")


def _deterministic(tuner: Tuner) -> None:
    if _tried(tuner) != _tried(tuner):
        done = f"having +{tuner.name} tune the same trial twice"
        fail(done, "it tried other points", "takes all randomness from the seed")


def _learns_errors_alone(tuner: Tuner) -> None:
    if _tried(tuner) != _tried(tuner, number=2):
        fail(
            f"having +{tuner.name} tune on two fields on which every point has the same error",
            "it tried other points on one than on the other, so that it knows the field itself, withheld entries or "
            "what is not observed",
            "learns of each point its error alone",
        )
