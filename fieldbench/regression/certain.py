"""Changes of paired trials that no chance explains: digits beyond arithmetic, lost scores, new failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from fieldbench.records import FAILED, NOT_APPLICABLE, OK
from fieldbench.regression.cells import SCOPES, finite, place
from fieldbench.regression.finding import Finding, direction, relative
from fieldbench.regression.reference import CELL
from fieldbench.report.numbers import significant


def moved_exactly(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Cells in which a score differs by more than arithmetic can."""
    for name, scope in SCOPES:
        known = finite(pairs, f"{name}_old", f"{name}_new")
        change = known[f"{name}_new"] - known[f"{name}_old"]
        moved = known[change.abs() > known["rtol_old"] * known[f"{name}_old"].abs()]
        for _, part in moved.groupby(list(CELL), sort=False):
            yield _sure_finding(part, name, scope, f"digits agree to {part['rtol_old'].iloc[0]:.0e}")


def unfounded(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Cells in which a score was a number and is none, or the other way about, or is infinite otherwise than before."""
    for name, scope in SCOPES:
        before, after = pairs[f"{name}_old"].astype(float), pairs[f"{name}_new"].astype(float)
        alike = (np.isfinite(before) & np.isfinite(after)) | (before == after) | (before.isna() & after.isna())
        for _, part in pairs[~alike].groupby(list(CELL), sort=False):
            yield replace(_sure_finding(part, name, scope, "not a number"), direction="changed", change="-")


def _sure_finding(part: pd.DataFrame, name: str, scope: str, why: str) -> Finding:
    before, after = (part[f"{name}_{when}"].mean(skipna=False) for when in ("old", "new"))
    return Finding(
        f"{part['metric_old'].iloc[0]}{scope}", str(part["method"].iloc[0]), place(part),
        direction((after - before) * part["sense_old"].iloc[0]), significant(before), significant(after),
        relative(before, after), len(part), f"certain ({why})",
    )  # fmt: skip


def other_metric(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Trials scored by another metric than before, which nothing can be said about."""
    now = pairs[pairs["metric_old"] != pairs["metric_new"]]
    for (method, before, after), part in now.groupby(["method", "metric_old", "metric_new"], sort=False):
        yield Finding(
            "metric", str(method), place(part), "changed", str(before), str(after), "-", len(part), "certain (named)"
        )


def broken(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Trials that now raise and did not, or now refuse what went well: the same observation, so this is no chance."""
    old, new = pairs["status_old"], pairs["status_new"]
    now = pairs[old.isin([OK, NOT_APPLICABLE]) & (new == FAILED) | (old == OK) & (new == NOT_APPLICABLE)]
    for (method, status), part in now.groupby(["method", "status_new"], sort=False):
        total = int((pairs["method"] == method).sum())
        yield Finding(
            "failures", str(method), place(part), "worse", "0", str(len(part)), f"now {status}", total,
            "certain (same observations)",
        )  # fmt: skip
