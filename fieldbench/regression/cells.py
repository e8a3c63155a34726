"""Parts of many trials: the cells they are in, slices of a method's, those whose scores are numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fieldbench.regression.reference import CELL

#: The scores of a trial, and what is added to the metric's name for each.
SCOPES = (("score", ""), ("unobserved", ".unobserved"))

#: What slices of a method's trials are tested besides all of them.
SLICES = ("dataset", "noise", "sampler")


def cells_of(frame: pd.DataFrame) -> set[tuple[object, ...]]:
    """The cells that trials are in."""
    return set(frame[list(CELL)].itertuples(index=False, name=None))


def only(frame: pd.DataFrame, cells: set[tuple[object, ...]]) -> pd.DataFrame:
    return frame[np.array([cell in cells for cell in frame[list(CELL)].itertuples(index=False, name=None)], bool)]


def finite(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The trials of which all these scores are numbers."""
    numbers: NDArray[np.bool_] = np.isfinite(frame[list(names)].to_numpy(float)).all(axis=1)
    return frame[numbers]


def slices(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """All trials of each method, then those with one level of a factor; no two slices of the same trials."""
    seen = set()
    for _, part in frame.groupby("method", sort=False):
        parts = [part, *(piece for factor in SLICES for _, piece in part.groupby(factor, sort=False))]
        for piece in parts:
            rows = frozenset(piece.index)
            if rows not in seen:
                seen.add(rows)
                yield piece


def place(part: pd.DataFrame) -> str:
    """What the trials of a slice have in common."""
    shared = [str(part[name].iloc[0]) for name in ("dataset", "sampler", "noise") if part[name].nunique() == 1]
    if part["rate"].nunique() == 1:
        shared.append(f"rate {part['rate'].iloc[0]:g}")
    return ", ".join(shared) if shared else "all"
