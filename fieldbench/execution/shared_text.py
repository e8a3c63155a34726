"""A short text that one process writes and another reads whenever it likes, in a file without a name.

A judge writes which plugin it is calling. The parent writes how many CPU threads a trial may use.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import weakref

#: Where a process has it. Descriptors 0 to 2 are the usual ones, 3 is the socket, and 4 tells of the parent's end.
DESCRIPTOR = 5

_LONGEST = 4000


class SharedText:
    """A new one, or the one that another process has handed over. Its file is closed when nobody holds it any more."""

    def __init__(self, descriptor: int | None = None) -> None:
        """
        Args:
            descriptor: the file of the one that was handed over.
        """
        if descriptor is None:
            if sys.platform == "linux":
                descriptor = os.memfd_create("shared text")
            else:
                with tempfile.TemporaryFile() as file:
                    descriptor = os.dup(file.fileno())
            weakref.finalize(self, os.close, descriptor)
        self.descriptor = descriptor

    def write(self, text: str) -> None:
        """Write in place of what was there."""
        content = text.encode("utf-8", "replace")[:_LONGEST]
        with contextlib.suppress(OSError):  # the disk is full
            os.pwrite(self.descriptor, len(content).to_bytes(4, "big") + content, 0)

    def read(self) -> str:
        """What is there; the other process may have written anything."""
        content = os.pread(self.descriptor, 4 + _LONGEST, 0)
        return content[4 : 4 + int.from_bytes(content[:4], "big")].decode(errors="replace")
