"""Frames: what processes say to one another. JSON, and arrays in .npy form without pickles.

A frame is four letters, the lengths of header and body, the header and the body. The header is JSON, in which an array
or an object of :data:`KINDS` may stand anywhere; the body holds the arrays in their order. Reading one runs no code of
the sender and takes no more memory than the reader allows.
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
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from fieldbench.errors import one_line
from fieldbench.estimate import MOST_ARRAYS, Estimate
from fieldbench.field import Axis, Field, Observation
from fieldbench.judging import Task
from fieldbench.reconstructions import Reconstruction
from fieldbench.records import Cell

Frame: TypeAlias = dict[str, Any]
"""One message. Its arrays are read-only, and stay so."""

#: What may stand in a frame beside JSON and arrays; ``latent`` of a field is for its dataset alone.
KINDS = {cls.__name__: cls for cls in (Axis, Field, Observation, Estimate, Task, Reconstruction, Cell)}
_PARTS = {cls: [item.name for item in fields(cls) if item.init and item.name != "latent"] for cls in KINDS.values()}

_START = struct.Struct(">4sIQ")
_LETTERS = b"FBF2"

#: The key in the header that tells an array or one of the kinds from a dictionary; no plugin's name begins so.
_KIND = "\0"

#: Bytes of a header: of a record with its curves, and of what a method's process sends.
_LARGEST_HEADER, _LARGEST_OF_METHODS = 1 << 26, 1 << 20

#: Seconds between questions whether to keep on.
_LOOK = 0.05

#: Bytes read at once.
_PIECE = 1 << 20


class BadFrame(Exception):
    """What came is not a frame, or not one that is allowed here."""


def encode(said: Mapping[str, Any]) -> bytes:
    """A frame as bytes.

    Raises:
        TypeError, ValueError: if something in it cannot be sent.
    """
    pieces: list[bytes] = []

    def plain(thing: Any) -> Any:
        if isinstance(thing, np.ndarray):
            pieces.append(_npy_start(thing.dtype, thing.shape) + thing.tobytes())
            return {_KIND: "array"}
        if isinstance(thing, np.generic):
            return thing.item()
        if type(thing) not in _PARTS:
            raise TypeError(f"a {type(thing).__name__} cannot be sent to another process")
        return {_KIND: type(thing).__name__, **{name: getattr(thing, name) for name in _PARTS[type(thing)]}}

    text = json.dumps(said, default=plain, separators=(",", ":")).encode()
    return b"".join([_START.pack(_LETTERS, len(text), sum(map(len, pieces))), text, *pieces])


class Channel:
    """One end of a stream socket that carries frames; from a method only small headers, arrays and estimates."""

    def __init__(self, link: socket.socket, *, of_method: bool = False) -> None:
        link.setblocking(False)
        self._link, self._of_method = link, of_method
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
        """Send a frame as a whole; an ``OSError`` if the other end is closed.

        While that does not read, ``keep_on`` is called now and then. What it raises ends the wait.
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
        """The next frame, or None if it is not whole yet; the wait for a piece of it is in seconds (None: without end).

        Raises:
            EOFError: if the other end is closed.
            BadFrame: if what came is none.
        """
        frame = self._whole()
        if frame is not None or not readable(self._link, wait):
            return frame
        try:
            piece = self._link.recv(_PIECE)
        except BlockingIOError:  # another process that has this end was quicker
            return None
        except OSError:
            piece = b""
        if not piece:
            raise EOFError
        self._read += piece
        return self._whole()

    def receive(self) -> Frame:
        """The next frame, however long it takes; raises what :meth:`poll` does."""
        while (frame := self.poll(None)) is None:
            pass
        return frame

    def _whole(self) -> Frame | None:
        """The next frame, if it came whole with what was read before."""
        if len(self._read) < _START.size:
            return None
        letters, header_size, body_size = _START.unpack_from(self._read)
        largest_header = _LARGEST_OF_METHODS if self._of_method else _LARGEST_HEADER
        if letters != _LETTERS or header_size > largest_header or body_size > self.largest:
            raise BadFrame("it does not start like a frame, or is larger than it may be")
        end = _START.size + header_size + body_size
        if len(self._read) < end:
            return None
        content = bytes(self._read[_START.size : end])
        del self._read[:end]
        try:
            kinds = {"Estimate": Estimate} if self._of_method else KINDS
            return _decoded(content[:header_size], memoryview(content)[header_size:], kinds)
        except Exception as error:
            raise BadFrame(f"its content cannot be read: {one_line(error)}") from None


def largest_estimate(shape: Sequence[int]) -> int:
    """Bytes that the arrays of an estimate may have: mean, deviation, members and quantiles."""
    return (2 + MOST_ARRAYS) * (8 * math.prod(shape) + 1000)


def readable(link: socket.socket | int, wait: float | None) -> bool:
    """Whether something, or the end, comes within these seconds (None: any time)."""
    found = select.poll()
    found.register(link, select.POLLIN)
    return bool(found.poll(None if wait is None else max(0.0, wait) * 1000))


def _decoded(text: bytes, body: memoryview, kinds: Mapping[str, Any]) -> Frame:
    arrays = deque[Any]()
    while body:
        array, body = _array(body)
        arrays.append(array)

    def made(about: dict[str, Any]) -> Any:
        kind = about.pop(_KIND, None)
        if kind is None:
            return about
        if kind == "array":
            return arrays.popleft()
        if about.get("quantiles"):
            about["quantiles"] = {float(level): array for level, array in about["quantiles"].items()}
        if about.get("metadata"):
            about["metadata"] = {name: float(value) for name, value in about["metadata"].items()}
        if kind == "Task":
            if not (isinstance(about["observation"], Observation) and isinstance(about["seed"], int)):
                raise BadFrame("it holds a task that is none")
            about["values"] = {key: tuple(v) if isinstance(v, list) else v for key, v in about["values"].items()}
        return kinds[kind](**about)

    said = json.loads(text, object_hook=made)
    if not isinstance(said, dict) or arrays:
        raise BadFrame("it is not a JSON object, or has more in it than that says")
    return said


def _array(content: memoryview) -> tuple[np.ndarray[Any, Any], memoryview]:
    """An array in .npy form, plain numbers only, and what follows it."""
    start = 10 + int.from_bytes(content[8:10], "little")
    shape, fortran, dtype = _npy_meaning(bytes(content[:start]))
    end = start + math.prod(shape) * dtype.itemsize
    if dtype.kind not in "fiub" or end > len(content):
        raise BadFrame(f"it holds an array of {dtype} that is not allowed")
    array = np.frombuffer(content[start:end], dtype).reshape(shape, order="F" if fortran else "C")
    return array, content[end:]


@lru_cache(maxsize=256)
def _npy_start(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What comes before the numbers of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


@lru_cache(maxsize=256)
def _npy_meaning(start: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array, by what comes before its numbers."""
    stream = io.BytesIO(start)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise BadFrame("it holds an array in another form")
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = np.lib.format.read_array_header_1_0(stream)
    return found
