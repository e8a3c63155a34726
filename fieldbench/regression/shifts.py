"""Errors that have shifted in the mean, in pairs or by distribution, and single trials that have gone astray."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from fieldbench.regression.cells import SCOPES, cells_of, finite, only, place, slices
from fieldbench.regression.finding import Finding, direction
from fieldbench.regression.reference import CELL
from fieldbench.regression.significance import Suspicion, beyond, outside, standard_error
from fieldbench.regression.spread import moderated
from fieldbench.report.numbers import significant

#: Relative shifts up to this do not count however sure they are.
ERROR_MARGIN = 0.01

#: What the metrics of several datasets are called together.
MIXED = "error"


def shifts(pairs: pd.DataFrame) -> Iterator[Suspicion]:
    """Mean relative changes of paired trials."""
    for name, scope in SCOPES:
        known = finite(pairs, f"{name}_old", f"{name}_new")
        if known.empty:
            continue
        scale = known.groupby(list(CELL))[f"{name}_old"].transform(lambda values: values.abs().mean())
        change = _over(known[f"{name}_new"] - known[f"{name}_old"], scale) * known["sense_old"]
        for part in slices(known):
            values = change[part.index].to_numpy()
            if len(values) < 3:
                continue
            p = beyond(float(values.mean()), standard_error(values), len(values) - 1, ERROR_MARGIN)
            finding = partial(
                _error_finding, part, _measure(part["metric_old"], scope), part[f"{name}_old"], part[f"{name}_new"],
                float(values.mean()), "paired t",
            )  # fmt: skip
            yield Suspicion((str(part["method"].iloc[0]), name), p, frozenset(part.index), finding)


def shifts_apart(old: pd.DataFrame, new: pd.DataFrame) -> Iterator[Suspicion]:
    """Differences of cell means where no trial of a cell is in both."""
    for name, scope in SCOPES:
        before, after = finite(old, name), finite(new, name)
        scales = before.groupby(list(CELL))[name].apply(lambda values: values.abs().mean())
        for piece in slices(before):
            cells = cells_of(piece)
            rivals = only(after, cells)
            part = only(piece, cells_of(rivals))
            tested = _welch(part, rivals, scales, name)
            if tested is None:
                continue
            shift, error, freedom = tested
            measure = _measure(part["metric"], scope)
            finding = partial(_error_finding, part, measure, part[name], rivals[name], shift, "Welch")
            p = beyond(shift, error, freedom, ERROR_MARGIN)
            yield Suspicion((str(part["method"].iloc[0]), name), p, frozenset(part.index), finding)


def _welch(old: pd.DataFrame, new: pd.DataFrame, scales: pd.Series, name: str) -> tuple[float, float, float] | None:
    """Mean over cells of the relative difference of their means, towards worse, its standard error and freedom.

    The variance within cells is pooled over the cells of each side.
    """
    sides = []
    for frame in (new, old):
        if frame.empty:
            return None
        units = np.array([scales[cell] for cell in frame[list(CELL)].itertuples(index=False, name=None)])
        relative = _over(frame[name], pd.Series(units, index=frame.index)) * frame["sense"]
        groups = relative.groupby([frame[key] for key in CELL])
        freedom = int(groups.size().sum() - groups.ngroups)
        if freedom < 2:
            return None
        pooled = float((groups.var(ddof=0) * groups.size()).sum() / freedom)
        sides.append((groups.mean(), pooled * float((1 / groups.size()).sum()) / groups.ngroups**2, freedom))
    (means, variance, freedom), (old_means, old_variance, old_freedom) = sides
    shift = float((means - old_means).mean())
    total = variance + old_variance
    if total == 0:
        return shift, 0.0, float(freedom + old_freedom)
    return shift, math.sqrt(total), total**2 / (variance**2 / freedom + old_variance**2 / old_freedom)


def astray(pairs: pd.DataFrame, reference: pd.DataFrame) -> Iterator[Suspicion]:
    """Single trials further from their old score than independent trials of a cell are from each other."""
    pairs, good = finite(pairs, "score_old", "score_new"), finite(reference, "score")
    for method, part in pairs.groupby("method", sort=False):
        groups = good[good["method"] == method].groupby(list(CELL))["score"]
        scales = groups.apply(lambda values: values.abs().mean())
        several = groups.size() > 1
        # Scores that are all 0 have no relative spread, and none at all.
        deviations = (groups.std()[several] / scales[several]).fillna(0.0)
        others = np.asarray(groups.size()[several] - 1, np.float64)
        variances, freedoms = moderated(np.asarray(deviations, np.float64) ** 2, others)
        spreads = dict(zip(deviations.index, zip(np.sqrt(2 * variances), freedoms, strict=True), strict=True))
        cells = list(part[list(CELL)].itertuples(index=False, name=None))
        units = pd.Series([scales[cell] for cell in cells], index=part.index)
        changes = _over(part["score_new"] - part["score_old"], units) * part["sense_old"]
        for cell, row, change in zip(cells, part.index.tolist(), changes, strict=True):
            if cell in spreads:
                p = outside(max(0.0, abs(change) - ERROR_MARGIN), *spreads[cell])
                finding = partial(_trial_finding, part, row, change)
                yield Suspicion((str(method), "trial"), p, frozenset([row]), finding)


def _trial_finding(pairs: pd.DataFrame, row: int, worse: float) -> Finding:
    pair = pairs.loc[[row]]
    measure = str(pair["metric_old"].iloc[0])
    finding = _error_finding(pair, measure, pair["score_old"], pair["score_new"], worse, "one trial")
    return replace(finding, where=f"{finding.where}, trial {pair['trial'].iloc[0]}")


def _error_finding(
    part: pd.DataFrame, measure: str, before: pd.Series, after: pd.Series, worse: float, test: str
) -> Finding:
    """A relative change towards worse of a slice; shown as the change of the metric, where there is one metric."""
    mixed = measure.partition(".")[0] == MIXED  # a mean over several units says nothing
    sense = 1.0 if mixed else float(part["sense_old" if "sense_old" in part else "sense"].iloc[0])
    return Finding(
        measure, str(part["method"].iloc[0]), place(part), direction(worse),
        "-" if mixed else significant(float(before.mean())), "-" if mixed else significant(float(after.mean())),
        f"{sense * worse:+.1%}", len(part), test,
    )  # fmt: skip


def _measure(metrics: pd.Series, scope: str) -> str:
    """The metric of a slice, or a word for several."""
    return f"{metrics.iloc[0] if metrics.nunique() == 1 else MIXED}{scope}"


def _over(change: pd.Series, scale: pd.Series) -> pd.Series:
    """A change relative to a scale; where the scale is 0 it is none or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(change == 0, 0.0, change / scale)
    return pd.Series(ratio, index=change.index)
