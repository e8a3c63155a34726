"""The small matrix that the regression check runs, and suites of others in its place."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from fieldbench import suite as suites
from fieldbench.errors import DataUnavailable, RequestError
from fieldbench.registry import Registry
from fieldbench.regression.reference import CALIBRATION
from fieldbench.suite import Row, Suite

FOLDER = files("fieldbench") / "regression"


@dataclass(frozen=True)
class Matrix:
    """What is run, and which methods' arithmetic is the same everywhere.

    Attributes:
        suite: the table.
        exact: relative tolerance by method, for those whose scores are compared to the last digit.
        skipped: why columns of the suite were left out, a line each.
    """

    suite: Suite
    exact: dict[str, float] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    def narrowed(self, methods: Sequence[str]) -> Matrix:
        """Only these methods; one that the suite does not have meets all of its columns."""
        if not methods:
            return self
        known: list[Row] = []
        for name in methods:
            try:
                known += self.suite.narrowed([name]).rows
            except RequestError:
                known.append(Row(label=name, method=name))
        rows = [row for position, row in enumerate(known) if row not in known[:position]]
        return Matrix(self.suite.model_copy(update={"rows": rows}), self.exact, self.skipped)

    def available(self, registry: Registry) -> Matrix:
        """Without the columns whose data is not at hand, each with the reason.

        Raises:
            RequestError: if nothing is left.
        """
        reasons: dict[str, str] = {}
        columns = []
        for column in self.suite.columns:
            dataset = self.suite.setting(column).dataset
            if dataset not in reasons:
                reasons[dataset] = _missing(registry, dataset)
            if not reasons[dataset]:
                columns.append(column)
        if not columns:
            raise RequestError(f"no dataset of {self.suite.title!r} is at hand: {next(iter(reasons.values()))}")
        skipped = tuple(f"{dataset} is left out: {reason}" for dataset, reason in reasons.items() if reason)
        return Matrix(_with_columns(self.suite, columns), self.exact, skipped)

    def calibrated(self) -> Matrix:
        """With the calibration job beside the methods."""
        rows = [Row(label="Calibration", method=CALIBRATION), *self.suite.rows]
        return Matrix(self.suite.model_copy(update={"rows": rows}), self.exact, self.skipped)


def small() -> Matrix:
    """The matrix that ships with fieldbench."""
    data: dict[str, Any] = tomllib.loads((FOLDER / "matrix.toml").read_text(encoding="utf-8"))
    with as_file(FOLDER / "field.csv") as file:
        for column in data["suite"]["columns"]:
            column["dataset"] = column["dataset"].replace("FIELD", json.dumps(str(file)))
    return Matrix(Suite.model_validate(data["suite"]), data["exact"])


def of_suite(name: str) -> Matrix:
    """A suite by name or file: the reference tables, or a plugin author's own."""
    return Matrix(suites.load(name))


def calibration() -> Path:
    """The single-file plugin with the calibration job."""
    with as_file(FOLDER / "calibration.py") as file:
        return file


def _missing(registry: Registry, dataset: str) -> str:
    """Why a dataset cannot be used here, or nothing."""
    try:
        registry.dataset(dataset).prepare()
    except DataUnavailable as error:
        return str(error)
    return ""


def _with_columns(suite: Suite, columns: list[suites.Column]) -> Suite:
    """The suite with some of its columns; lists of its rows have one entry a column."""
    kept = [suite.columns.index(column) for column in columns]
    rows = [
        row.model_copy(
            update={
                "method": row.method if isinstance(row.method, str) else [row.method[at] for at in kept],
                "published": [row.published[at] for at in kept] if row.published else [],
            }
        )
        for row in suite.rows
    ]
    return suite.model_copy(update={"columns": columns, "rows": rows})
