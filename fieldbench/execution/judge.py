"""The program of a judge: it draws, hands observations to methods' processes, and scores what comes back.

It loads datasets, samplers, noises, metrics and modifiers that have a method fitted several times, and no method.
Before it calls one of them it writes down which, so that the parent can name it if nobody comes back from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldbench.errors import RequestError, in_one_line, one_line
from fieldbench.estimate import Estimate
from fieldbench.execution.forkserver import set_process_option
from fieldbench.execution.frames import Channel, Frame, encode
from fieldbench.execution.shared_text import DESCRIPTOR, SharedText
from fieldbench.execution.worker import as_fingerprint, opened
from fieldbench.field import Field, Observation
from fieldbench.judging import (
    Answer,
    Apart,
    Judged,
    Task,
    draw,
    draw_field,
    floor_scores,
    judge,
    stream,
)
from fieldbench.metric import Metric, applies, score_all
from fieldbench.reconstructions import Reconstruction
from fieldbench.records import Trial
from fieldbench.selection import Recorder
from fieldbench.spec import split

#: Writes down which plugin is about to be called, for the parent to read.
note = SharedText(DESCRIPTOR).write


def main(channel: Channel) -> None:
    """Serve the parent."""
    # PR_SET_DUMPABLE: below root, other processes of the same user cannot read this one's memory any more.
    set_process_option(4, 0)
    _Judge(channel).serve()


class Abandoned(BaseException):
    """The parent asks something else; the method's process is gone. A plugin should not catch this."""


class _Shelf:
    """The plugins that were sent here, by kind and spec: ``shelf.dataset("ssf")``, or by kind alone: ``metrics()``."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Any] = {}

    def __getattr__(self, kind: str) -> Any:
        return lambda text="": self.known[kind, text]

    def refits(self, text: str) -> list[Any]:
        found = [("modifier", part) for part in split(text, "+")[1:]]
        return [self.known[key] for key in found if key in self.known]


class _Judge:
    def __init__(self, channel: Channel) -> None:
        self._channel, self._shelf, self._number = channel, _Shelf(), 0
        #: What the parent asks in the midst of a trial. That is over then, whatever its plugins do.
        self._instead: Frame | None = None

    def serve(self) -> None:
        """Answer the parent's questions."""
        frame = self._next()
        while True:
            with contextlib.suppress(Abandoned):
                reply = self._reply(frame)
            if self._instead is None:
                self._say(reply)
                frame = self._next()
            else:
                frame, self._instead = self._instead, None

    def _next(self) -> Frame:
        frame = self._channel.receive()
        self._number = frame["id"]
        return frame

    def _say(self, said: Frame) -> None:
        note("")
        self._channel.send(encode({**said, "id": self._number}))

    def _reply(self, frame: Frame) -> Frame:
        try:
            found: Frame = getattr(self, "_" + frame["ask"])(frame)
        except Exception as error:
            # What it says to whoever made the request: its type only where it is not a complaint about a value.
            said = in_one_line(str(error)) if isinstance(error, ValueError) else ""
            return {"error": said or one_line(error)}
        return found

    def _load(self, asked: Frame) -> Frame:
        note(asked["what"])
        self._shelf.known[asked["kind"], asked["text"]] = opened(asked)
        return {}

    def _fingerprint(self, asked: Frame) -> Frame:
        note(f"dataset {asked['dataset']}")
        return {"fingerprint": as_fingerprint(self._shelf.dataset(asked["dataset"]).fingerprint())}

    def _prepare(self, asked: Frame) -> Frame:
        """Make a dataset's files available."""
        note(f"dataset {asked['dataset']}")
        self._shelf.dataset(asked["dataset"]).prepare()
        return {}

    def _look(self, asked: Frame) -> Frame:
        """Draw a field of a dataset, and try its headline metric on it."""
        text = asked["dataset"]
        field = draw_field(self._shelf, text, stream("field", asked["seed"], 0, text), note)
        applicable = asked["wanted"] is None or _applies(self._shelf.metric(asked["wanted"]), field)
        headline = self._shelf.metric(asked["headline"])
        trouble = "" if _applies(headline, field) else "it does not apply to the field"
        exact = Estimate(field.values.astype(float))
        _, errors = score_all([headline], exact, field, np.zeros(field.shape, dtype=bool))
        return {"unit": field.unit, "applies": applicable, "trouble": errors.get(headline.name, trouble)}

    def _draw(self, asked: Frame) -> Frame:
        """The observation of a trial."""
        return {"observation": draw(_trials(asked)[0], self._shelf, note).observation}

    def _floor(self, asked: Frame) -> Frame:
        """The scores of the floor of a draw."""
        return {"scores": floor_scores(_trials(asked)[0], self._shelf, note)}

    def _run(self, asked: Frame) -> Frame:
        """Run trials of one cell."""
        try:
            judged = judge(_trials(asked), self._shelf, self._complete, note=note)
        except Apart:
            return {"apart": True}
        names = ("status", "error", "metrics", "seconds", "diagnostics")
        records = [{name: getattr(item.record, name) for name in names} for item in judged]
        kept = [_kept(item) if asked["keep"] else None for item in judged]
        return {"records": [{**record, "kept": made} for record, made in zip(records, kept, strict=True)]}

    def _complete(self, tasks: Sequence[Task], recorders: Sequence[Recorder]) -> Answer:
        """Have the parent take tasks to the method's process, and take note of what that reports.

        Raises:
            Abandoned: if there will be no answer.
        """
        if self._instead is not None:
            raise Abandoned
        for task in tasks:
            if not isinstance(task.observation, Observation):  # a modifier's mistake
                raise TypeError(f"a fit of {type(task.observation).__name__}; it should be of an Observation")
        self._say({"fit": tasks})
        while True:
            said = self._next()
            if said["ask"] == "report":
                recorders[said["report"]](said["step"], said["estimate"], said["numbers"])
                self._say({"go on": True})
            elif said["ask"] == "answer":
                return Answer(**{name: said[name] for name in Answer.__dataclass_fields__})
            else:
                self._instead = said
                raise Abandoned

    def _score(self, asked: Frame) -> Frame:
        """Score an estimate by one metric."""
        made: Reconstruction = asked["of"]
        metrics = [self._shelf.metric(asked["metric"])]
        scores, missing = score_all(metrics, made.made, made.truth, made.observation.mask, note)
        return {"scores": scores, "missing": missing}


def _applies(metric: Metric, field: Field) -> bool:
    """
    Raises:
        RequestError: if it cannot say.
    """
    note(f"metric {metric.name}")
    try:
        return applies(metric, field)
    except Exception as error:
        raise RequestError(f"metric {metric.name}: {one_line(error)}") from None


def _trials(asked: Frame) -> list[Trial]:
    return [Trial(asked["cell"], asked["seed"], number, "") for number in asked["numbers"]]


def _kept(item: Judged) -> Reconstruction | None:
    """What is kept of a trial besides its record."""
    if item.draw is None or item.estimate is None:
        return None
    return Reconstruction(item.draw.field, item.draw.observation, item.estimate)
