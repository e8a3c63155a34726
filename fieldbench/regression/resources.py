"""Troubles that a machine causes, memory and time: more of them than it explains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from fieldbench.records import OK
from fieldbench.regression.cells import cells_of, only, place, slices
from fieldbench.regression.finding import Finding
from fieldbench.regression.significance import Suspicion, beyond, standard_error

#: Growth up to these factors does not count however sure it is.
MEMORY_FACTOR, TIME_FACTOR = 1.25, 1.5

#: Nor does growth by so many MiB: a worker keeps the libraries that other methods' trials have loaded, and torch with
#: all that comes with it takes some 180.
MEMORY_SPARE = 256.0

#: A machine in order spoils (time-out, crash, memory) one trial in so many.
TROUBLE_FREE = 1000


def troubles(
    old: pd.DataFrame, new: pd.DataFrame, cells: set[tuple[object, ...]], harmless: tuple[str, ...]
) -> Iterator[Suspicion]:
    """Time-outs, crashes and exhausted memory, which a machine may cause: too many of them for that.

    Slices without any are suspected too, with no reason: how many tests are made must not depend on the outcome.
    """
    from scipy import stats

    old, new = only(old, cells), only(new, cells)
    for part in slices(new):
        trouble = ~part["status"].isin(harmless)
        count, total = int(trouble.sum()), len(part)
        before = only(old, cells_of(part))
        earlier = int((~before["status"].isin(harmless)).sum())
        if not count:
            name, p = "", 1.0
        elif earlier:
            table = [[count, total - count], [earlier, len(before) - earlier]]
            name, p = "Fisher", float(stats.fisher_exact(table, alternative="greater").pvalue)
        else:
            name = f"binomial, 1 in {TROUBLE_FREE}"
            p = float(stats.binom.sf(count - 1, total, 1 / TROUBLE_FREE))
        kinds = ", ".join(dict.fromkeys(part["status"][trouble]))
        finding = Finding(
            "failures", str(part["method"].iloc[0]), place(part), "worse", str(earlier), str(count), f"now {kinds}",
            total, name,
        )  # fmt: skip
        yield Suspicion((finding.method, "failures"), p, frozenset(part.index), partial(replace, finding))


def told_apart(frame: pd.DataFrame) -> pd.DataFrame:
    """Trials that went well without a score that is a number, as a status of their own; pairs show them for certain."""
    lost = (frame["status"] == OK) & ~np.isfinite(frame["score"].astype(float))
    return frame.assign(status=frame["status"].mask(lost, "without a score"))


def grown(
    pairs: pd.DataFrame, name: str, measure: str, factor: float, *, spare: float = 0.0, counts: bool
) -> Iterator[Suspicion]:
    """Memory or time that has grown by more than a factor and by more than ``spare``, a method at a time.

    Tested are the mean logarithms of ratios to that bound.
    """
    known = pairs[(pairs[f"{name}_old"] > 0) & (pairs[f"{name}_new"] > 0)]
    for method, part in known.groupby("method", sort=False):
        if len(part) < 3:
            continue
        old, new = (part[f"{name}_{when}"].to_numpy(float) for when in ("old", "new"))
        excess = np.log(new / np.maximum(factor * old, old + spare))
        mean = float(excess.mean())
        p = beyond(mean, standard_error(excess), len(excess) - 1, 0.0) if mean > 0 else 1.0
        unit = " MiB" if measure == "memory" else " x"
        finding = Finding(
            measure, str(method), "all", "worse", f"{np.median(old):.3g}{unit}", f"{np.median(new):.3g}{unit}",
            f"x {math.exp(np.log(new / old).mean()):.2f}", len(part), "paired t", counts,
        )  # fmt: skip
        yield Suspicion((finding.method, measure), p, frozenset(part.index), partial(replace, finding))
