"""What has moved between a reference and a run, by how much, and how sure that is; docs/regression.md says how.

Trials that both have are compared in pairs: the same observation, whatever the versions. Each kind of test has an
equal share of the chance of a false alarm, and each test of a kind an equal share of that (Bonferroni). Changes count
towards worse: ``sense`` is -1 for a metric where more is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fieldbench.errors import RequestError
from fieldbench.records import FAILED, NOT_APPLICABLE, OK
from fieldbench.regression.reference import CELL, KEY, Scores
from fieldbench.report.numbers import p_text, significant

#: Chance of any false alarm in a check.
ALPHA = 0.01

#: Changes up to these do not count however sure they are: a share of the error, a factor and MiB of memory.
ERROR_MARGIN, MEMORY_FACTOR, MEMORY_SPARE = 0.01, 1.25, 256.0

#: A sound machine spoils (time-out, crash, memory) at most this share of trials.
SPOILT = 0.001

#: Fewer trials than this tell nothing about a mean.
FEWEST = 3


@dataclass(frozen=True)
class Finding:
    """Something that has moved: which measure of whose trials, from what to what, and why this is not chance."""

    measure: str
    method: str
    where: str
    direction: str
    before: str
    after: str
    change: str
    trials: int
    sure: str


@dataclass(frozen=True)
class Test:
    """A finding that counts if its p-value is small enough; ``rows`` are the trials that speak for it."""

    p: float
    rows: frozenset[int]
    finding: Finding


@dataclass(frozen=True)
class Drift:
    """The outcome of a check.

    Attributes:
        findings: what has moved.
        paired, exact: trials whose scores were compared, and those of them to the last digit.
        notes: what was not compared, and why.
    """

    findings: tuple[Finding, ...]
    paired: int
    exact: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A table of what has moved, and what was compared how."""
        from tabulate import tabulate

        heads = ["measure", "method", "where", "is", "before", "now", "change", "trials", "how sure"]
        rows = [[str(value) for value in vars(finding).values()] for finding in self.findings]
        nothing = "Nothing has moved." if self.paired else "No score could be compared."
        compared = f"Compared: {self.paired} trials in pairs, {self.exact} of them to the last digit."
        margins = (
            f"Margins: {ERROR_MARGIN:.0%} in error, a factor {MEMORY_FACTOR:g} and {MEMORY_SPARE:g} MiB in memory; "
            f"false alarms in at most {ALPHA:.0%} of checks (Bonferroni)."
        )
        table = tabulate(rows, heads, disable_numparse=True) if rows else nothing
        return "\n".join([table, "", compared, margins, *self.notes])


def compare(reference: Scores, run: Scores) -> Drift:
    """Find what has moved.

    Raises:
        RequestError: if the two have no trial in common.
    """
    pairs = _paired(reference, run)
    good = pairs[(pairs["status_old"] == OK) & (pairs["status_new"] == OK)]
    scored = good[good["metric_old"] == good["metric_new"]]
    loose = scored[~(scored["rtol_old"] <= ERROR_MARGIN)]  # a wider tolerance could hide a shift of the mean
    one_device = good[good["device_old"] == good["device_new"]]
    means = list(mean_changes(loose))
    kinds = [means, list(failure_rates(pairs)), list(resource_growth(one_device))]
    findings = [*exact_changes(scored), *other_metrics(good), *new_failures(pairs)]
    for tests in kinds:
        findings += surest(tests, ALPHA / len(kinds))

    tested = {test.finding.method for test in means}
    untested = [method for method in loose["method"].unique() if method not in tested]
    left_out = {
        "pairs of trials have no scores to compare": len(pairs) - len(good),
        "trials of the reference are not in this run": len(reference.frame) - len(pairs),
        "trials of this run are not in the reference": len(run.frame) - len(pairs),
        "trials ran on another device; their memory is not compared": len(good) - len(one_device),
    }
    notes = [f"Too few trials to tell whether these have moved: {', '.join(untested)}."] * bool(untested)
    notes += [f"{count} {what}." for what, count in left_out.items() if count]
    return Drift(tuple(findings), len(scored), int(scored["rtol_old"].notna().sum()), tuple(notes))


def exact_changes(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Cells in which a score differs by more than arithmetic can, or is a number in one of the two alone."""
    for name in ("score", "unobserved"):
        old, new = (pairs[f"{name}_{when}"].to_numpy(float) for when in ("old", "new"))
        numbers = np.isfinite(old) & np.isfinite(new)
        alike = numbers | (old == new) | (np.isnan(old) & np.isnan(new))
        with np.errstate(invalid="ignore"):
            moved = numbers & (np.abs(new - old) > pairs["rtol_old"].to_numpy() * np.abs(old))
        for _, part in pairs[moved].groupby(list(CELL), sort=False):
            yield _error(part, name, f"certain (digits agree to {part['rtol_old'].iloc[0]:.0e})")
        for _, part in pairs[~alike].groupby(list(CELL), sort=False):
            yield replace(_error(part, name, "certain (not a number)"), direction="changed", change="-")


def other_metrics(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Trials scored by another metric than before: their scores are not compared."""
    now = pairs[pairs["metric_old"] != pairs["metric_new"]]
    for (method, old, new), part in now.groupby(["method", "metric_old", "metric_new"], sort=False):
        yield Finding(
            "metric", str(method), _where(part), "changed", str(old), str(new), "-", len(part), "certain (named)"
        )


def new_failures(pairs: pd.DataFrame) -> Iterator[Finding]:
    """Trials that raise and did not, or refuse what went well: the same observation, so this is not chance."""
    old, new = pairs["status_old"], pairs["status_new"]
    now = pairs[old.isin([OK, NOT_APPLICABLE]) & (new == FAILED) | (old == OK) & (new == NOT_APPLICABLE)]
    for (method, status), part in now.groupby(["method", "status_new"], sort=False):
        total, sure = int((pairs["method"] == method).sum()), "certain (same observations)"
        change = f"now {status}"
        yield Finding("failures", str(method), _where(part), "worse", "0", str(len(part)), change, total, sure)


def mean_changes(pairs: pd.DataFrame) -> Iterator[Test]:
    """Mean relative changes of errors."""
    for name in ("score", "unobserved"):
        known = pairs[np.isfinite(pairs[[f"{name}_old", f"{name}_new"]].to_numpy(float)).all(axis=1)]
        for part in _slices(known):
            if len(part) >= FEWEST:
                p = exceeds(_worsening(part, name).to_numpy(), ERROR_MARGIN)
                yield Test(p, frozenset(part.index), _error(part, name, "paired t"))


def failure_rates(pairs: pd.DataFrame) -> Iterator[Test]:
    """Trials lost to a machine, against their share in the reference and at least :data:`SPOILT`."""
    from scipy import stats

    harmless = [OK, NOT_APPLICABLE, FAILED]  # new_failures tells which raise
    for part in _slices(pairs):
        lost = part["status_new"][~part["status_new"].isin(harmless)]
        before, count, total = int((~part["status_old"].isin(harmless)).sum()), len(lost), len(part)
        p = float(stats.binom.sf(count - 1, total, max(SPOILT, before / total)))
        method, change = part["method"].iloc[0], f"now {', '.join(lost.unique())}"
        finding = Finding("failures", method, _where(part), "worse", str(before), str(count), change, total, "binomial")
        yield Test(p, frozenset(part.index), finding)


def resource_growth(pairs: pd.DataFrame) -> Iterator[Test]:
    """Methods whose peak memory has grown by more than its factor and its spare in the mean."""
    known = pairs[(pairs["memory_mib_old"] > 0) & (pairs["memory_mib_new"] > 0)]
    for method, part in known.groupby("method", sort=False):
        if len(part) >= FEWEST:
            old, new = (part[f"memory_mib_{when}"].to_numpy(float) for when in ("old", "new"))
            excess = np.log(new / np.maximum(MEMORY_FACTOR * old, old + MEMORY_SPARE))
            p = exceeds(excess, 0.0) if excess.mean() > 0 else 1.0
            before, after = (f"{np.median(values):.3g} MiB" for values in (old, new))
            change = f"x {math.exp(np.log(new / old).mean()):.2f}"
            finding = Finding("memory", str(method), "all", "worse", before, after, change, len(part), "paired t")
            yield Test(p, frozenset(part.index), finding)


def exceeds(values: NDArray[np.float64], margin: float) -> float:
    """p-value of the hypothesis that the true mean of the values lies within ± margin, by Student's t."""
    from scipy import stats

    mean, error = abs(float(values.mean())), float(np.std(values, ddof=1)) / math.sqrt(len(values))
    if not math.isfinite(mean) or error == 0:
        return 0.0 if not mean <= margin else 1.0
    tails = stats.t.sf([(mean - margin) / error, (mean + margin) / error], len(values) - 1)
    return min(1.0, float(tails.sum()))


def surest(tests: Sequence[Test], level: float) -> Iterator[Finding]:
    """The findings of one kind that are sure, the surest first; of slices that overlap only the surest."""
    shown: dict[tuple[str, str], set[int]] = {}
    for test in sorted(tests, key=lambda test: (test.p, -len(test.rows))):
        p = test.p * len(tests)
        covered = shown.setdefault((test.finding.method, test.finding.measure), set())
        if p < level and covered.isdisjoint(test.rows):
            covered |= test.rows
            yield replace(test.finding, sure=f"p {'' if p < 0.001 else '= '}{p_text(p)} ({test.finding.sure})")


def _paired(reference: Scores, run: Scores) -> pd.DataFrame:
    """The trials that both have, side by side: columns end in ``_old`` and ``_new``."""
    pairs = reference.frame.merge(run.frame, on=list(KEY), suffixes=("_old", "_new"))
    if pairs.empty:
        methods, seeds = (", ".join(map(str, run.frame[name].unique())) for name in ("method", "seed"))
        raise RequestError(
            f"the reference has no trial of what was run ({methods}; seed {seeds}); run the trials that it has, or "
            "freeze this run"
        )
    high = {*reference.higher_is_better, *run.higher_is_better}
    return pairs.assign(sense=np.where(pairs["metric_old"].isin(high), -1.0, 1.0))


def _slices(pairs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """All trials of each method by one metric, then those of one dataset, noise or sampler; none twice."""
    for _, part in pairs.groupby(["method", "metric_old"], sort=False):
        parts = [part, *(piece for name in ("dataset", "noise", "sampler") for _, piece in part.groupby(name))]
        yield from {frozenset(piece.index): piece for piece in parts}.values()


def _where(part: pd.DataFrame) -> str:
    """What trials have in common."""
    shared = [str(part[name].iloc[0]) for name in ("dataset", "sampler", "noise") if part[name].nunique() == 1]
    rate = [f"rate {part['rate'].iloc[0]:g}"] * (part["rate"].nunique() == 1)
    return ", ".join([*shared, *rate]) or "all"


def _worsening(pairs: pd.DataFrame, name: str) -> pd.Series:
    """Changes of a score relative to the mean of its cell, towards worse; infinite where that was 0."""
    scale = pairs[f"{name}_old"].abs().groupby([pairs[key] for key in CELL]).transform("mean")
    change = pairs[f"{name}_new"] - pairs[f"{name}_old"]
    return (change / scale).where(change != 0, 0.0) * pairs["sense"]


def _error(part: pd.DataFrame, name: str, sure: str) -> Finding:
    """An error that has changed; the mean relative change is shown as the metric changes."""
    metric, sense = part["metric_old"].iloc[0], float(part["sense"].iloc[0])
    before, after = (significant(float(part[f"{name}_{when}"].mean(skipna=False))) for when in ("old", "new"))
    worse = float(_worsening(part, name).mean())
    return Finding(
        metric if name == "score" else f"{metric}.{name}", part["method"].iloc[0], _where(part),
        "worse" if worse > 0 else "better", before, after, f"{100 * sense * worse:+.2g} %", len(part), sure,
    )  # fmt: skip
