"""Floors beside the scores of methods: averages for tables and figures, and who is below them beyond chance."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from fieldbench.records import OK
from fieldbench.report.metadata import RunMetadata
from fieldbench.store.floors import Floor, read_floors

#: What a draw is known by.
DRAW = ["dataset", "sampler", "noise", "rate", "seed", "trial"]

#: What the row of a table says.
NOBODY = "floor: nobody can do better on average"
MEANING = f"{NOBODY}; +k % is how far above it a cell is, up to 999 %"

#: The chance that any method of a run is called below a floor and is not.
FALSE_ALARM = 1e-3


def read_floor_frame(run: Path) -> pd.DataFrame:
    """The floors of a run, one row a draw with the columns of :data:`DRAW` and one for each metric."""
    return floor_frame(read_floors(run).values())


def floor_frame(floors: Iterable[Floor]) -> pd.DataFrame:
    """Floors as a frame; a draw without a score has no row."""
    rows = [{**asdict(floor), **floor.metrics} for floor in floors if floor.metrics]
    return pd.DataFrame(rows, columns=None if rows else DRAW).drop(columns=["metrics", "identity"], errors="ignore")


def floors_of(part: pd.DataFrame, metric: str, floors: pd.DataFrame) -> pd.Series:
    """The floor of every row of a frame, by one metric; NaN where there is none.

    Args:
        part: rows of records.
        metric: that is shown.
        floors: of the draws, as :func:`read_floor_frame` gives them.
    """
    if metric not in floors or part.empty:
        return pd.Series(math.nan, index=part.index)
    keys = part[DRAW].astype(dict.fromkeys(DRAW[:3], object))
    known = floors[[*DRAW, metric]].rename(columns={metric: "floor"})
    return keys.merge(known, how="left", on=DRAW).set_index(part.index)["floor"]


def distance(percent: float) -> str:
    """How far above a floor, as text: nothing where it is unknown, or so far that a percentage says nothing.

    >>> distance(12.3), distance(math.nan), distance(5e16)
    ('+12 %', '', '')
    """
    return f"{round(percent) + 0:+d} %" if percent < 1000 else ""


def has_floor(metric: str, metadata: RunMetadata) -> bool:
    """Whether a metric can have a floor: less must be better without end."""
    return metadata.lower_is_better(metric) and metric not in metadata.targets


def leaks(frame: pd.DataFrame, metadata: RunMetadata, floors: pd.DataFrame) -> list[str]:
    """One line for each method that is below the floor of a dataset beyond chance: it knows more than it observed.

    All draws of a dataset count together, each by the ratio of score to floor; oracles look at the truth and are left
    out. The test is Student's, one-sided, with :data:`FALSE_ALARM` for the whole run.

    Args:
        frame: rows of records.
        metadata: what is known of the metrics.
        floors: of the draws, as :func:`read_floor_frame` gives them.
    """
    from scipy.stats import ttest_1samp

    found: list[tuple[float, str]] = []
    honest = frame[(frame["status"] == OK) & ~frame["select"].astype(str).str.startswith("oracle")]
    groups = list(honest.groupby(["dataset", "method"], observed=True)) if len(floors) else []
    for (dataset, method), part in groups:
        metric = metadata.headline_of(str(dataset))
        if metric not in part or not has_floor(metric, metadata):
            continue
        ratios = (part[metric] / floors_of(part, metric, floors)).to_numpy(dtype=float)
        ratios = ratios[np.isfinite(ratios)]
        if len(ratios) < 2 or ratios.mean() >= 1:
            continue
        chance = 0.0 if np.ptp(ratios) == 0 else float(ttest_1samp(ratios, 1, alternative="less").pvalue)
        below = f"{100 * (1 - ratios.mean()):.2g} % below the floor of {dataset} over {len(ratios)} trials"
        found.append((chance, f"leak: {method} is {below}; nobody can be, on average, by the observation alone"))
    return [text for chance, text in found if chance < FALSE_ALARM / len(groups)]
