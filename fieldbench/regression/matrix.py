"""The small matrix that the regression check runs, and what of a suite can be run here."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from importlib.resources import as_file, files

from fieldbench.errors import DataUnavailable, RequestError
from fieldbench.registry import Registry
from fieldbench.suite import Row, Suite

FOLDER = files("fieldbench") / "regression"


def small() -> Suite:
    """The matrix that ships with fieldbench."""
    data = tomllib.loads((FOLDER / "matrix.toml").read_text(encoding="utf-8"))
    with as_file(FOLDER / "field.csv") as file:
        for column in data["columns"]:
            column["dataset"] = column["dataset"].replace("FIELD", json.dumps(str(file)))
    return Suite.model_validate(data)


def narrowed(suite: Suite, methods: Sequence[str]) -> Suite:
    """Only these methods; one that the suite does not have meets all of its columns."""
    rows: list[Row] = []
    for name in methods:
        try:
            found = suite.narrowed([name]).rows
        except RequestError:
            found = [Row(label=name, method=name)]
        rows += [row for row in found if row not in rows]
    return suite.model_copy(update={"rows": rows}) if methods else suite


def available(suite: Suite, registry: Registry) -> tuple[Suite, list[str]]:
    """The suite without the columns whose data is not at hand, and the reason for each dataset that is left out.

    Raises:
        RequestError: if nothing is left.
    """
    reasons = {}
    for dataset in dict.fromkeys(suite.setting(column).dataset for column in suite.columns):
        try:
            registry.dataset(dataset).prepare()
        except DataUnavailable as error:
            reasons[dataset] = str(error)
    kept = [at for at, column in enumerate(suite.columns) if suite.setting(column).dataset not in reasons]
    if not kept:
        raise RequestError(f"no dataset of {suite.title!r} is at hand: {next(iter(reasons.values()))}")
    rows = [
        row.model_copy(
            update={
                "method": row.method if isinstance(row.method, str) else [row.method[at] for at in kept],
                "published": [row.published[at] for at in kept] if row.published else [],
            }
        )
        for row in suite.rows
    ]
    columns = [suite.columns[at] for at in kept]
    left_out = [f"{dataset} is left out: {reason}" for dataset, reason in reasons.items()]
    return suite.model_copy(update={"columns": columns, "rows": rows}), left_out
