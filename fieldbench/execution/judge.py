"""The program of a judge: it draws, hands observations to methods' processes, and scores what comes back.

It loads datasets, samplers, noises and metrics, and no method. Before it calls one of them it writes down which, so
that the parent can name it if nobody comes back from there.
"""

from __future__ import annotations

import os
import pickle
import secrets
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldbench.errors import RequestError, one_line
from fieldbench.estimate import Estimate
from fieldbench.execution.frames import (
    LARGEST_METHOD_HEADER,
    NO_ANSWER,
    BadFrame,
    Channel,
    Frame,
    encode,
    largest_estimate,
    pack,
    pack_estimate,
    unpack_estimate,
    wait_for,
)
from fieldbench.execution.nursery import set_process_option
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
    judge,
    stream,
)
from fieldbench.metric import Metric, applies, score_all
from fieldbench.records import FAILED, NOT_APPLICABLE, OK, OUT_OF_MEMORY, Cell, Trial
from fieldbench.sampler import observe
from fieldbench.selection import Recorder
from fieldbench.sources import Parcel

#: Where the stage is written: descriptors 0 to 2 are the usual ones, 3 is the socket, 4 the lifeline.
STAGE = 5

_STATUSES = (OK, FAILED, NOT_APPLICABLE, OUT_OF_MEMORY)


def main(metrics: Parcel, channel: Channel) -> None:
    """Serve until the socket is closed."""
    # PR_SET_DUMPABLE: below root, other processes of the same user cannot read this one's memory any more.
    set_process_option(4, 0)
    bench = _Bench(metrics, channel)
    while True:
        try:
            frame = channel.receive()
        except EOFError:
            os._exit(0)
        reply = bench.reply(frame)
        if reply is not None:
            header, arrays = reply
            note("")
            channel.send(encode({**header, "id": frame.header["id"]}, arrays))


def note(what: str) -> None:
    """Write down what is being done, for the parent to read."""
    text = what.encode("utf-8", "replace")[:4000]
    os.pwrite(STAGE, len(text).to_bytes(4, "big") + text, 0)


class MethodLost(BaseException):
    """The method's process is gone, or what it sent is no answer. No plugin's ``except`` may catch this."""


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
        return self.known.get(("refits", text), [])


class _Bench:
    def __init__(self, metrics: Parcel, channel: Channel) -> None:
        self._parcel, self._channel = metrics, channel
        self._shelf = _Shelf([])
        self._methods: dict[int, Channel] = {}

    def reply(self, frame: Frame) -> Reply | None:
        """The answer to what the parent asks, or None where it asks for none."""
        ask = getattr(self, "_" + frame.header["ask"].replace(" ", "_"))
        try:
            found: Reply | None = ask(frame)
        except MethodLost as error:
            return {"lost": str(error)}, []
        except Exception as error:
            return {"error": _said(error), "unavailable": isinstance(error, RequestError)}, []
        return found

    def _start(self, frame: Frame) -> Reply:
        note("metrics")
        self._shelf = _Shelf(self._parcel.open())
        return {}, []

    def _know(self, frame: Frame) -> Reply:
        """Take plugins over."""
        note(frame.header["what"])
        parcel: Parcel = pickle.loads(frame.arrays[0].tobytes())
        self._shelf.known.update(parcel.open())
        return {}, []

    def _meet(self, frame: Frame) -> None:
        """Take over the way to a method's process."""
        link = socket.socket(fileno=self._channel.take_file())
        self._methods[frame.header["number"]] = Channel(link, largest_header=LARGEST_METHOD_HEADER)

    def _part(self, frame: Frame) -> None:
        self._methods.pop(frame.header["number"]).close()

    def _give_up(self, frame: Frame) -> None:
        """Too late: it is given up already."""

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
        exact = Estimate(field.values.astype(float))
        _, errors = score_all([headline], exact, field, np.zeros(field.shape, dtype=bool))
        trouble = errors.get(headline.name, "")
        return {"unit": str(field.unit), "applies": applicable, "trouble": trouble}, []

    def _observe(self, frame: Frame) -> Reply:
        """An observation such as the trials of a setting will have."""
        asked = frame.header
        text = asked["dataset"]
        field = draw_field(self._shelf, text, stream("field", asked["seed"], asked["first"], text), note)
        mask = draw_mask(self._shelf, asked["sampler"], field, asked["rate"], stream("examine", asked["seed"]), note)
        noise = draw_noise(self._shelf, asked["noise"], field, stream("examine"), note)
        header, arrays = pack(observe(field, mask, noise))
        return {"observation": header}, arrays

    def _draw(self, frame: Frame) -> Reply:
        """The observation of a trial."""
        asked = frame.header
        trial = Trial(Cell(*asked["cell"]), asked["seed"], asked["trial"], "")
        header, arrays = pack(draw(trial, self._shelf, note).observation)
        return {"observation": header}, arrays

    def _run(self, frame: Frame) -> Reply:
        """Run trials of one cell."""
        asked = frame.header
        cell = Cell(*asked["cell"])
        trials = [Trial(cell, asked["seed"], number, "") for number in asked["numbers"]]
        link = _Method(self._methods[asked["number"]], self._channel, asked["id"])
        try:
            judged = judge(trials, self._shelf, link.complete, left_out=asked["left out"], note=note)
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


class _Method:
    """The way to a method's process, for one group of trials."""

    def __init__(self, channel: Channel, parent: Channel, request: int) -> None:
        self._channel, self._parent, self._request = channel, parent, request

    def complete(self, tasks: Sequence[Task], recorders: Sequence[Recorder]) -> Answer:
        """Have tasks completed.

        Raises:
            MethodLost: if there will be no answer.
        """
        if self._channel.has_rest:
            raise MethodLost(NO_ANSWER)
        note("asking")
        # An answer is known by a number that could not be guessed before.
        name = secrets.token_hex(8)
        header, arrays = fit_request("complete", tasks)
        frame = encode({**header, "id": name}, arrays)
        self._channel.largest = largest_estimate(tasks[0].observation.shape) * len(tasks)
        start = time.perf_counter()
        try:
            if not self._channel.send(frame, also=self._parent):
                raise MethodLost("")
            while True:
                got = self._next()
                if got.header.get("id") != name:
                    raise MethodLost(NO_ANSWER)
                if "began" in got.header:
                    note("method")
                elif "report" in got.header:
                    _report(got, recorders, tasks[0].observation.shape)
                    note("method")
                else:
                    return _answer(got, time.perf_counter() - start, len(tasks))
        except (EOFError, OSError):
            raise MethodLost("") from None
        except BadFrame:
            raise MethodLost(NO_ANSWER) from None

    def _next(self) -> Frame:
        while True:
            if (frame := self._channel.ready()) is not None:
                return frame
            ready = wait_for([self._channel, self._parent])
            if self._parent in ready:
                told = self._parent.poll(0)  # an end of the parent ends this process
                if told is not None and told.header.get("request") == self._request:
                    raise MethodLost("")
            elif (frame := self._channel.poll(0)) is not None:
                return frame


def _report(frame: Frame, recorders: Sequence[Recorder], shape: tuple[int, ...]) -> None:
    header = frame.header
    try:
        recorder, step = recorders[header["report"]], header["step"]
        numbers = {str(name): float(value) for name, value in header["numbers"].items()}
        estimate = unpack_estimate(header["estimate"], deque(frame.arrays))
        if estimate.mean.shape != shape or not isinstance(step, int) or len(numbers) > 100:
            raise ValueError
        if not estimate.is_sure_of_nothing:
            estimate = estimate.checked(np.ones(shape, dtype=bool))
    except Exception:
        raise MethodLost(NO_ANSWER) from None
    recorder(step, estimate, numbers)


def _answer(frame: Frame, seconds: float, tasks: int) -> Answer:
    header = frame.header
    status, error, diagnostics = header.get("status"), header.get("error", ""), header.get("diagnostics", {})
    if status not in _STATUSES or not isinstance(error, str) or not isinstance(diagnostics, dict):
        raise MethodLost(NO_ANSWER)
    try:
        arrays = deque(frame.arrays)
        estimates = [unpack_estimate(about, arrays) for about in header.get("estimates", ())]
        if arrays or len(estimates) != (tasks if status == OK else 0):
            raise ValueError
    except Exception:
        raise MethodLost(NO_ANSWER) from None
    known = {
        name: diagnostics[name]
        for name in ("traceback", "threads", "peak_gpu_memory", "of_the_machine")
        if name in diagnostics
    }
    return Answer(status, error, estimates, seconds, known)


def _kept(item: Judged) -> tuple[dict[str, Any], list[Any]]:
    """What is kept of a trial besides its record: truth, observation, estimate."""
    if item.draw is None or item.estimate is None:
        return {}, []
    truth, arrays = pack(item.draw.field)
    observation, others = pack(item.draw.observation)
    estimate, rest = pack_estimate(item.estimate)
    return {"truth": truth, "observation": observation, "estimate": estimate}, [*arrays, *others, *rest]


def _said(error: Exception) -> str:
    """What an error says to whoever made the request: its type only where it is no complaint about a value."""
    return str(error).strip() or one_line(error) if isinstance(error, ValueError) else one_line(error)
