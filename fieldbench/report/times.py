"""Seconds that can be compared: which of them count, how those of a cell were taken, and what marks them.

Seconds compare where one machine took them one trial at a time and warmed up (``--timing``). Beside other trials
they are longer, by nobody knows how much, and the first trial of a process has its imports and compilers in them.
A few such outliers move a mean far, so seconds are shown by their median.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import pandas as pd

#: The column of a record that all this is about.
SECONDS = "seconds"

#: How the seconds of a cell were taken: all alone, some beside other trials, some nobody knows how, all as first
#: trials of a process, or in several ways that have no common median.
Timing: TypeAlias = Literal["alone", "shared", "unknown", "first", "mixed"]

#: What stands behind seconds of each kind.
MARKS: dict[Timing, str] = {"alone": "", "shared": "*", "unknown": "*", "first": "§", "mixed": "¶"}

#: What the marks mean, and what to do.
MEANINGS: dict[str, str] = {
    "¶": "of several machines, devices or numbers of trials at once, so of none; run with --timing on one machine, "
    "or split by --columns machine,device",
    "§": "of the first trial of a process, with its start-up; run with --timing, or more trials",
    "*": "not taken alone on the machine, or not known how; run with --timing for seconds that compare",
}


def counted(frame: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """Which trials' seconds count: all, but the first of a process only in a cell that has no others.

    All rows have seconds; the columns ``by`` make a cell.
    """
    later = frame["timed"] != "first"
    return later | ~later.groupby([frame[name] for name in by], observed=True).transform("any")


def timings(frame: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """How the seconds of each cell were taken, as a :data:`Timing`, by cell."""
    cells = [frame[name] for name in by]
    several = _ways(frame, "device").groupby(cells, observed=True).nunique() > 1
    taken = pd.Series("shared", several.index)
    taken[(frame["timed"] == "").groupby(cells, observed=True).any()] = "unknown"
    for kind in ("alone", "first"):
        taken[(frame["timed"] == kind).groupby(cells, observed=True).all()] = kind
    taken[several] = "mixed"
    return taken


def left_out(count: int) -> str:
    """What is said of trials that do not count."""
    return f"{count} first trial{'s' * (count > 1)} of a process {'are' if count > 1 else 'is'} left out"


def caution(frame: pd.DataFrame) -> str:
    """What to know before the seconds of one setting's methods are compared; empty where they compare.

    Devices may differ from method to method, since each is part of how its method is used.
    """
    taken = timings(frame, ["method"])
    reasons = {
        "several machines, devices or slots": _ways(frame).nunique() > 1 or (taken == "mixed").any(),
        "start-up in some": (frame["timed"] == "first").any(),
        "not all taken alone": (~frame["timed"].isin(["alone", "first"])).any(),
    }
    found = [reason for reason, holds in reasons.items() if holds]
    return f"these seconds do not compare: {'; '.join(found)} (run with --timing)" if found else ""


def _ways(frame: pd.DataFrame, *also: str) -> pd.Series:
    """A number for each row, equal where machine, trials at once and being alone (and ``also``) are."""
    alone = (frame["timed"] == "alone").rename("alone")
    return frame.groupby(["machine", "slots", alone, *also], observed=True, sort=False).ngroup()
