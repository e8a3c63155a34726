"""Names that are not taken."""

from __future__ import annotations

from collections.abc import Container
from itertools import chain, count


def unused(name: str, taken: Container[str], mark: str = "_") -> str:
    """The name, or with a mark and a number behind it where it is taken.

    >>> unused("t_std", {"t_std", "t_std_2"})
    't_std_3'
    """
    numbered = (f"{name}{mark}{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)
