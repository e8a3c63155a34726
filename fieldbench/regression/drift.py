"""What has moved between a reference and a run, by how much, and how sure that is.

Trials that are the same by name are compared in pairs; cells that have no trial in common (another seed, say)
by their distributions. Kinds of evidence:

- *Exact.* A reference may say that a method's arithmetic is the same on every CPU up to a relative difference.
  Beyond it, the score has moved: that is certain. So it is if a score is no number any more, or was none.
- *A shift of the mean* of relative changes, over a method's trials and over those of one dataset, noise or
  sampler. The null hypothesis is a shift of at most a margin (a minimum-effect test: Murphy and Myors 1999), by
  Student's t for pairs and Welch's for distributions.
- *One trial* that has moved further than two independent trials of its cell lie apart (a prediction interval;
  :mod:`spread`). It is for the single trial that goes astray, which a mean over many hides.
- *Troubles*, which any machine may cause now and then: more of them than that explains.

Each family of tests is corrected by Holm's procedure at its share of :data:`ALPHA`, so that a check in which
nothing has moved raises a false alarm with at most that probability.

Changes count towards worse: ``sense`` is -1 for a metric of which more is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fieldbench.errors import RequestError
from fieldbench.regression.reference import CELL, KEY, Scores
from fieldbench.regression.spread import moderated
from fieldbench.report.comparison import holm, p_text
from fieldbench.trial import FAILED, NOT_APPLICABLE, OK

#: Chance of any false alarm in a check, shared equally among the families of tests.
ALPHA = 0.01
FAMILIES = ("error", "trial", "failures", "memory", "time")

#: Shifts up to these do not count however sure they are: relative for errors, factors for memory and time.
ERROR_MARGIN, MEMORY_FACTOR, TIME_FACTOR = 0.01, 1.25, 1.5

#: A machine in order spoils (time-out, crash, memory) one trial in so many.
TROUBLE_FREE = 1000

#: What slices of a method's trials are tested besides all of them.
SLICES = ("dataset", "noise", "sampler")

#: What the metrics of several datasets are called together.
MIXED = "error"

#: The scores of a trial, and what is added to the metric's name for each.
SCOPES = (("score", ""), ("unobserved", ".unobserved"))

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """Something that has moved.

    Attributes:
        measure: ``rmse``, ``rmse.unobserved``, ``error`` (of several metrics), ``failures``, ``memory`` or ``time``.
        method: whose.
        where: the slice of its trials.
        direction: ``worse``, ``better`` or, for what cannot be told, ``changed``.
        before, after: mean of the measure, or a count.
        change: by how much, in words.
        trials: over how many trials.
        sure: why this is no chance.
        counts: whether it fails the check.
    """

    measure: str
    method: str
    where: str
    direction: str
    before: str
    after: str
    change: str
    trials: int
    sure: str
    counts: bool = True


@dataclass(frozen=True)
class Drift:
    """The outcome of a check.

    Attributes:
        findings: what has moved.
        paired, exact, unpaired: trials whose scores were compared in pairs, those of them to the last digit, and
            by distribution.
        notes: what was not compared, and why.
    """

    findings: tuple[Finding, ...]
    paired: int
    exact: int
    unpaired: int
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return any(finding.counts for finding in self.findings)

    def to_text(self) -> str:
        """A table of what has moved, and what was compared how."""
        from tabulate import tabulate

        pieces = []
        if self.findings:
            heads = ["measure", "method", "where", "is", "before", "now", "change", "trials", "how sure"]
            rows = [
                [f.measure, f.method, f.where, f.direction + " *" * (not f.counts), f.before, f.after, f.change]
                for f in self.findings
            ]
            for row, finding in zip(rows, self.findings, strict=True):
                row += [str(finding.trials), finding.sure]
            pieces.append(tabulate(rows, heads, disable_numparse=True))
        else:
            pieces.append("Nothing has moved." if self.paired + self.unpaired else "No score could be compared.")
        compared = (
            f"Compared: {self.paired} trials in pairs, {self.exact} of them to the last digit that arithmetic "
            f"supports; {self.unpaired} trials by distribution."
        )
        bound = (
            f"Margins: {ERROR_MARGIN:.0%} in error, a factor {MEMORY_FACTOR:g} in memory and {TIME_FACTOR:g} in time "
            f"(multiples of the calibration job); false alarms in at most {ALPHA:.0%} of checks (Holm)."
        )
        pieces.append("\n".join([compared, bound, *self.notes]))
        return "\n\n".join(pieces)

    def __str__(self) -> str:
        return self.to_text()


@dataclass(frozen=True)
class _Suspicion:
    """What may be a finding, once its p-value is corrected together with the others of its family."""

    subject: tuple[str, str]  # method and measure
    p: float
    rows: frozenset[int]
    finding: Callable[[], Finding]


def compare(reference: Scores, run: Scores) -> Drift:
    """Find what has moved.

    Raises:
        RequestError: if the two have no cell in common.
    """
    high = {*reference.higher_is_better, *run.higher_is_better}
    old, new = (scores.frame.assign(sense=_senses(scores.frame, high)) for scores in (reference, run))
    pairs = old.merge(new, on=list(KEY), suffixes=("_old", "_new"))
    met = set(pairs[list(CELL)].itertuples(index=False, name=None))
    old_cells = set(old[list(CELL)].itertuples(index=False, name=None))
    new_cells = set(new[list(CELL)].itertuples(index=False, name=None))
    apart = (old_cells & new_cells) - met
    if not met and not apart:
        methods = ", ".join(dict.fromkeys(new["method"]))
        raise RequestError(
            f"the reference has no trial of what was run ({methods}); freeze this run to compare with it"
        )

    good = pairs[(pairs["status_old"] == OK) & (pairs["status_new"] == OK)]
    scored = good[good["metric_old"] == good["metric_new"]]
    exact = scored["rtol_old"].notna()
    loose = scored[~(scored["rtol_old"] <= ERROR_MARGIN)]  # a wider tolerance could hide a shift of the mean
    old_apart, new_apart = _only(old, apart), _only(new, apart)
    old_scored, new_scored = (frame[frame["status"] == OK] for frame in (old_apart, new_apart))
    machines = good[good["device_old"] == good["device_new"]]
    alone = reference.alone and run.alone
    findings = [*_moved_exactly(scored[exact]), *_unfounded(scored), *_other_metric(good), *_broken(pairs)]
    families = {
        "error": [*_shifts(loose), *_shifts_apart(old_scored, new_scored)],
        "trial": list(_astray(loose, old[old["status"] == OK])),
        "failures": [
            *_troubles(old, new, met, (OK, NOT_APPLICABLE, FAILED)),  # _broken tells which of these raise
            *_troubles(_told_apart(old_apart), _told_apart(new_apart), apart, (OK,)),
        ],
        "memory": list(_grown(machines, "memory_mib", "memory", MEMORY_FACTOR, counts=True)),
        "time": list(_grown(machines, "cost", "time", TIME_FACTOR, counts=alone)),
    }
    tested = {suspicion.subject[0] for family in ("error", "trial") for suspicion in families[family]}
    for suspicions in families.values():
        findings += _certain(suspicions)
    notes = []
    untested = [name for name in dict.fromkeys([*loose["method"], *new_scored["method"]]) if name not in tested]
    if untested:
        notes.append(f"Too few trials to tell whether these have moved: {', '.join(untested)}.")
    if len(good) < len(pairs):
        notes.append(f"{len(pairs) - len(good)} pairs of trials have no scores to compare.")
    missing = len(old) - len(pairs) - len(old_apart)
    if missing:
        notes.append(f"{missing} trials of the reference are not in this run.")
    extra = len(new) - len(pairs) - len(new_apart)
    if extra:
        notes.append(f"{extra} trials of this run are not in the reference.")
    if len(machines) < len(good):
        notes.append(f"{len(good) - len(machines)} trials ran on another device; memory and time are not compared.")
    if not alone and machines["cost_old"].notna().any():
        notes.append("* Times do not count, since trials shared the machine in one of the runs (--timing).")
    if good["cost_old"].isna().all() or good["cost_new"].isna().all():
        notes.append("Times were not compared: no calibration job beside the trials in both runs.")
    return Drift(tuple(findings), len(scored), int(exact.sum()), len(new_scored), tuple(notes))


def _senses(frame: pd.DataFrame, higher_is_better: set[str]) -> pd.Series:
    """1 where a larger score is worse, -1 where it is better."""
    return frame["metric"].isin(higher_is_better).map({False: 1.0, True: -1.0})


def _only(frame: pd.DataFrame, cells: set[tuple[object, ...]]) -> pd.DataFrame:
    return frame[np.array([cell in cells for cell in frame[list(CELL)].itertuples(index=False, name=None)], bool)]


def _finite(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The trials of which all these scores are numbers."""
    numbers: NDArray[np.bool_] = np.isfinite(frame[list(names)].to_numpy(float)).all(axis=1)
    return frame[numbers]


def _moved_exactly(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Cells in which a score differs by more than arithmetic can."""
    for name, scope in SCOPES:
        known = _finite(pairs, f"{name}_old", f"{name}_new")
        change = known[f"{name}_new"] - known[f"{name}_old"]
        moved = known[change.abs() > known["rtol_old"] * known[f"{name}_old"].abs()]
        for _, part in moved.groupby(list(CELL), sort=False):
            yield _sure_finding(part, name, scope, f"digits agree to {part['rtol_old'].iloc[0]:.0e}")


def _unfounded(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Cells in which a score was a number and is none, or the other way about, or is infinite otherwise than before."""
    for name, scope in SCOPES:
        before, after = pairs[f"{name}_old"].astype(float), pairs[f"{name}_new"].astype(float)
        alike = (np.isfinite(before) & np.isfinite(after)) | (before == after) | (before.isna() & after.isna())
        for _, part in pairs[~alike].groupby(list(CELL), sort=False):
            yield replace(_sure_finding(part, name, scope, "not a number"), direction="changed", change="-")


def _sure_finding(part: pd.DataFrame, name: str, scope: str, why: str) -> Finding:
    before, after = (part[f"{name}_{when}"].mean(skipna=False) for when in ("old", "new"))
    return Finding(
        f"{part['metric_old'].iloc[0]}{scope}", str(part["method"].iloc[0]), _place(part),
        _direction((after - before) * part["sense_old"].iloc[0]), _shown(before), _shown(after),
        _relative(before, after), len(part), f"certain ({why})",
    )  # fmt: skip


def _other_metric(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Trials scored by another metric than before, which nothing can be said about."""
    now = pairs[pairs["metric_old"] != pairs["metric_new"]]
    for (method, before, after), part in now.groupby(["method", "metric_old", "metric_new"], sort=False):
        yield Finding(
            "metric", str(method), _place(part), "changed", str(before), str(after), "-", len(part), "certain (named)"
        )


def _broken(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Trials that now raise and did not, or now refuse what went well: the same observation, so this is no chance."""
    old, new = pairs["status_old"], pairs["status_new"]
    now = pairs[old.isin([OK, NOT_APPLICABLE]) & (new == FAILED) | (old == OK) & (new == NOT_APPLICABLE)]
    for (method, status), part in now.groupby(["method", "status_new"], sort=False):
        total = int((pairs["method"] == method).sum())
        yield Finding(
            "failures", str(method), _place(part), "worse", "0", str(len(part)), f"now {status}", total,
            "certain (same observations)",
        )  # fmt: skip


def _shifts(pairs: pd.DataFrame) -> Iterator[_Suspicion]:
    """Mean relative changes of paired trials."""
    for name, scope in SCOPES:
        known = _finite(pairs, f"{name}_old", f"{name}_new")
        if known.empty:
            continue
        scale = known.groupby(list(CELL))[f"{name}_old"].transform(lambda values: values.abs().mean())
        change = _over(known[f"{name}_new"] - known[f"{name}_old"], scale) * known["sense_old"]
        for part in _slices(known):
            values = change[part.index].to_numpy()
            if len(values) < 3:
                continue
            p = _beyond(float(values.mean()), _standard_error(values), len(values) - 1, ERROR_MARGIN)
            finding = partial(
                _error_finding, part, _measure(part["metric_old"], scope), part[f"{name}_old"], part[f"{name}_new"],
                float(values.mean()), "paired t",
            )  # fmt: skip
            yield _Suspicion((str(part["method"].iloc[0]), name), p, frozenset(part.index), finding)


def _shifts_apart(old: pd.DataFrame, new: pd.DataFrame) -> Iterator[_Suspicion]:
    """Differences of cell means where no trial of a cell is in both."""
    for name, scope in SCOPES:
        before, after = _finite(old, name), _finite(new, name)
        scales = before.groupby(list(CELL))[name].apply(lambda values: values.abs().mean())
        for piece in _slices(before):
            cells = set(piece[list(CELL)].itertuples(index=False, name=None))
            rivals = _only(after, cells)
            part = _only(piece, set(rivals[list(CELL)].itertuples(index=False, name=None)))
            tested = _welch(part, rivals, scales, name)
            if tested is None:
                continue
            shift, error, freedom = tested
            measure = _measure(part["metric"], scope)
            finding = partial(_error_finding, part, measure, part[name], rivals[name], shift, "Welch")
            p = _beyond(shift, error, freedom, ERROR_MARGIN)
            yield _Suspicion((str(part["method"].iloc[0]), name), p, frozenset(part.index), finding)


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


def _astray(pairs: pd.DataFrame, reference: pd.DataFrame) -> Iterator[_Suspicion]:
    """Single trials further from their old score than independent trials of a cell are from each other."""
    pairs, good = _finite(pairs, "score_old", "score_new"), _finite(reference, "score")
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
                p = _outside(max(0.0, abs(change) - ERROR_MARGIN), *spreads[cell])
                finding = partial(_trial_finding, part, row, change)
                yield _Suspicion((str(method), "trial"), p, frozenset([row]), finding)


def _trial_finding(pairs: pd.DataFrame, row: int, worse: float) -> Finding:
    pair = pairs.loc[[row]]
    measure = str(pair["metric_old"].iloc[0])
    finding = _error_finding(pair, measure, pair["score_old"], pair["score_new"], worse, "one trial")
    return replace(finding, where=f"{finding.where}, trial {pair['trial'].iloc[0]}")


def _outside(excess: float, spread: float, freedom: float) -> float:
    """p-value of a difference between two independent trials of this spread."""
    from scipy import stats

    if excess == 0 or spread == 0:
        return 0.0 if excess > 0 else 1.0
    return min(1.0, 2 * float(stats.t.sf(excess / spread, freedom)))


def _troubles(
    old: pd.DataFrame, new: pd.DataFrame, cells: set[tuple[object, ...]], harmless: tuple[str, ...]
) -> Iterator[_Suspicion]:
    """Time-outs, crashes and exhausted memory, which a machine may cause: too many of them for that.

    Slices without any are suspected too, with no reason: how many tests are made must not depend on the outcome.
    """
    from scipy import stats

    old, new = _only(old, cells), _only(new, cells)
    for part in _slices(new):
        trouble = ~part["status"].isin(harmless)
        count, total = int(trouble.sum()), len(part)
        before = _only(old, set(part[list(CELL)].itertuples(index=False, name=None)))
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
            "failures", str(part["method"].iloc[0]), _place(part), "worse", str(earlier), str(count), f"now {kinds}",
            total, name,
        )  # fmt: skip
        yield _Suspicion((finding.method, "failures"), p, frozenset(part.index), partial(replace, finding))


def _told_apart(frame: pd.DataFrame) -> pd.DataFrame:
    """Trials that went well without a score that is a number, as a status of their own; pairs show them for certain."""
    lost = (frame["status"] == OK) & ~np.isfinite(frame["score"].astype(float))
    return frame.assign(status=frame["status"].mask(lost, "without a score"))


def _grown(pairs: pd.DataFrame, name: str, measure: str, factor: float, *, counts: bool) -> Iterator[_Suspicion]:
    """Memory or time that has grown by more than a factor: mean logarithms of ratios, a method at a time."""
    known = pairs[(pairs[f"{name}_old"] > 0) & (pairs[f"{name}_new"] > 0)]
    for method, part in known.groupby("method", sort=False):
        if len(part) < 3:
            continue
        ratios = np.log(part[f"{name}_new"].to_numpy(float) / part[f"{name}_old"].to_numpy(float))
        mean = float(ratios.mean())
        p = _beyond(mean, _standard_error(ratios), len(ratios) - 1, math.log(factor)) if mean > 0 else 1.0
        unit = " MiB" if measure == "memory" else " x"
        before, after = part[f"{name}_old"].mean(), part[f"{name}_new"].mean()
        finding = Finding(
            measure, str(method), "all", "worse", f"{before:.3g}{unit}", f"{after:.3g}{unit}",
            f"x {math.exp(mean):.2f}", len(part), "paired t", counts,
        )  # fmt: skip
        yield _Suspicion((finding.method, measure), p, frozenset(part.index), partial(replace, finding))


def _certain(suspicions: list[_Suspicion]) -> Iterator[Finding]:
    """Those that remain after Holm's correction, surest first; of slices that overlap only the surest."""
    corrected = holm([suspicion.p for suspicion in suspicions])
    level = ALPHA / len(FAMILIES)
    sure = [
        (suspicion.p, p, at) for at, (suspicion, p) in enumerate(zip(suspicions, corrected, strict=True)) if p < level
    ]
    shown: dict[tuple[str, str], set[int]] = {}
    for _, p, at in sorted(sure, key=lambda item: (item[0], -len(suspicions[item[2]].rows))):
        suspicion = suspicions[at]
        covered = shown.setdefault(suspicion.subject, set())
        if covered.isdisjoint(suspicion.rows):
            covered |= suspicion.rows
            finding = suspicion.finding()
            text = f"p {p_text(p)}" if p < 0.001 else f"p = {p_text(p)}"
            yield replace(finding, sure=f"{text} ({finding.sure})")


def _slices(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """All trials of each method, then those with one level of a factor; no two slices of the same trials."""
    seen = set()
    for _, part in frame.groupby("method", sort=False):
        parts = [part, *(piece for factor in SLICES for _, piece in part.groupby(factor, sort=False))]
        for piece in parts:
            rows = frozenset(piece.index)
            if rows not in seen:
                seen.add(rows)
                yield piece


def _beyond(mean: float, error: float, freedom: float, margin: float) -> float:
    """p-value of the hypothesis that the true mean lies within ± margin."""
    from scipy import stats

    if not math.isfinite(mean):
        return 0.0
    if error == 0:
        return 0.0 if abs(mean) > margin else 1.0
    nearer, farther = (abs(mean) - margin) / error, (abs(mean) + margin) / error
    return min(1.0, float(stats.t.sf(nearer, freedom) + stats.t.sf(farther, freedom)))


def _standard_error(values: Vector) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _over(change: pd.Series, scale: pd.Series) -> pd.Series:
    """A change relative to a scale; where the scale is 0 it is none or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(change == 0, 0.0, change / scale)
    return pd.Series(ratio, index=change.index)


def _error_finding(
    part: pd.DataFrame, measure: str, before: pd.Series, after: pd.Series, worse: float, test: str
) -> Finding:
    """A relative change towards worse of a slice; shown as the change of the metric, where there is one metric."""
    mixed = measure.partition(".")[0] == MIXED  # a mean over several units says nothing
    sense = 1.0 if mixed else float(part["sense_old" if "sense_old" in part else "sense"].iloc[0])
    return Finding(
        measure, str(part["method"].iloc[0]), _place(part), _direction(worse),
        "-" if mixed else _shown(float(before.mean())), "-" if mixed else _shown(float(after.mean())),
        f"{sense * worse:+.1%}", len(part), test,
    )  # fmt: skip


def _measure(metrics: pd.Series, scope: str) -> str:
    """The metric of a slice, or a word for several."""
    return f"{metrics.iloc[0] if metrics.nunique() == 1 else MIXED}{scope}"


def _direction(change: float) -> str:
    if math.isnan(change):
        return "changed"
    return "worse" if change > 0 else "better"


def _place(part: pd.DataFrame) -> str:
    """What the trials of a slice have in common."""
    shared = [str(part[name].iloc[0]) for name in ("dataset", "sampler", "noise") if part[name].nunique() == 1]
    if part["rate"].nunique() == 1:
        shared.append(f"rate {part['rate'].iloc[0]:g}")
    return ", ".join(shared) if shared else "all"


def _relative(before: float, after: float) -> str:
    return f"{after / before - 1:+.2g}" if before and math.isfinite(before) and math.isfinite(after / before) else "-"


def _shown(value: float) -> str:
    return f"{value:.4g}"
