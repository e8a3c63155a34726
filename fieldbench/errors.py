"""The errors that a person using fieldbench can meet and mend."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pydantic


class FieldbenchError(Exception):
    """Base of every error that fieldbench raises on purpose.

    >>> import fieldbench
    >>> try:
    ...     fieldbench.make("gaussian[sigma=-1]")
    ... except FieldbenchError as error:
    ...     print(error)
    'gaussian[sigma=-1]': sigma = -1 of gaussian: input should be greater than 0
    """


class RequestError(FieldbenchError, ValueError):
    """The request was wrong: one line naming the thing, what is wrong, what would be right.

    The command line prints the message alone and exits with code 2.

    >>> import fieldbench
    >>> fieldbench.make("thin-plates")
    Traceback (most recent call last):
        ...
    fieldbench.errors.RequestError: there is no plugin 'thin-plates'; did you mean 'thin-plate'?
    """


class DataUnavailable(RequestError):
    """A dataset's files are neither on this machine nor to be had; the message says how to get them.

    >>> import fieldbench
    >>> fieldbench.located("sst.nc#0123456789ab")
    Traceback (most recent call last):
        ...
    fieldbench.errors.DataUnavailable: the data sst.nc#0123456789ab is not here; name its file again
    """


class FingerprintError(FieldbenchError):
    """A plugin could not be asked what data it rests on; the message says why."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return ``'; did you mean ...?'`` for the closest of ``choices``, or the list of them all.

    >>> nearest("tapp", ["tap", "tnn"])
    "; did you mean 'tap'?"
    >>> nearest("zzz", ["tap", "tnn"])
    '; there are: tap, tnn'
    """
    known = sorted(choices)
    return meant(word, known) or (f"; there are: {', '.join(known)}" if known else "; there are none")


def meant(word: str, choices: Iterable[str]) -> str:
    """Return ``'; did you mean ...?'`` for the closest of ``choices``, or nothing where none is close.

    >>> meant("tapp", ["tap", "tnn"]), meant("zzz", ["tap", "tnn"])
    ("; did you mean 'tap'?", '')
    """
    close = difflib.get_close_matches(word, sorted(choices), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def how_to_install(extra: str) -> str:
    """What to do about a library that is missing; fieldbench is installed from its checkout.

    >>> how_to_install("plots")
    "install the extra fieldbench-completion[plots]: pip install '.[plots]' in a checkout of fieldbench"
    """
    return f"install the extra fieldbench-completion[{extra}]: pip install '.[{extra}]' in a checkout of fieldbench"


#: A line that says more than this says it no better, and it is printed and kept for every trial.
LONGEST_LINE = 1000


def one_line(error: BaseException) -> str:
    """An exception as one line: its type and the first line of what it says, cut where it is very long.

    >>> one_line(ValueError("no such axis\\nsee the manual"))
    'ValueError: no such axis'
    """
    name = " ".join(type(error).__name__.split())
    try:
        lines = _said(error).strip().splitlines()
    except BaseException:  # it cannot even say what it is
        lines = []
    return in_one_line(f"{name}: {lines[0]}" if lines else name)


def _said(error: BaseException) -> str:
    """What an exception says; the first line of a complaint by pydantic would be how many there are."""
    pydantic = sys.modules.get("pydantic")  # what is not loaded has raised nothing
    if pydantic is not None and isinstance(error, pydantic.ValidationError):
        return first_complaint(error)
    return str(error)


def as_reason(error: BaseException) -> str:
    """Why something is not there, in one line: what a refusal says, and of any other exception its type, too.

    >>> as_reason(RequestError("nasdac needs fibers")), as_reason(KeyError("emitters"))
    ('nasdac needs fibers', "KeyError: 'emitters'")
    """
    return in_one_line(str(error)) if isinstance(error, RequestError) else one_line(error)


def in_one_line(text: str) -> str:
    """What a plugin says as one line, cut where it is very long.

    >>> in_one_line("no fibers here\\n  (see the manual)")
    'no fibers here (see the manual)'
    """
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."


def complaint(error: pydantic.ValidationError) -> tuple[tuple[str, ...], object, str]:
    """What pydantic found wrong first: where (outermost name first), what was given, and why it will not do."""
    # Where several types are allowed, "not finite" says more than "not a text" or "not a list".
    first = min(error.errors(), key=lambda found: found["type"] != "finite_number")
    message = first["msg"].removeprefix("Value error, ").strip() or "the class refuses it and says no reason"
    return tuple(map(str, first["loc"])), first["input"], message[0].lower() + message[1:]


def first_complaint(error: pydantic.ValidationError, *, quoted: bool = False) -> str:
    """The first complaint in one line, such as ``metrics.rmse: input should be a valid number``.

    Args:
        error: what pydantic raised.
        quoted: name the outermost one alone, and what was given: ``rates 2.0: input should be ...``.
    """
    path, given, message = complaint(error)
    where = f"{path[0]} {given!r}" if quoted and path else ".".join(path)
    return f"{where}: {message}" if where else message
