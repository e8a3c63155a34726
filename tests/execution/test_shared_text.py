"""What one process writes and another reads whenever it likes."""

from __future__ import annotations

import os

import pytest

from fieldbench.execution.shared_text import SharedText


def test_the_other_end_reads_what_was_written_last() -> None:
    ours = SharedText()
    theirs = SharedText(ours.descriptor)
    assert theirs.read() == ""
    ours.write("dataset of a long name")
    ours.write("größe")
    assert theirs.read() == "größe"


def test_a_text_that_is_too_long_is_cut() -> None:
    text = SharedText()
    text.write("x" * 10**6)
    assert text.read() == "x" * 4000


@pytest.mark.parametrize("content", [b"\xff" * 9000, b"\0\0", b"\0\0\0\x05\xc3", b""])
def test_whatever_a_plugin_puts_there_is_read_as_a_text(content: bytes) -> None:
    text = SharedText()
    os.ftruncate(text.descriptor, 0)
    os.pwrite(text.descriptor, content, 0)
    assert len(text.read()) <= 4000


def test_its_file_is_closed_when_nobody_holds_it() -> None:
    text = SharedText()
    descriptor = text.descriptor
    del text
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
