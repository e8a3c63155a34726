"""The program of a judge: it draws, hands observations to methods' processes, and scores what comes back.

It loads datasets, samplers, noises, metrics and modifiers that have a method fitted several times, and no method.
Before it calls one of them it writes down which, so that the parent can name it if nobody comes back from there.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldbench.errors import RequestError, in_one_line, one_line
from fieldbench.estimate import Estimate
from fieldbench.execution.forkserver import set_process_option
from fieldbench.execution.frames import Channel, Frame, encode, pack, pack_estimate, unpack, unpack_estimate
from fieldbench.execution.worker import Reply, as_fingerprint, fit_request
from fieldbench.judging import (
    Answer,
    Apart,
    Judged,
    Task,
    draw,
    draw_field,
    draw_mask,
    draw_noise,
    floor_scores,
    judge,
    stream,
)
from fieldbench.metric import Metric, applies, score_all
from fieldbench.records import Cell, Trial
from fieldbench.sampler import observe
from fieldbench.selection import Recorder
from fieldbench.sources import Parcel
from fieldbench.spec import split

#: Where the stage is written. Descriptors 0 to 2 are the usual ones, 3 is the socket, 4 tells of the parent's end.
STAGE = 5


def main(metrics: Parcel, channel: Channel) -> None:
    """Serve until the socket is closed."""
    # PR_SET_DUMPABLE: below root, other processes of the same user cannot read this one's memory any more.
    set_process_option(4, 0)
    _Judge(metrics, channel).serve()


def note(what: str) -> None:
    """Write down what is being done, for the parent to read."""
    text = what.encode("utf-8", "replace")[:4000]
    os.pwrite(STAGE, len(text).to_bytes(4, "big") + text, 0)


class Abandoned(BaseException):
    """The parent asks something else; the method's process is gone. A plugin should not catch this."""


class _Shelf:
    """The plugins that were sent here, by kind and spec."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics
        self.known: dict[tuple[str, str], Any] = {}

    def dataset(self, text: str) -> Any:
        return self.known["dataset", text]

    def sampler(self, text: str) -> Any:
        return self.known["sampler", text]

    def noise(self, text: str) -> Any:
        return self.known["noise", text]

    def selection(self, text: str) -> Any:
        return self.known["selection", text]

    def metric(self, text: str) -> Any:
        return self.known["metric", text]

    def metrics(self) -> list[Metric]:
        return self._metrics

    def refits(self, text: str) -> Any:
        found = [("modifier", part) for part in split(text, "+")[1:]]
        return [self.known[key] for key in found if key in self.known]

    def space(self, text: str) -> Any:
        return self.known["space", text]


class _Judge:
    def __init__(self, metrics: Parcel, channel: Channel) -> None:
        self._parcel, self._channel = metrics, channel
        self._shelf = _Shelf([])
        self._number = 0
        #: What the parent asks in the midst of a trial. That is over then, whatever its plugins do.
        self._instead: Frame | None = None

    def serve(self) -> None:
        """Answer the parent's questions."""
        frame = self._next()
        while True:
            with contextlib.suppress(Abandoned):
                reply = self._reply(frame)
            if self._instead is None:
                self._say(*reply)
                frame = self._next()
            else:
                frame, self._instead = self._instead, None

    def _next(self) -> Frame:
        try:
            frame = self._channel.receive()
        except EOFError:
            os._exit(0)
        self._number = frame.header["id"]
        return frame

    def _say(self, header: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
        note("")
        self._channel.send(encode({**header, "id": self._number}, arrays))

    def _reply(self, frame: Frame) -> Reply:
        ask = getattr(self, "_" + frame.header["ask"])
        try:
            found: Reply = ask(frame)
        except Exception as error:
            return {"error": _said(error), "refused": isinstance(error, RequestError)}, []
        return found

    def _start(self, frame: Frame) -> Reply:
        note(frame.header["what"])
        self._shelf = _Shelf(self._parcel.open())
        return {}, []

    def _know(self, frame: Frame) -> Reply:
        """Take plugins over."""
        note(frame.header["what"])
        parcel: Parcel = pickle.loads(frame.arrays[0].tobytes())
        self._shelf.known.update(parcel.open())
        return {}, []

    def _fingerprint(self, frame: Frame) -> Reply:
        text = frame.header["dataset"]
        note(f"dataset {text}")
        return {"fingerprint": as_fingerprint(self._shelf.dataset(text).fingerprint())}, []

    def _prepare(self, frame: Frame) -> Reply:
        """Make a dataset's files available."""
        text = frame.header["dataset"]
        note(f"dataset {text}")
        self._shelf.dataset(text).prepare()
        return {}, []

    def _look(self, frame: Frame) -> Reply:
        """Draw a dataset's first field, and try its headline metric on it."""
        asked = frame.header
        text = asked["dataset"]
        field = draw_field(self._shelf, text, stream("field", asked["seed"], asked["first"], text), note)
        applicable = True
        if asked["wanted"] is not None:
            wanted = self._shelf.metric(asked["wanted"])
            note(f"metric {wanted.name}")
            applicable = applies(wanted, field)
        headline = self._shelf.metric(asked["headline"])
        note(f"metric {headline.name}")
        trouble = "" if applies(headline, field) else "it does not apply to the field"
        exact = Estimate(field.values.astype(float))
        _, errors = score_all([headline], exact, field, np.zeros(field.shape, dtype=bool))
        trouble = errors.get(headline.name, trouble)
        return {"unit": str(field.unit), "applies": applicable, "trouble": trouble}, []

    def _observe(self, frame: Frame) -> Reply:
        """An observation such as the trials of a setting will have."""
        asked = frame.header
        text = asked["dataset"]
        streams = stream("field", asked["seed"], asked["first"], text), stream("examine", asked["seed"])
        noise_stream = stream("examine")  # all are made before a plugin may change how
        field = draw_field(self._shelf, text, streams[0], note)
        mask = draw_mask(self._shelf, asked["sampler"], field, asked["rate"], streams[1], note)
        noise = draw_noise(self._shelf, asked["noise"], field, noise_stream, note)
        header, arrays = pack(observe(field, mask, noise))
        return {"observation": header}, arrays

    def _draw(self, frame: Frame) -> Reply:
        """The observation of a trial."""
        asked = frame.header
        trial = Trial(Cell(*asked["cell"]), asked["seed"], asked["trial"], "")
        header, arrays = pack(draw(trial, self._shelf, note).observation)
        return {"observation": header}, arrays

    def _floor(self, frame: Frame) -> Reply:
        """The scores of the floor of a draw."""
        asked = frame.header
        return {
            "scores": floor_scores(Trial(Cell(*asked["cell"]), asked["seed"], asked["trial"], ""), self._shelf, note)
        }, []

    def _run(self, frame: Frame) -> Reply:
        """Run trials of one cell."""
        asked = frame.header
        cell = Cell(*asked["cell"])
        trials = [Trial(cell, asked["seed"], number, "") for number in asked["numbers"]]
        try:
            judged = judge(trials, self._shelf, self._complete, note=note)
        except Apart:
            return {"apart": True}, []
        records = [
            {
                "status": item.record.status,
                "error": item.record.error,
                "metrics": item.record.metrics,
                "seconds": item.record.seconds,
                "diagnostics": item.record.diagnostics,
            }
            for item in judged
        ]
        fields = [_kept(item) for item in judged] if asked["fields"] else []
        return {"records": records, "fields": [header for header, _ in fields]}, [
            array for _, arrays in fields for array in arrays
        ]

    def _complete(self, tasks: Sequence[Task], recorders: Sequence[Recorder]) -> Answer:
        """Have the parent take tasks to the method's process, and take note of what that reports.

        Raises:
            Abandoned: if there will be no answer.
        """
        if self._instead is not None:
            raise Abandoned
        header, sent = fit_request("complete", tasks)
        self._say({"fit": header}, sent)
        while True:
            frame = self._next()
            said = frame.header
            if said["ask"] == "report":
                estimate = unpack_estimate(said["estimate"], deque(frame.arrays))
                recorders[said["report"]](said["step"], estimate, said["numbers"])
                self._say({"go on": True})
            elif said["ask"] == "answer":
                arrays = deque(frame.arrays)
                estimates = [unpack_estimate(about, arrays) for about in said["estimates"]]
                return Answer(said["status"], said["error"], estimates, said["seconds"], said["diagnostics"])
            else:
                self._instead = frame
                raise Abandoned

    def _score(self, frame: Frame) -> Reply:
        """Score an estimate by the metrics that are here."""
        arrays = deque(frame.arrays)
        truth, mask = unpack(frame.header["truth"], arrays), arrays.popleft()
        estimate = unpack_estimate(frame.header["estimate"], arrays)
        scores, missing = score_all(self._shelf.metrics(), estimate, truth, mask, note)
        return {"scores": scores, "missing": missing}, []


def _kept(item: Judged) -> tuple[dict[str, Any], list[Any]]:
    """What is kept of a trial besides its record: truth, observation, estimate."""
    if item.draw is None or item.estimate is None:
        return {}, []
    truth, arrays = pack(item.draw.field)
    observation, others = pack(item.draw.observation)
    estimate, rest = pack_estimate(item.estimate)
    return {"truth": truth, "observation": observation, "estimate": estimate}, [*arrays, *others, *rest]


def _said(error: Exception) -> str:
    """What an error says to whoever made the request: its type only where it is not a complaint about a value."""
    said = in_one_line(str(error)) if isinstance(error, ValueError) else ""
    return said or one_line(error)
