"""Frames: what processes say to one another. A small JSON header, and arrays in .npy form without pickles.

A frame is four letters, the lengths of header and body, the header and the body. The header names the length of
each array in the body. Reading one runs no code of the sender and takes no more memory than the reader allows.
"""

from __future__ import annotations

import io
import json
import math
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fieldbench.estimate import MOST_ARRAYS, Estimate
from fieldbench.field import Axis, Field, Observation

_START = struct.Struct(">4sIQ")
_LETTERS = b"FBF1"

#: What is said of a process whose frame cannot be one.
NO_ANSWER = "sent something that is not an answer"

#: Bytes of a header: of a record with its curves, and of what a method's process sends.
LARGEST_HEADER, LARGEST_METHOD_HEADER = 1 << 26, 1 << 20

#: Seconds between questions whether to keep on.
_LOOK = 0.05

#: Bytes read at once.
_PIECE = 1 << 20


class BadFrame(Exception):
    """What came is not a frame, or not one that is allowed here."""


class Frame(NamedTuple):
    """One message: its header, and the arrays that came with it. They are read-only, and stay so."""

    header: dict[str, Any]
    arrays: list[np.ndarray[Any, Any]]


def encode(header: Mapping[str, Any], arrays: Sequence[Any] = ()) -> bytes:
    """A frame as bytes."""
    pieces = [_as_npy(array) for array in arrays]
    text = json.dumps({**header, "arrays": [len(piece) for piece in pieces]}, separators=(",", ":")).encode()
    return b"".join([_START.pack(_LETTERS, len(text), sum(map(len, pieces))), text, *pieces])


class Channel:
    """One end of a socket that carries frames."""

    def __init__(self, link: socket.socket, largest_header: int = LARGEST_HEADER) -> None:
        """
        Args:
            link: a connected stream socket.
            largest_header: bytes that a header may have.
        """
        link.setblocking(False)
        self._link, self._largest_header = link, largest_header
        #: Bytes that the arrays of a frame may have; to be set before reading where the other end is not trusted.
        self.largest = 1 << 40
        self._read = bytearray()

    def close(self) -> None:
        self._link.close()

    @property
    def has_rest(self) -> bool:
        """Whether something came that nobody has asked for."""
        return bool(self._read) or readable(self._link, 0.0)

    def send(self, frame: bytes, keep_on: Callable[[], None] = lambda: None) -> None:
        """Send a frame as a whole.

        Args:
            frame: from :func:`encode`.
            keep_on: called now and then while the other end does not read; what it raises ends the wait.

        Raises:
            OSError: if the other end is closed.
        """
        left = memoryview(frame)
        while left:
            try:
                left = left[self._link.send(left) :]
            except BlockingIOError:
                keep_on()
                ready = select.poll()
                ready.register(self._link, select.POLLOUT)
                ready.poll(_LOOK * 1000)

    def poll(self, wait: float | None) -> Frame | None:
        """The next frame, or None if it is not whole after a wait of these seconds (None: without end).

        Raises:
            EOFError: if the other end is closed.
            BadFrame: if what came is none.
        """
        frame = self._whole()
        if frame is not None:
            return frame
        if not readable(self._link, wait):
            return None
        while True:
            try:
                piece = self._link.recv(_PIECE)
            except BlockingIOError:
                return self._whole()
            except OSError:
                raise EOFError from None
            if not piece:
                raise EOFError
            self._read += piece
            if len(piece) < _PIECE:
                return self._whole()

    def receive(self) -> Frame:
        """The next frame, however long it takes.

        Raises:
            EOFError, BadFrame: as :meth:`poll`.
        """
        while (frame := self.poll(None)) is None:
            pass
        return frame

    def _whole(self) -> Frame | None:
        """The next frame, if it came whole with what was read before."""
        if len(self._read) < _START.size:
            return None
        letters, header_size, body_size = _START.unpack_from(self._read)
        if letters != _LETTERS or header_size > self._largest_header or body_size > self.largest:
            raise BadFrame("it does not start like a frame, or is larger than it may be")
        end = _START.size + header_size + body_size
        if len(self._read) < end:
            return None
        content = bytes(self._read[_START.size : end])
        del self._read[:end]
        try:
            return _decoded(content[:header_size], memoryview(content)[header_size:])
        except BadFrame:
            raise
        except Exception as error:
            raise BadFrame(f"its content cannot be read: {type(error).__name__}") from None


def pack(field: Field | Observation) -> tuple[dict[str, Any], list[Any]]:
    """A field or an observation as header and arrays."""
    mask = [field.mask] if isinstance(field, Observation) else []
    header = {
        "axes": [(axis.name, axis.unit, axis.period) for axis in field.axes],
        "unit": field.unit,
        "quantity": field.quantity,
        "log_floor": field.log_floor,
        "metadata": {name: float(value) for name, value in field.metadata.items()},
        "mask": len(mask),
        "covariates": list(field.covariates),
    }
    coordinates = (axis.coordinates for axis in field.axes)
    return header, [field.values, *mask, field.valid, *coordinates, *field.covariates.values()]


def unpack(header: Mapping[str, Any], arrays: deque[Any]) -> Any:
    """What :func:`pack` packed; its arrays are taken from the front of ``arrays``."""
    values = arrays.popleft()
    mask = arrays.popleft() if header["mask"] else None
    valid = arrays.popleft()
    axes = tuple(Axis(name, arrays.popleft(), unit, period) for name, unit, period in header["axes"])
    covariates = {name: arrays.popleft() for name in header["covariates"]}
    about = (axes, header["unit"], header["quantity"], valid, header["log_floor"], header["metadata"], covariates)
    return Field(values, *about) if mask is None else Observation(values, mask, *about)


def pack_estimate(estimate: Estimate) -> tuple[dict[str, Any], list[Any]]:
    """An estimate as header and arrays: the mean, then what else it has."""
    parts = [part for part in (estimate.deviation, estimate.members) if part is not None]
    quantiles = estimate.quantiles or {}
    header = {
        "deviation": estimate.deviation is not None,
        "members": estimate.members is not None,
        "levels": list(quantiles),
        "distribution": estimate.distribution,
        "floor": estimate.floor,
    }
    return header, [estimate.mean, *parts, *quantiles.values()]


def unpack_estimate(header: Mapping[str, Any], arrays: deque[Any]) -> Estimate:
    """What :func:`pack_estimate` packed, not checked; its arrays are taken from the front of ``arrays``."""
    mean = arrays.popleft()
    deviation = arrays.popleft() if header["deviation"] else None
    members = arrays.popleft() if header["members"] else None
    quantiles = {float(level): arrays.popleft() for level in header["levels"]} or None
    return Estimate(mean, deviation, members, quantiles, header["distribution"], header["floor"])


def largest_estimate(shape: Sequence[int]) -> int:
    """Bytes that the arrays of an estimate may have: mean, deviation, members and quantiles."""
    return (2 + MOST_ARRAYS) * (8 * math.prod(shape) + 1000)


def _as_npy(array: Any) -> bytes:
    plain = np.asarray(array, order="C")
    return _npy_start(plain.dtype, plain.shape) + plain.tobytes()


@lru_cache(maxsize=256)
def _npy_start(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What comes before the numbers of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def _decoded(text: bytes, body: memoryview) -> Frame:
    header = json.loads(text)
    if not isinstance(header, dict):
        raise BadFrame("its header is not a JSON object")
    arrays = []
    for size in header.pop("arrays"):
        arrays.append(_array(body[:size]))
        body = body[size:]
    if len(body):
        raise BadFrame("it has more in it than its header says")
    return Frame(header, arrays)


def _array(content: memoryview) -> np.ndarray[Any, Any]:
    """An array from its .npy form: plain numbers only, and as many as there are bytes for."""
    start = 10 + int.from_bytes(content[8:10], "little")
    shape, fortran, dtype = _npy_meaning(bytes(content[:start]))
    if dtype.kind not in "fiub" or math.prod(shape) * dtype.itemsize != len(content) - start:
        raise BadFrame(f"it holds an array of {dtype} that is not allowed")
    return np.frombuffer(content, dtype, offset=start).reshape(shape, order="F" if fortran else "C")


@lru_cache(maxsize=256)
def _npy_meaning(start: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array, by what comes before its numbers."""
    stream = io.BytesIO(start)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise BadFrame("it holds an array in another form")
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = np.lib.format.read_array_header_1_0(stream)
    return found


def readable(link: socket.socket | int, wait: float | None) -> bool:
    """Whether something, or the end, comes within these seconds (None: any time)."""
    found = select.poll()
    found.register(link, select.POLLIN)
    return bool(found.poll(None if wait is None else max(0.0, wait) * 1000))
