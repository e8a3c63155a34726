"""Checks of tuners, each on a trial of a method whose error is known at every point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fieldbench.conformance import examples
from fieldbench.conformance.check import fail
from fieldbench.conformance.general import NamedCheck
from fieldbench.dataset import Dataset
from fieldbench.estimate import Estimate
from fieldbench.field import Field, FloatArray
from fieldbench.judging import Answer, Task, judge
from fieldbench.method import OfFits, Tuner
from fieldbench.metric import RMSE, Metric
from fieldbench.noise import Noise
from fieldbench.records import OK, Cell, Trial
from fieldbench.sampler import RandomEntries, Sampler
from fieldbench.search import Choice, Log, Range, Space
from fieldbench.selection import Final, Recorder, Selection

_SHAPE = (12, 15)

_SPACE = Space(
    {"share": Range(0.0, 1.0), "rate": Log(1e-3, 1.0), "size": Range(2, 9), "kind": Choice(("a", "b", None))},
    {"share": 0.5, "rate": 0.1, "size": 4, "kind": "a"},
)


def of_tuner(tuner: Tuner) -> Iterator[NamedCheck]:
    """The checks of a modifier that chooses parameters."""
    yield "tries-points", partial(_tries_points, tuner)
    yield "deterministic", partial(_deterministic, tuner)
    yield "learns-errors-alone", partial(_learns_errors_alone, tuner)


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


@dataclass(frozen=True)
class _World:
    """All that a trial needs beside its method; another number is another field, observed at the same entries."""

    tuner: Tuner
    number: int

    def dataset(self, text: str) -> Dataset:
        return _Given(number=self.number)

    def sampler(self, text: str) -> Sampler:
        return RandomEntries()

    def noise(self, text: str) -> Noise:
        return _Exact()

    def selection(self, text: str) -> Selection:
        return Final()

    def metric(self, text: str) -> Metric:
        return RMSE()

    def metrics(self) -> list[Metric]:
        return [RMSE()]

    def refits(self, text: str) -> list[OfFits]:
        return [self.tuner]

    def space(self, text: str) -> Space:
        return _SPACE

    def tried(self) -> list[dict[str, object]]:
        """The points that a trial tries, each with its error."""
        done = f"tuning a method of four parameters by +{self.tuner.name}"
        trial = Trial(Cell("method", "given", "random", "exact", "final", 0.4), 0, 0, "")
        (judged,) = judge([trial], self, self._complete)
        if judged.record.status != OK:
            fail(done, judged.record.error, "tries points of the space that it is given")
        points = judged.record.diagnostics["tuning"]["points"]
        return [{"values": point["values"], "error": point["error"]} for point in points]

    def _complete(self, tasks: Sequence[Task], recorders: Sequence[Recorder]) -> Answer:
        """Off by the same at every entry, by how much the point says: whole 64ths, so that no digit is rounded."""
        (task,) = tasks
        point = {**_SPACE.start, **task.values}
        far = abs(float(point["share"]) - 0.3) + abs(np.log10(float(point["rate"])) + 2) + abs(int(point["size"]) - 7)  # type: ignore[arg-type]
        error = round(64 * (far + (point["kind"] != "b"))) / 64
        return Answer(OK, "", [Estimate(_values(self.number) + error)], seconds=1.0)


def _tries_points(tuner: Tuner) -> None:
    count = len(_World(tuner, 1).tried())
    if count < 2:
        fail(
            f"counting the points that +{tuner.name} tried of a space of four parameters",
            "there is none but the method's own",
            "tries some",
        )


def _deterministic(tuner: Tuner) -> None:
    done = f"having +{tuner.name} tune the same trial twice"
    _tried_alike(tuner, 1, done, "it tried other points", "takes all randomness from the seed")


def _learns_errors_alone(tuner: Tuner) -> None:
    done = f"having +{tuner.name} tune on two fields on which every point has the same error"
    found = (
        "it tried other points on one than on the other, so that it knows the field itself, withheld entries or "
        "what is not observed"
    )
    _tried_alike(tuner, 2, done, found, "learns of each point its error alone")


def _tried_alike(tuner: Tuner, number: int, done: str, found: str, right: str) -> None:
    if _World(tuner, 1).tried() != _World(tuner, number).tried():
        fail(done, found, right)
