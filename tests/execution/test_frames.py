"""What processes may say to one another, and what is refused."""

from __future__ import annotations

import io
import json
import pickle
import socket
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fieldbench.estimate import Estimate
from fieldbench.execution.frames import BadFrame, Channel, encode
from fieldbench.execution.worker import Desk, checked_answer, checked_report
from fieldbench.field import Axis, Field, Observation
from fieldbench.judging import Task
from fieldbench.method import Method


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    """A bare socket, and a channel to a method behind it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield theirs, Channel(ours, of_method=True)


def test_a_piece_that_another_process_took_is_no_end() -> None:
    """A method that forks leaves a second reader behind."""

    class Late(socket.socket):
        def recv(self, *_: Any) -> bytes:
            raise BlockingIOError

    ours, theirs = socket.socketpair()
    with theirs, Late(ours.family, ours.type, fileno=ours.detach()) as late:
        theirs.sendall(b"a piece")
        assert Channel(late).poll(1.0) is None


def over(said: Any) -> Any:
    """What comes of it at the other end of a channel that is trusted."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(encode(said))
        return Channel(ours).receive()


def npy(array: Any, **how: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **how)
    return stream.getvalue()


def framed(text: bytes, body: bytes, letters: bytes = b"FBF2") -> bytes:
    return struct.pack(">4sIQ", letters, len(text), len(body)) + text + body


def one_array(content: bytes) -> bytes:
    return framed(json.dumps({"one": {"\0": "array"}}).encode(), content)


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.eye(3, dtype=bool), np.float32([[1, np.nan]]), np.array(7), np.zeros((0, 2))],
)
def test_arrays_arrive_as_they_were_and_stay_so(ends: Any, array: Any) -> None:
    theirs, channel = ends
    theirs.sendall(encode({"id": 3, "deep": [{"down": array}]}))
    said = channel.receive()
    assert said["id"] == 3
    found = said["deep"][0]["down"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    with pytest.raises(ValueError, match="WRITEABLE"):
        found.setflags(write=True)


def test_frames_come_one_by_one_whole_or_in_pieces(ends: Any) -> None:
    theirs, channel = ends
    both = encode({"id": 1, "one": np.ones(5)}) + encode({"id": 2})
    for byte in both[:-1]:
        theirs.sendall(bytes([byte]))
    assert channel.receive()["id"] == 1
    assert channel.poll(0.01) is None
    theirs.sendall(both[-1:])
    assert channel.receive() == {"id": 2}
    theirs.close()
    with pytest.raises(EOFError):
        channel.poll(1)


@pytest.mark.parametrize(
    "content",
    [
        b"x" * 50,
        framed(b"{}", b"", b"FBF1"),
        struct.pack(">4sIQ", b"FBF2", 1 + (1 << 20), 0),  # a header longer than a method's may be
        struct.pack(">4sIQ", b"FBF2", 2, 10**12),  # a body larger than is allowed
        framed(b"not JSON", b""),
        framed(b"[1]", b""),
        framed(b"{}", b"rest"),
        framed(b"{}", npy(np.ones(3))),  # an array that nothing in it speaks of
        framed(json.dumps({"one": {"\0": "array"}}).encode(), b""),
        framed(json.dumps({"one": {"\0": "Estimate"}}).encode(), b""),  # an estimate of nothing
        framed(json.dumps({"one": {"\0": "Axis", "name": "x", "coordinates": [0]}}).encode(), b""),  # only judges may
        framed(json.dumps({"one": {"\0": "Popen", "args": "true"}}).encode(), b""),
        one_array(npy(np.array([None], dtype=object), allow_pickle=True)),
        one_array(npy(np.array(["text"]))),
        one_array(npy(np.array([1j]))),
        one_array(npy(np.zeros(1, dtype="datetime64[s]"))),
        one_array(npy(np.zeros(4))[:-8]),  # fewer numbers than its shape says
        one_array(pickle.dumps(np.zeros(4))),
    ],
)
def test_what_is_no_frame_is_refused(ends: Any, content: bytes) -> None:
    theirs, channel = ends
    channel.largest = 10**6
    theirs.sendall(content)
    with pytest.raises(BadFrame):
        channel.poll(1)


def test_a_field_and_its_observation_survive_the_way() -> None:
    valid = np.ones((2, 3), dtype=bool)
    valid[0, 0] = False
    values = np.float32([[np.nan, 1, 2], [3, 4, 5]])
    about = (
        (Axis("x", np.array([0.0, 5.0]), "km"), Axis.regular("t", 3)),
        "m/s",
        "speed",
        valid,
        1e-6,
        {"emitters": 2.0},
    )
    mask = np.array([[False, True, False], [True, False, False]])
    for item in (Field(values, *about), Observation(np.where(mask, values, np.nan), mask, *about)):
        again = over({"it": item})["it"]
        assert type(again) is type(item)
        for name in ("values", "valid", *(["mask"] if isinstance(item, Observation) else [])):
            np.testing.assert_array_equal(getattr(again, name), getattr(item, name))
        assert again.values.dtype == np.float32
        assert [(axis.name, axis.unit, *axis.coordinates) for axis in again.axes] == [
            ("x", "km", 0.0, 5.0),
            ("t", "", 0.0, 1.0, 2.0),
        ]
        assert (again.unit, again.quantity, again.log_floor, again.metadata) == (
            "m/s",
            "speed",
            1e-6,
            {"emitters": 2.0},
        )


class Reporter(Method):
    """Reports what it is made for."""

    name = "reporter"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        self.__dict__["due"] = [step for step in range(35) if report.due(step)]
        report(10, np.zeros(observation.shape), loss=np.float32(0.5))
        report(20, np.zeros((4, 2)))


def test_reports_are_due_as_often_as_the_rule_says_and_one_of_another_shape_is_refused() -> None:
    told: list[Any] = []
    method = Reporter()
    desk = Desk(method, tell=told.append)
    task = Task(Observation(np.ones((2, 2)), np.eye(2, dtype=bool)), 0, 10)
    said = desk.reply({"ask": "complete", "tasks": [task], "id": 5})
    assert method.__dict__["due"] == [0, 10, 20, 30]
    assert {name: told[-1][name] for name in ("id", "report", "step", "numbers")} == {
        "id": 5, "report": 0, "step": 10, "numbers": {"loss": 0.5},
    }  # fmt: skip
    assert told[-1]["estimate"].is_sure_of_nothing
    assert said["error"] == "ValueError: report() was given shape (4, 2), the field has (2, 2)"


ZEROS = Estimate(np.zeros((2, 2)))
TASK = Task(Observation(np.ones((2, 2)), np.eye(2, dtype=bool)), 0, 10)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": "ok"},
        {"status": "fine", "estimates": [ZEROS]},
        {"status": "ok", "estimates": [ZEROS, ZEROS]},
        {"status": "ok", "estimates": [5]},
        {"status": "failed", "estimates": [ZEROS]},
        {"status": "failed", "error": ["no", "text"]},
        {"status": "ok", "estimates": [ZEROS], "diagnostics": {"threads": "many"}},
        {"status": "ok", "estimates": [ZEROS], "diagnostics": {"traceback": 5}},
    ],
)
def test_what_is_no_answer_to_a_task_is_refused(answer: Any) -> None:
    with pytest.raises(BadFrame):
        checked_answer(answer, [TASK])


def test_an_answer_is_one_line_and_what_else_it_has_stays_behind() -> None:
    odd = {"status": "failed", "error": "first\nsecond", "diagnostics": {"rmse": 0.0}, "records": []}
    assert checked_answer(odd, [TASK]) == {
        "ask": "answer", "status": "failed", "error": "first second", "diagnostics": {}, "estimates": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"report": 1},
        {"report": -1},
        {"step": "ten"},
        {"numbers": {"loss": "small"}},
        {"numbers": {f"n{number}": 0.0 for number in range(101)}},
        {"estimate": Estimate(np.zeros(3))},
        {"estimate": Estimate(0.0)},
        {"estimate": np.zeros((2, 2))},
        {"estimate": Estimate(np.zeros((2, 2)), -np.ones((2, 2)))},
    ],
)
def test_what_is_no_report_is_refused(changed: Any) -> None:
    report = {"report": 0, "step": 10, "numbers": {}, "estimate": ZEROS}
    assert checked_report(report, [TASK])["step"] == 10
    with pytest.raises(BadFrame):
        checked_report({**report, **changed}, [TASK])


def test_an_estimate_comes_over_with_all_that_it_has() -> None:
    rng = np.random.default_rng(0)
    mean, members = rng.random((2, 3)), rng.random((4, 2, 3))
    quantiles = {0.1: mean - 1, 0.9: mean + 1}
    for sent in (
        Estimate(mean),
        Estimate(mean, mean + 1, distribution="lognormal", floor=1e-6),
        Estimate(mean, members=members, quantiles=quantiles),
    ):
        found = over({"it": sent})["it"]
        np.testing.assert_array_equal(found.mean, mean)
        for name in ("deviation", "members"):
            np.testing.assert_array_equal(getattr(found, name), getattr(sent, name))
        assert (found.quantiles or {}).keys() == (sent.quantiles or {}).keys()
        assert (found.distribution, found.floor) == (sent.distribution, sent.floor)
