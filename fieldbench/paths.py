"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path

from fieldbench.errors import RequestError


def expanded(text: str) -> Path:
    """The path with the home folder in place of ``~`` or ``~user``.

    Raises:
        RequestError: if there is no such user, or this one has no home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise RequestError(f"{text!r}: {Path(text).parts[0]} is nobody's home folder; write the path in full") from None
