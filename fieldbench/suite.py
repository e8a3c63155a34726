"""Suites: a published table as a TOML file, with its settings, its numbers and their source.

A suite has columns (a dataset as it is observed) and rows (a method with its settings and, where there are
any, the published numbers). The paper's tables ship in ``fieldbench/suites``; a user's own file has the
same form, and its rows need no numbers::

    title = "My field"
    metric = "rmse"
    dataset = "ssf"

    [[columns]]
    label = "10 %"
    rate = 0.1

    [[rows]]
    label = "TAP"
    method = "tap"
    published = [0.56]
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fieldbench.errors import RequestError, first_complaint, nearest
from fieldbench.metric import Metric
from fieldbench.plan import Plan, Request, Setting, Texts
from fieldbench.records import LARGEST
from fieldbench.registry import Registry
from fieldbench.selection import Oracle
from fieldbench.spec import name_of


class Column(BaseModel):
    """One observed dataset; ``dataset`` and ``sampler`` fall back to the suite's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str
    rate: float
    dataset: str = ""
    sampler: str = ""
    noise: str = "none"


class Row(BaseModel):
    """One method with its settings.

    Attributes:
        label: how the source calls it.
        method: its spec, or one for each column.
        heading: rows of one heading stand together; the paper's own rows have none.
        published: the source's numbers, one for each column (``nan`` where it has none), or nothing.
        note: where the settings come from, if the source leaves them out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str
    method: str | list[str]
    heading: str = ""
    published: list[float] = []
    note: str = ""


class Suite(BaseModel):
    """A table to be computed, and what was published of it.

    Attributes:
        title, source: what it shows, and where the published numbers are from.
        metric: what the cells hold; ``rmse.unobserved`` scores unobserved entries only.
        dataset, sampler: of the columns that name none.
        trials: Monte-Carlo repetitions of each cell.
        seed: base seed.
        select: the selection rule, one for the whole table, for a cell has one number of ours.
        columns, rows: what is observed, and what meets it.
        exact: by bare name or spec of a method, the relative difference that its arithmetic may make between machines;
            regression checks hold its scores to that, and compare those of other methods statistically.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    metric: str
    source: str = ""
    dataset: str = ""
    sampler: str = ""
    trials: int = Field(10, ge=1)
    seed: int = Field(0, ge=0, le=LARGEST)
    select: Texts = ["final"]
    columns: list[Column] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)
    exact: dict[str, Annotated[float, Field(gt=0, lt=1)]] = {}

    @model_validator(mode="after")
    def _lists_fit(self) -> Suite:
        if len(self.select) != 1:
            raise ValueError(f"select has {len(self.select)} rules; a suite has one, since a cell has one number")
        for row in self.rows:
            for name, values in (("method", row.method), ("published", row.published or None)):
                if isinstance(values, list) and len(values) != len(self.columns):
                    raise ValueError(
                        f"row {row.label!r}: {name} has {len(values)} entries for {len(self.columns)} columns"
                    )
            if any(math.isinf(number) for number in row.published):
                raise ValueError(f"row {row.label!r}: a published number is infinite; write nan where there is none")
        for column in self.columns:
            if not (column.dataset or self.dataset):
                raise ValueError(f"column {column.label!r} names no dataset, and neither does the suite")
        return self

    def setting(self, column: Column) -> Setting:
        """The observed dataset that a column stands for."""
        return Setting(column.dataset or self.dataset, column.sampler or self.sampler, column.noise, column.rate)

    def method(self, row: Row, position: int) -> str:
        """The method spec of a row in the column at ``position``."""
        return row.method if isinstance(row.method, str) else row.method[position]

    def published(self, row: Row, position: int) -> float:
        """The published number of a row in the column at ``position``, or NaN where the source has none."""
        return row.published[position] if row.published else math.nan

    @property
    def rule(self) -> str:
        """The name of the selection rule."""
        return self.select[0].partition("[")[0]

    @property
    def uses_truth(self) -> bool:
        """Whether the rule looks at the truth."""
        return self.rule == Oracle.name

    def narrowed(self, methods: Sequence[str] = ()) -> Suite:
        """Only the rows whose method is named: by its bare name (``tap``), its composition or its spec.

        Raises:
            RequestError: if a name matches no row.
        """
        if not methods:
            return self
        known = {name for row in self.rows for name in self._names(row)}
        for name in methods:
            if name not in known:
                raise RequestError(f"{self.title}: no row has the method {name!r}{nearest(name, known)}")
        return self.model_copy(update={"rows": [row for row in self.rows if self._names(row) & set(methods)]})

    def labelled(self, labels: Mapping[str, str]) -> Suite:
        """With other labels of rows and columns, by the labels they have or the specs of their methods.

        Raises:
            RequestError: if a label is for no row and no column.
        """
        known = {name for row in self.rows for name in (row.label, row.method) if isinstance(name, str)}
        known |= {column.label for column in self.columns}
        for name in labels:
            if name not in known:
                raise RequestError(f"a label is for {name!r}, which this suite does not have{nearest(name, known)}")

        def renamed(part: Row | Column, *names: str) -> Row | Column:
            found = [labels[name] for name in names if name in labels]
            return part.model_copy(update={"label": found[0]}) if found else part

        rows = [renamed(row, row.label, str(row.method)) for row in self.rows]
        return self.model_copy(update={"rows": rows, "columns": [renamed(item, item.label) for item in self.columns]})

    def plan(self, registry: Registry) -> Plan:
        """The trials of this table.

        Raises:
            RequestError: if a spec in the suite is wrong, or its metric unknown.
        """
        metric = self._known_metric(registry)
        pairs = [
            (self.method(row, position), self.setting(column))
            for position, column in enumerate(self.columns)
            for row in self.rows
        ]
        request = Request(
            methods=list(dict.fromkeys(method for method, _ in pairs)),
            datasets=list(dict.fromkeys(setting.dataset for _, setting in pairs)),
            select=self.select,
            trials=self.trials,
            seed=self.seed,
        )
        return Plan(request, registry, pairs, metric)

    def _known_metric(self, registry: Registry) -> Metric:
        name = self.metric.partition(".")[0]
        known = [metric + scope for metric in registry.entries("metric") for scope in ("", ".unobserved")]
        if self.metric not in known:
            registry.find("metric", name)  # says more where its plugin is broken
            raise RequestError(f"unknown metric {self.metric!r}{nearest(self.metric, known)}")
        return registry.metric(name)

    def _names(self, row: Row) -> set[str]:
        specs = [row.method] if isinstance(row.method, str) else row.method
        return {*map(name_of, specs), *specs, row.label}


def built_in() -> dict[str, Traversable]:
    """The suites that ship with fieldbench, by name."""
    found = [entry for entry in (files("fieldbench") / "suites").iterdir() if entry.name.endswith(".toml")]
    return dict(sorted((entry.name.removesuffix(".toml"), entry) for entry in found))


def load(name: str) -> Suite:
    """A suite by its name, or from a TOML file.

    Raises:
        RequestError: if there is no such suite, or the file is not one.
    """
    shipped = built_in()
    source: Traversable | Path = shipped[name] if name in shipped else Path(name)
    if not source.is_file():
        raise RequestError(f"there is no suite or file {name!r}{nearest(name, shipped)}")
    try:
        return Suite.model_validate(tomllib.loads(source.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"{name}: not a TOML file: {error}") from None
    except pydantic.ValidationError as error:
        raise RequestError(f"{name}: {first_complaint(error)}") from None
