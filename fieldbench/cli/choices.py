"""Options that choose a part of a run, the same in every command."""

from __future__ import annotations

from collections.abc import Sequence

from fieldbench.errors import RequestError
from fieldbench.spec import split


def levels(only: Sequence[str], option: str = "--only") -> dict[str, list[str]]:
    """What ``--only FACTOR=LEVEL,...`` asks for, by factor.

    >>> levels(["method=tap,tnn", "rate=0.1"])
    {'method': ['tap', 'tnn'], 'rate': ['0.1']}

    Raises:
        RequestError: if one is not of this form.
    """
    chosen: dict[str, list[str]] = {}
    for text in only:
        factor, equals, listed = text.partition("=")
        if not equals or not factor.strip() or not listed.strip():
            raise RequestError(
                f"{option} {text!r} is not understood; write {option} rate=0.1 or {option} method=tap,tnn"
            )
        chosen.setdefault(factor.strip(), []).extend(split(listed))
    return chosen
