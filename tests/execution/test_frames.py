"""What processes may say to one another, and what is refused."""

from __future__ import annotations

import io
import json
import pickle
import socket
import struct
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fieldbench.estimate import Estimate
from fieldbench.execution.frames import BadFrame, Channel, encode, pack, pack_estimate, unpack, unpack_estimate
from fieldbench.execution.worker import Desk, fit_request
from fieldbench.field import Axis, Field, Observation
from fieldbench.judging import Task
from fieldbench.method import Method


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield theirs, Channel(ours, largest_header=1000)


def npy(array: Any, **how: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **how)
    return stream.getvalue()


def framed(text: bytes, body: bytes, letters: bytes = b"FBF1") -> bytes:
    return struct.pack(">4sIQ", letters, len(text), len(body)) + text + body


def one_array(content: bytes) -> bytes:
    return framed(json.dumps({"arrays": [len(content)]}).encode(), content)


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.eye(3, dtype=bool), np.float32([[1, np.nan]]), np.array(7), np.zeros((0, 2))],
)
def test_arrays_arrive_as_they_were_and_stay_so(ends: Any, array: Any) -> None:
    theirs, channel = ends
    theirs.sendall(encode({"id": 3}, [array]))
    header, (found,) = channel.receive()
    assert header == {"id": 3}
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    with pytest.raises(ValueError, match="WRITEABLE"):
        found.setflags(write=True)


def test_frames_come_one_by_one_whole_or_in_pieces(ends: Any) -> None:
    theirs, channel = ends
    both = encode({"id": 1}, [np.ones(5)]) + encode({"id": 2})
    for byte in both[:-1]:
        theirs.sendall(bytes([byte]))
    assert channel.receive().header == {"id": 1}
    assert channel.poll(0.01) is None
    theirs.sendall(both[-1:])
    assert channel.receive().header == {"id": 2}
    theirs.close()
    with pytest.raises(EOFError):
        channel.poll(1)


@pytest.mark.parametrize(
    "content",
    [
        b"x" * 50,
        framed(b"{}", b"", b"FBF2"),
        framed(b"x" * 2000, b""),  # longer than a header may be
        struct.pack(">4sIQ", b"FBF1", 2, 10**12),  # a body larger than is allowed
        framed(b"not JSON", b""),
        framed(b"[1]", b""),
        framed(b"{}", b""),  # it does not say how many arrays there are
        framed(b'{"arrays":[]}', b"rest"),
        framed(b'{"arrays":[99]}', b"short"),
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
        header, arrays = pack(item)
        again = unpack(json.loads(json.dumps(header)), deque(arrays))
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
    desk = Desk(method, tell=lambda header, arrays: told.append(header))
    observation = Observation(np.ones((2, 2)), np.eye(2, dtype=bool))
    header, arrays = fit_request("complete", [Task(observation, 0, 10)])
    said, _ = desk.reply(type("Asked", (), {"header": {**header, "id": "a"}, "arrays": arrays})())
    assert method.__dict__["due"] == [0, 10, 20, 30]
    mean_alone = {"deviation": False, "members": False, "levels": [], "distribution": "normal", "floor": 0.0}
    told_last = {"id": "a", "report": 0, "step": 10, "numbers": {"loss": 0.5}, "estimate": mean_alone}
    assert told[-1] == told_last
    assert said["error"] == "ValueError: report() was given shape (4, 2), the field has (2, 2)"


def test_an_estimate_comes_over_with_all_that_it_has() -> None:
    rng = np.random.default_rng(0)
    mean, members = rng.random((2, 3)), rng.random((4, 2, 3))
    quantiles = {0.1: mean - 1, 0.9: mean + 1}
    for sent in (
        Estimate(mean),
        Estimate(mean, mean + 1, distribution="lognormal", floor=1e-6),
        Estimate(mean, members=members, quantiles=quantiles),
    ):
        header, arrays = pack_estimate(sent)
        received = deque(arrays)
        found = unpack_estimate(json.loads(json.dumps(header)), received)
        assert not received
        np.testing.assert_array_equal(found.mean, mean)
        for name in ("deviation", "members"):
            np.testing.assert_array_equal(getattr(found, name), getattr(sent, name))
        assert (found.quantiles or {}).keys() == (sent.quantiles or {}).keys()
        assert (found.distribution, found.floor) == (sent.distribution, sent.floor)
