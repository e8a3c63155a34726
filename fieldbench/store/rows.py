"""The rows of a run: the one reader of ``trials.jsonl``, and what becomes of damage.

A line that is not a row costs its own trial and nothing else: it counts for nothing, every reader says so in the same
words, and the same run computes its trial again. A last line without a newline is being written, or was cut short
by a kill; it does not count either, and that is not damage.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from fieldbench.errors import RequestError
from fieldbench.records import Cell, cell_of, decode

_LOG = logging.getLogger("fieldbench")

#: What has been said already: a page that follows a run reads it again and again.
_SAID: set[str] = set()

#: Damaged lines that are named by number; of more, the count says enough.
_NAMED = 10


class RowLog:
    """The rows of a run's ``trials.jsonl`` in the order written, without their diagnostics.

    A trial that was run again is there several times. A file that is not there yet has no rows.

    Attributes:
        damaged: numbers of the lines, from 1, that are not rows, as far as has been read.
        whole: bytes up to the last newline, as far as has been read.
    """

    def __init__(self, file: Path) -> None:
        self.damaged: list[int] = []
        self.whole = 0
        self._file = file

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """
        Raises:
            RequestError: if the file cannot be read.
        """
        self.damaged, self.whole = [], 0
        with opened(self._file) as stream:
            for _, row in self.of(stream):
                yield row
        self.tell()

    def of(self, stream: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The rows of an open file, each with the number of its line."""
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                return
            self.whole += len(line)
            if line.isspace():
                continue
            try:
                yield number, decode(line, diagnostics=False)
            except ValueError:
                self.damaged.append(number)

    def tell(self) -> None:
        """Say once what is damaged."""
        text = damage(self._file, self.damaged)
        which = f"{self._file.resolve()} {self.damaged}"
        if text and which not in _SAID:
            _SAID.add(which)
            _LOG.warning(text)


def damage(file: Path, lines: list[int]) -> str:
    """What is damaged, in one line; an empty text where nothing is.

    >>> damage(Path("run/trials.jsonl"), [3])
    'run/trials.jsonl: line 3 is damaged and counts for nothing; the same run computes its trial again'
    """
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{file}: line {lines[0]} is damaged and counts for nothing; the same run computes its trial again"
    named = ", ".join(map(str, lines[:_NAMED])) + (", ..." if len(lines) > _NAMED else "")
    count = f"{len(lines)} lines are damaged ({named}) and count"
    return f"{file}: {count} for nothing; the same run computes their trials again"


class Counted:
    """The rows that count, one a trial: of a trial that was run again the last, of a cell those of one identity.

    They are those that were there at the first of them, however the run goes on meanwhile.

    Attributes:
        identities: of the cells, once the first row is there.
        damaged: numbers of the lines that are not rows, once the first row is there.
    """

    def __init__(
        self,
        file: Path,
        identities: Mapping[Cell, str],
        *,
        diagnostics: bool = True,
        keys: Container[str] | None = None,
        superseded: bool = False,
    ) -> None:
        """
        Args:
            file: the ``trials.jsonl`` of a run.
            identities: of the cells; the rows of a cell with another identity are superseded. A cell that is
                missing here has the identity of its last row.
            diagnostics: whether they are wanted.
            keys: of the trials that are wanted; None means all.
            superseded: whether superseded rows are wanted as well.
        """
        self.identities: dict[Cell, str] = dict(identities)
        self.damaged: list[int] = []
        self._file, self._diagnostics, self._keys, self._superseded = file, diagnostics, keys, superseded

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """
        Raises:
            RequestError: if the file cannot be read.
        """
        # Read twice through one handle: what is written, or takes the file's place, after the first time is left out.
        with opened(self._file) as stream:
            wanted = self._last_lines(stream)
            stream.seek(0)
            for number, line in enumerate(stream, 1):
                if number in wanted:
                    row = decode(line, diagnostics=self._diagnostics)
                    if self._superseded or row["identity"] == self.identities[cell_of(row)]:
                        yield row

    def _last_lines(self, stream: IO[bytes]) -> set[int]:
        """Numbers of the last line of each trial that is wanted."""
        reading = RowLog(self._file)
        last: dict[str, int] = {}
        found: dict[Cell, str] = {}
        for number, row in reading.of(stream):
            last[row["key"]] = number
            found[cell_of(row)] = row["identity"]
        self.identities = found | self.identities
        self.damaged = reading.damaged
        reading.tell()
        return {number for key, number in last.items() if self._keys is None or key in self._keys}


def opened(file: Path) -> IO[bytes]:
    """The file, open; an empty one where none has been written yet.

    Raises:
        RequestError: if it is not a file or cannot be read.
    """
    try:
        if file.exists() and not file.is_file():  # a pipe would be waited for
            raise RequestError(f"{file} is not a file; a run keeps its records there")
        return file.open("rb", buffering=1 << 20)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}") from None
