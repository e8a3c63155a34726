"""The manifest of a run: the cells that were asked for, what is known of their specs, and when it was worked on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic import Field as Limited

from fieldbench.errors import RequestError, first_complaint
from fieldbench.plan import Plan
from fieldbench.records import CELL, LARGEST, Cell
from fieldbench.store.files import MANIFEST, TRIALS, write_whole

#: Version of the layout. A newer fieldbench reads an older one. Version 1 kept the requests in place of the cells.
FORMAT = 2

#: Numbers of trials, as (first, how many).
Span = tuple[int, int]


class PlannedCell(BaseModel):
    """A cell that was asked for.

    Attributes:
        method, dataset, sampler, noise, select, rate: the cell.
        identity: of what stands behind its specs now; rows of another are superseded. Empty where it is not known:
            then the last row's counts.
        trials: by base seed the numbers of the trials that were asked for.
    """

    model_config = ConfigDict(extra="ignore")

    method: str
    dataset: str
    sampler: str
    noise: str
    select: str
    rate: float = Limited(gt=0, le=1)
    identity: str = ""
    trials: dict[int, list[Span]] = {}

    @field_validator("trials")
    @classmethod
    def _sensible(cls, trials: dict[int, list[Span]]) -> dict[int, list[Span]]:
        for first, count in (span for spans in trials.values() for span in spans):
            if first < 0 or count < 1 or first + count - 1 > LARGEST:
                raise ValueError(f"({first}, {count}) are not numbers of trials")
        return {seed: _union(spans) for seed, spans in trials.items()}

    @property
    def cell(self) -> Cell:
        return Cell(*(getattr(self, name) for name in CELL))

    def count(self) -> int:
        """How many trials were asked for."""
        return sum(count for spans in self.trials.values() for _, count in spans)

    def asks_for(self, seed: int, number: int) -> bool:
        """Whether this trial was asked for."""
        return any(first <= number < first + count for first, count in self.trials.get(seed, ()))


class SessionEntry(BaseModel):
    """One time that the run was worked on; ``id`` is what records name it by. What else is known of it is kept."""

    model_config = ConfigDict(extra="allow")

    id: str = ""
    started: str = ""
    ended: str | None = None
    outcome: str | None = None
    host: str = ""
    process: int | None = None
    slots: dict[str, int] | None = None
    command: list[str] = []
    fieldbench: str = ""
    python: str = ""
    libraries: dict[str, str] = {}
    plugins: dict[str, str] = {}
    cpu: str = ""
    cores: int | None = None
    gpus: list[dict[str, Any]] = []
    failed_on: list[str] = []


class Manifest(BaseModel):
    """What a run's ``manifest.json`` says.

    Attributes:
        format: version of the layout.
        cells: what was asked for, in order.
        metadata: what tables must know of the specs, see :class:`fieldbench.report.metadata.RunMetadata`.
        sessions: each time that the run was worked on.
        secrets: secret base seeds that are known by now, in hexadecimal, by the labels that rows know them by.
    """

    model_config = ConfigDict(extra="ignore")

    format: int = Limited(ge=1, le=FORMAT)
    cells: list[PlannedCell]
    metadata: dict[str, Any] = {}
    sessions: list[SessionEntry] = []
    secrets: dict[int, Annotated[str, Limited(pattern="^[0-9a-f]{1,32}$")]] = {}

    @model_validator(mode="before")
    @classmethod
    def _of_an_older_version(cls, content: Any) -> Any:
        if isinstance(content, dict) and "facts" in content:
            content = {"metadata": content["facts"], **content}
        if isinstance(content, dict) and "plans" in content and "cells" not in content:
            plans = _PLANS.validate_python(content["plans"])
            cells = [cell for plan in plans for cell in plan.cells_asked_for()]
            return {**content, "cells": [cell.model_dump() for cell in joined(cells)]}
        return content

    @field_validator("cells")
    @classmethod
    def _each_once(cls, cells: list[PlannedCell]) -> list[PlannedCell]:
        return joined(cells)

    @property
    def identities(self) -> dict[Cell, str]:
        """The identity of each cell, where it is known."""
        return {planned.cell: planned.identity for planned in self.cells if planned.identity}

    def write(self, folder: Path) -> None:
        """Replace the manifest of a run.

        Raises:
            StorageError: if it cannot be written.
        """
        now = self.model_copy(update={"format": FORMAT})
        write_whole(folder / MANIFEST, now.model_dump_json(indent=1) + "\n")


class _PlanOfVersion1(BaseModel):
    class Asked(BaseModel):
        seed: int = 0
        trials: int = Limited(ge=1)
        first_trial: int = Limited(0, ge=0)

    request: Asked
    cells: list[tuple[str, str, str, str, str, float]]

    def cells_asked_for(self) -> Iterator[PlannedCell]:
        trials = {self.request.seed: [(self.request.first_trial, self.request.trials)]}
        for cell in self.cells:
            yield PlannedCell(**dict(zip(CELL, cell, strict=True)), trials=trials)


_PLANS = TypeAdapter(list[_PlanOfVersion1])


def planned(plan: Plan) -> list[PlannedCell]:
    """The cells of a plan, as a manifest has them."""
    trials = {plan.request.seed: [(plan.request.first_trial, plan.request.trials)]}
    return [PlannedCell(**asdict(cell), identity=plan.identity(cell), trials=trials) for cell in plan.cells]


def joined(cells: Iterable[PlannedCell]) -> list[PlannedCell]:
    """Each cell once, with all trials that were asked for; the last identity that is known counts."""
    found: dict[Cell, PlannedCell] = {}
    for new in cells:
        known = found.setdefault(new.cell, new.model_copy(deep=True))
        for seed, spans in new.trials.items():
            known.trials[seed] = _union([*known.trials.get(seed, ()), *spans])
        known.identity = new.identity or known.identity
    return list(found.values())


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest of a run.

    Raises:
        RequestError: if there is no run at ``path``, or its manifest is damaged.
    """
    folder = existing_run(path)
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise RequestError(f"{folder / MANIFEST} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        if any(found["loc"] == ("format",) and found["type"] == "less_than_equal" for found in error.errors()):
            raise RequestError(f"{folder} was written by a newer fieldbench; update this one to read it") from None
        raise RequestError(f"{folder / MANIFEST} is damaged ({first_complaint(error)}); {_WAY_OUT % folder}") from None


_WAY_OUT = "`fieldbench repair %s` makes it anew from the records"


def existing_run(path: str | os.PathLike[str]) -> Path:
    """The path, if a run is there.

    Raises:
        RequestError: if not.
    """
    path = Path(path)
    if not (path / MANIFEST).is_file():
        what = "has no manifest.json" if path.is_dir() else "is not there" if not path.exists() else "is a file"
        named = "give the folder that `fieldbench run` named"
        way_out = _WAY_OUT % path if (path / TRIALS).is_file() else named
        raise RequestError(f"{path} is not a run: it {what}; {way_out}")
    return path


def _union(spans: Iterable[Span]) -> list[Span]:
    """Disjoint spans in order.

    >>> _union([(5, 5), (0, 3), (2, 2)])
    [(0, 4), (5, 5)]
    """
    whole: list[Span] = []
    for first, count in sorted(spans):
        if whole and first <= sum(whole[-1]):
            start = whole[-1][0]
            whole[-1] = start, max(sum(whole[-1]), first + count) - start
        else:
            whole.append((first, count))
    return whole
