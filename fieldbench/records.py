"""What is computed and what came of it: cells, trials, records, and the one way to and from a stored row.

A *cell* is one number of a table, a *trial* one repetition of it, a *record* a trial and its outcome. A *row*
is a record as it lies on disk: flat, one JSON object a line.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic import Field as Limited
from typing_extensions import TypedDict

from fieldbench.errors import first_complaint

Status = Literal["ok", "failed", "not-applicable", "timeout", "crashed", "out-of-memory"]

OK: Status = "ok"
FAILED: Status = "failed"
NOT_APPLICABLE: Status = "not-applicable"
TIMEOUT: Status = "timeout"
CRASHED: Status = "crashed"
OUT_OF_MEMORY: Status = "out-of-memory"

#: Statuses that count as failures: exit code 1, and ``--retry-failed`` runs them again.
FAILURES: frozenset[str] = frozenset({FAILED, TIMEOUT, CRASHED, OUT_OF_MEMORY})

#: How the seconds of a record were taken: alone on the machine and warmed up (``--timing``), beside other trials,
#: or beside others and as the first of a process, so that imports and compilers are in them; empty where an older
#: fieldbench did not say.
Timed = Literal["alone", "shared", "first", ""]

#: Seeds and trial numbers are whole numbers of 64 bits in a frame.
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Cell:
    """One number of a table: a method on an observed dataset. Texts are canonical specs (``tap[epochs=500]+tv``)."""

    method: str
    dataset: str
    sampler: str
    noise: str
    select: str
    rate: float

    def __str__(self) -> str:
        """The cell in words, as messages name it.

        >>> str(Cell("tap", "ssf", "random", "none", "final", 0.1))
        'tap on ssf, random 10 %'
        """
        rest = [f"noise {self.noise}"] * (self.noise != "none") + [f"select {self.select}"] * (self.select != "final")
        return ", ".join([f"{self.method} on {self.dataset}", f"{self.sampler} {percent(self.rate)}", *rest])


CELL = tuple(item.name for item in fields(Cell))


@dataclass(frozen=True)
class Trial:
    """One repetition of a cell.

    Attributes:
        cell: what is computed.
        seed: base seed of the run.
        number: of the repetition, from 0.
        identity: hash of everything else that determines the result: all parameters, defaults included, and
            the code and data behind the specs.
    """

    cell: Cell
    seed: int
    number: int
    identity: str

    @cached_property
    def key(self) -> str:
        """24 hex digits that are equal for equal results; no path, device or execution option enters."""
        return _key(tuple(_stored(getattr(self.cell, name)) for name in CELL), self.seed, self.identity, self.number)

    @property
    def series(self) -> tuple[Cell, int, str]:
        """What the trials of one batch have in common: all but the number."""
        return self.cell, self.seed, self.identity


@dataclass(frozen=True)
class Record:
    """A trial and what came of it. Failures are records too.

    Attributes:
        status: ``ok``, ``failed``, ``timeout``, ``crashed``, ``out-of-memory`` or ``not-applicable``.
        error: one line saying why, for any status but ``ok``.
        metrics: scores by name; ``rmse.unobserved`` is RMSE over unobserved entries only.
        seconds: wall-clock seconds of the method alone (its share of a batch), GPU synchronised.
        device: what it ran on.
        peak_memory: largest resident memory of the method's process during the trial, in bytes; None where the
            system does not tell it.
        machine: a hash that tells one machine from another and says nothing else of it.
        slots: how many trials ran at once when it was computed.
        session: id of the session of the run in which it was computed.
        timed: how its seconds were taken, see :data:`Timed`.
        diagnostics: anything else worth keeping: curves over steps, the selected step, GPU memory, the most CPU
            threads that the method learned it may use, the metrics that failed to score, the histogram of
            probability transforms (``pit``).
    """

    trial: Trial
    status: str
    error: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    device: str = "cpu"
    peak_memory: int | None = None
    machine: str = ""
    slots: int = 0
    session: str = ""
    timed: Timed = ""
    diagnostics: dict[str, Any] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """The flat form that is stored; texts are what UTF-8 can hold of them."""
        trial = self.trial
        cell = {name: _stored(getattr(trial.cell, name)) for name in CELL}
        which = {"trial": trial.number, "seed": trial.seed, "identity": trial.identity}
        outcome = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "trial"}
        return {"key": trial.key, **cell, **which, **outcome}


def percent(rate: float) -> str:
    """
    >>> percent(0.125)
    '12.5 %'
    """
    return f"{100 * rate:.6g} %"


def largest_difference(first: Mapping[str, float], other: Mapping[str, float]) -> tuple[str, float]:
    """The metric whose scores differ most, relative to the larger; two that are both missing or NaN are alike."""

    def apart(one: float | None, two: float | None) -> float:
        if one is None or two is None or not (math.isfinite(one) and math.isfinite(two)):
            return 0.0 if repr(one) == repr(two) else math.inf
        return abs(one - two) / max(abs(one), abs(two), 1e-300)

    differences = {name: apart(first.get(name), other.get(name)) for name in sorted({*first, *other})}
    return max(differences.items(), key=itemgetter(1), default=("", 0.0))


def cell_of(row: Mapping[str, Any]) -> Cell:
    """The cell of a stored row."""
    return Cell(*_cell(row))


def trial_of(row: Mapping[str, Any]) -> Trial:
    """The trial of a stored row."""
    return Trial(cell_of(row), row["seed"], row["trial"], row["identity"])


def encode(row: Mapping[str, Any]) -> bytes:
    """A row as one line; every number of numpy is one of JSON."""
    # Half a surrogate pair, such as an undecodable byte of a file's name, cannot be written in UTF-8 nor in JSON.
    return _LINES.encode(row).encode("utf-8", "replace") + b"\n"


def decode(line: bytes, *, diagnostics: bool = True) -> dict[str, Any]:
    """The row of a stored line.

    Args:
        line: with or without the newline at its end.
        diagnostics: whether they are wanted; curves and tracebacks are most of a row.

    Raises:
        ValueError: if it is not a row, in words that say why.
    """
    try:
        row: dict[str, Any] = (_WHOLE if diagnostics else _BRIEF).validate_json(line)
    except ValidationError as error:
        raise ValueError(first_complaint(error)) from None
    if row["key"] != _key(_cell(row), row["seed"], row["identity"], row["trial"]):
        raise ValueError("its key is not that of its trial")
    if not NAMES.isdisjoint(row.get("metrics", ())):
        raise ValueError("a metric has the name of something else in a row")
    return row


_Count = Annotated[int, Limited(ge=0, le=LARGEST, strict=True)]
_Number = Annotated[float, Limited(strict=True)]
_Seconds = Annotated[float, Limited(ge=0, strict=True, allow_inf_nan=False)]


class _Brief(TypedDict):
    """What a stored line holds. What a newer fieldbench adds is no reason to refuse it."""

    __pydantic_config__ = ConfigDict(extra="ignore")  # type: ignore[misc]

    key: str
    method: str
    dataset: str
    sampler: str
    noise: str
    select: str
    rate: Annotated[float, Limited(gt=0, le=1, strict=True)]
    trial: _Count
    seed: _Count
    identity: str
    status: Status
    error: NotRequired[str]
    metrics: NotRequired[dict[str, _Number]]
    seconds: NotRequired[_Seconds | None]
    device: NotRequired[str]
    peak_memory: NotRequired[_Seconds | None]
    machine: NotRequired[str]
    slots: NotRequired[_Count]
    session: NotRequired[str]
    timed: NotRequired[Timed]


class _Diagnostics(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    curve: NotRequired[dict[str, list[float | None]]]
    traceback: NotRequired[str]


def _or_nothing(value: object, sound: ValidatorFunctionWrapHandler) -> object:
    """Scores do not rest on diagnostics, so those that cannot be used cost themselves alone."""
    try:
        return sound(value)
    except ValidationError:
        return {}


class _Whole(_Brief):
    diagnostics: NotRequired[Annotated[_Diagnostics, WrapValidator(_or_nothing)]]


#: Names in a row; no metric can have one of them, since both become columns of a table.
NAMES = frozenset(_Whole.__annotations__)

_BRIEF: TypeAdapter[Any] = TypeAdapter(_Brief)
_WHOLE: TypeAdapter[Any] = TypeAdapter(_Whole)
_cell = itemgetter(*CELL)


def _key(cell: tuple[Any, ...], seed: int, identity: str, number: int) -> str:
    digest = _series_digest(cell, seed, identity).copy()
    digest.update(b"%d}" % number)
    return str(digest.hexdigest()[:24])


@lru_cache(maxsize=4096)
def _series_digest(cell: tuple[Any, ...], seed: int, identity: str) -> Any:
    """The hash of a trial's canonical JSON as far as its number, whose name ("trial") sorts last."""
    named = {**dict(zip(CELL, cell, strict=True)), "seed": seed, "identity": identity, "trial": 0}
    return hashlib.sha256(canonical(named).removesuffix("0}").encode())


def canonical(value: object) -> str:
    """JSON that is equal for equal values: keys sorted, no spaces."""
    return _CANONICAL.encode(value)


def _stored(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """A numpy number or array as JSON has it."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_LINES = json.JSONEncoder(separators=(",", ":"), default=_plain, ensure_ascii=False)
