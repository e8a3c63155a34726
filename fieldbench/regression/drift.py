"""What has moved between a reference and a run, by how much, and how sure that is.

Trials that are the same by name are compared in pairs; cells that have no trial in common (another seed, say)
by their distributions. Three kinds of evidence:

- *Exact.* A reference may say that a method's arithmetic is the same on every CPU up to a relative difference.
  Beyond it, the score has moved: that is certain.
- *A shift of the mean* of relative changes, over a method's trials and over those of one dataset, noise or
  sampler. The null hypothesis is a shift of at most a margin (a minimum-effect test: Murphy and Myors 1999), by
  Student's t for pairs and Welch's for distributions.
- *One trial* that has moved further than two independent trials of its method lie apart in the reference
  (a prediction interval). It is for the single trial that goes astray, which a mean over many hides.

Each family of tests is corrected by Holm's procedure at its share of :data:`ALPHA`, so that a check in which
nothing has moved raises a false alarm with at most that probability.
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
        paired, exact, unpaired: trials compared in pairs, those of them to the last digit, and by distribution.
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
            pieces.append("Nothing has moved.")
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
    old, new = reference.frame, run.frame
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

    exact = pairs["rtol_old"].notna()
    both = (pairs["status_old"] == OK) & (pairs["status_new"] == OK)
    findings = [*_moved_exactly(pairs[exact & both]), *_broken(pairs)]
    loose = pairs[both & ~(pairs["rtol_old"] <= ERROR_MARGIN)]  # a wider tolerance could hide a shift of the mean
    old_apart, new_apart = _only(old, apart), _only(new, apart)
    machines = pairs[both & (pairs["device_old"] == pairs["device_new"])]
    alone = reference.alone and run.alone
    families = {
        "error": [*_shifts(loose), *_shifts_apart(old_apart, new_apart)],
        "trial": list(_astray(loose, old)),
        "failures": [
            *_troubles(old, new, met, (OK, NOT_APPLICABLE, FAILED)),  # _broken tells which of these raise
            *_troubles(old, new, apart, (OK, NOT_APPLICABLE)),
        ],
        "memory": list(_grown(machines, "memory_mib", "memory", MEMORY_FACTOR, counts=True)),
        "time": list(_grown(machines, "cost", "time", TIME_FACTOR, counts=alone)),
    }
    for suspicions in families.values():
        findings += _certain(suspicions)
    high = {*reference.higher_is_better, *run.higher_is_better}
    findings = [_turned(finding) if finding.measure.partition(".")[0] in high else finding for finding in findings]
    notes = []
    missing = len(old) - len(pairs) - len(old_apart)
    if missing:
        notes.append(f"{missing} trials of the reference are not in this run.")
    extra = len(new) - len(pairs) - len(new_apart)
    if extra:
        notes.append(f"{extra} trials of this run are not in the reference.")
    if not alone and machines["cost_old"].notna().any():
        notes.append("* Times do not count, since trials shared the machine in one of the runs (--timing).")
    if machines["cost_old"].isna().all() or machines["cost_new"].isna().all():
        notes.append("Times were not compared: no calibration job beside the trials in both runs.")
    return Drift(tuple(findings), len(pairs), int(exact.sum()), len(new_apart), tuple(notes))


def _turned(finding: Finding) -> Finding:
    """The finding of a metric of which more is better."""
    return replace(finding, direction={"worse": "better", "better": "worse"}.get(finding.direction, finding.direction))


def _only(frame: pd.DataFrame, cells: set[tuple[object, ...]]) -> pd.DataFrame:
    return frame[[cell in cells for cell in frame[list(CELL)].itertuples(index=False, name=None)]]


def _moved_exactly(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Cells in which a score differs by more than arithmetic can."""
    for name, scope in (("score", ""), ("unobserved", ".unobserved")):
        change = pairs[f"{name}_new"] - pairs[f"{name}_old"]
        moved = (change.abs() > pairs["rtol_old"] * pairs[f"{name}_old"].abs()) | (
            pairs[f"{name}_old"].isna() != pairs[f"{name}_new"].isna()
        )
        for cell, part in pairs[moved].groupby(list(CELL), sort=False):
            before, after = part[f"{name}_old"].mean(), part[f"{name}_new"].mean()
            yield Finding(
                f"{part['metric_old'].iloc[0]}{scope}",
                str(cell[0]),
                _place(part),
                _direction(after - before),
                _shown(before),
                _shown(after),
                _relative(before, after),
                len(part),
                f"certain (digits agree to {part['rtol_old'].iloc[0]:.0e})",
            )


def _broken(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Trials that went well and now raise or refuse: the same observation, so this is no chance."""
    now = pairs[(pairs["status_old"] == OK) & pairs["status_new"].isin([FAILED, NOT_APPLICABLE])]
    for (method, status), part in now.groupby(["method", "status_new"], sort=False):
        total = int((pairs["method"] == method).sum())
        yield Finding(
            "failures", str(method), _place(part), "worse", "0", str(len(part)), f"now {status}", total,
            "certain (same observations)",
        )  # fmt: skip


def _shifts(pairs: pd.DataFrame) -> Iterator[_Suspicion]:
    """Mean relative changes of paired trials."""
    for name, scope in (("score", ""), ("unobserved", ".unobserved")):
        known = pairs[pairs[f"{name}_old"].notna() & pairs[f"{name}_new"].notna()]
        if known.empty:
            continue
        scale = known.groupby(list(CELL))[f"{name}_old"].transform(lambda values: values.abs().mean())
        change = _over(known[f"{name}_new"] - known[f"{name}_old"], scale)
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
    for name, scope in (("score", ""), ("unobserved", ".unobserved")):
        before = old[(old["status"] == OK) & old[name].notna()]
        after = new[(new["status"] == OK) & new[name].notna()]
        scales = before.groupby(list(CELL))[name].apply(lambda values: values.abs().mean())
        for part in _slices(before):
            cells = set(part[list(CELL)].itertuples(index=False, name=None))
            rivals = _only(after, cells)
            cells &= set(rivals[list(CELL)].itertuples(index=False, name=None))
            tested = _welch(_only(part, cells), rivals, scales, name)
            if tested is None:
                continue
            shift, error, freedom = tested
            measure = _measure(part["metric"], scope)
            finding = partial(_error_finding, part, measure, part[name], rivals[name], shift, "Welch")
            p = _beyond(shift, error, freedom, ERROR_MARGIN)
            yield _Suspicion((str(part["method"].iloc[0]), name), p, frozenset(part.index), finding)


def _welch(old: pd.DataFrame, new: pd.DataFrame, scales: pd.Series, name: str) -> tuple[float, float, float] | None:
    """Mean over cells of the relative difference of their means, its standard error and degrees of freedom.

    The variance within cells is pooled over the cells of each side.
    """
    sides = []
    for frame in (new, old):
        if frame.empty:
            return None
        units = np.array([scales[cell] for cell in frame[list(CELL)].itertuples(index=False, name=None)])
        groups = _over(frame[name], pd.Series(units, index=frame.index)).groupby([frame[key] for key in CELL])
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
    good = reference[(reference["status"] == OK) & reference["score"].notna()]
    for method, part in pairs.groupby("method", sort=False):
        own = good[good["method"] == method]
        groups = own.groupby(list(CELL))["score"]
        scales = groups.apply(lambda values: values.abs().mean())
        freedom = int(groups.size().sum() - groups.ngroups)
        if freedom < 3:
            continue
        deviations = _over(
            own["score"] - groups.transform("mean"), groups.transform(lambda values: values.abs().mean())
        )
        spread = math.sqrt(2 * float((deviations**2).sum()) / freedom)
        units = np.array([scales[cell] for cell in part[list(CELL)].itertuples(index=False, name=None)])
        changes = _over(part["score_new"] - part["score_old"], pd.Series(units, index=part.index))
        for position, change in enumerate(changes):
            p = _outside(max(0.0, abs(change) - ERROR_MARGIN), spread, freedom)
            finding = partial(_trial_finding, part.iloc[[position]], float(change))
            yield _Suspicion((str(method), "trial"), p, frozenset([part.index[position]]), finding)


def _trial_finding(row: pd.DataFrame, change: float) -> Finding:
    finding = _error_finding(
        row, str(row["metric_old"].iloc[0]), row["score_old"], row["score_new"], change, "one trial"
    )
    return replace(finding, where=f"{finding.where}, trial {row['trial'].iloc[0]}")


def _outside(excess: float, spread: float, freedom: int) -> float:
    """p-value of a difference between two independent trials of this spread."""
    from scipy import stats

    if excess == 0 or spread == 0:
        return 0.0 if excess > 0 else 1.0
    return min(1.0, 2 * float(stats.t.sf(excess / spread, freedom)))


def _troubles(
    old: pd.DataFrame, new: pd.DataFrame, cells: set[tuple[object, ...]], harmless: tuple[str, ...]
) -> Iterator[_Suspicion]:
    """Time-outs, crashes and exhausted memory, which a machine may cause: too many of them for that."""
    from scipy import stats

    old, new = _only(old, cells), _only(new, cells)
    for part in _slices(new):
        trouble = ~part["status"].isin(harmless)
        count, total = int(trouble.sum()), len(part)
        if not count:
            continue
        before = _only(old, set(part[list(CELL)].itertuples(index=False, name=None)))
        earlier = int((~before["status"].isin(harmless)).sum())
        if earlier:
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
    part: pd.DataFrame, measure: str, before: pd.Series, after: pd.Series, change: float, test: str
) -> Finding:
    mixed = measure.partition(".")[0] == MIXED  # a mean over several units says nothing
    return Finding(
        measure, str(part["method"].iloc[0]), _place(part), _direction(change),
        "-" if mixed else _shown(float(before.mean())), "-" if mixed else _shown(float(after.mean())),
        f"{change:+.1%}", len(part), test,
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
    return f"{after / before - 1:+.2g}" if before and math.isfinite(after / before) else "-"


def _shown(value: float) -> str:
    return f"{value:.4g}"
