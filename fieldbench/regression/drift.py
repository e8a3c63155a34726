"""What has moved between a reference and a run, by how much, and how sure that is.

Trials that are the same by name are compared in pairs; cells that have no trial in common (another seed, say)
by their distributions. Kinds of evidence (:mod:`certain`, :mod:`shifts`, :mod:`resources`):

- *Exact.* A reference may say that a method's arithmetic is the same on every CPU up to a relative difference.
  Beyond it, the score has moved: that is certain. So it is if a score is no number any more, or was none.
- *A shift of the mean* of relative changes, over a method's trials and over those of one dataset, noise or
  sampler. The null hypothesis is a shift of at most a margin (a minimum-effect test: Murphy and Myors 1999), by
  Student's t for pairs and Welch's for distributions.
- *One trial* that has moved further than two independent trials of its cell lie apart (a prediction interval;
  :mod:`spread`). It is for the single trial that goes astray, which a mean over many hides.
- *Troubles*, which any machine may cause now and then: more of them than that explains.

Each family of tests is corrected by Holm's procedure at its share of the chance of a false alarm
(:mod:`significance`), so that a check in which nothing has moved raises one with at most that chance.

Changes count towards worse: ``sense`` is -1 for a metric of which more is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from fieldbench.errors import RequestError
from fieldbench.records import FAILED, NOT_APPLICABLE, OK
from fieldbench.regression.cells import cells_of, only
from fieldbench.regression.certain import broken, moved_exactly, other_metric, unfounded
from fieldbench.regression.finding import Finding
from fieldbench.regression.reference import KEY, Scores
from fieldbench.regression.resources import MEMORY_FACTOR, MEMORY_SPARE, TIME_FACTOR, grown, told_apart, troubles
from fieldbench.regression.shifts import ERROR_MARGIN, astray, shifts, shifts_apart
from fieldbench.regression.significance import ALPHA, surest


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
            f"Margins: {ERROR_MARGIN:.0%} in error, a factor {MEMORY_FACTOR:g} and {MEMORY_SPARE:g} MiB in memory, "
            f"a factor {TIME_FACTOR:g} in time (multiples of the calibration job); "
            f"false alarms in at most {ALPHA:.0%} of checks (Holm)."
        )
        pieces.append("\n".join([compared, bound, *self.notes]))
        return "\n\n".join(pieces)

    def __str__(self) -> str:
        return self.to_text()


@dataclass(frozen=True)
class _Meeting:
    """The trials of a reference and of a run, and how they meet.

    Attributes:
        old, new: all of them.
        pairs: those that both have, side by side.
        old_apart, new_apart: those of cells of which both have trials, but none in common.
    """

    old: pd.DataFrame
    new: pd.DataFrame
    pairs: pd.DataFrame
    old_apart: pd.DataFrame
    new_apart: pd.DataFrame


def compare(reference: Scores, run: Scores) -> Drift:
    """Find what has moved.

    Raises:
        RequestError: if the two have no cell in common.
    """
    meeting = _meet(reference, run)
    pairs, old_apart, new_apart = meeting.pairs, meeting.old_apart, meeting.new_apart
    good = pairs[(pairs["status_old"] == OK) & (pairs["status_new"] == OK)]
    scored = good[good["metric_old"] == good["metric_new"]]
    exact = scored["rtol_old"].notna()
    loose = scored[~(scored["rtol_old"] <= ERROR_MARGIN)]  # a wider tolerance could hide a shift of the mean
    old_scored, new_scored = (frame[frame["status"] == OK] for frame in (old_apart, new_apart))
    machines = good[good["device_old"] == good["device_new"]]
    alone = reference.alone and run.alone

    findings = [*moved_exactly(scored[exact]), *unfounded(scored), *other_metric(good), *broken(pairs)]
    families = {
        "error": [*shifts(loose), *shifts_apart(old_scored, new_scored)],
        "trial": list(astray(loose, meeting.old[meeting.old["status"] == OK])),
        "failures": [
            # broken tells which of the pairs raise
            *troubles(meeting.old, meeting.new, cells_of(pairs), (OK, NOT_APPLICABLE, FAILED)),
            *troubles(told_apart(old_apart), told_apart(new_apart), cells_of(new_apart), (OK,)),
        ],
        "memory": list(grown(machines, "memory_mib", "memory", MEMORY_FACTOR, spare=MEMORY_SPARE, counts=True)),
        "time": list(grown(machines, "cost", "time", TIME_FACTOR, counts=alone)),
    }
    for suspicions in families.values():
        findings += surest(suspicions)

    tested = {suspicion.subject[0] for family in ("error", "trial") for suspicion in families[family]}
    untested = [name for name in dict.fromkeys([*loose["method"], *new_scored["method"]]) if name not in tested]
    notes = [*_unscored(meeting, good, untested), *_unmeasured(good, machines, alone=alone)]
    return Drift(tuple(findings), len(scored), int(exact.sum()), len(new_scored), tuple(notes))


def _meet(reference: Scores, run: Scores) -> _Meeting:
    high = {*reference.higher_is_better, *run.higher_is_better}
    old, new = (scores.frame.assign(sense=_senses(scores.frame, high)) for scores in (reference, run))
    pairs = old.merge(new, on=list(KEY), suffixes=("_old", "_new"))
    shared = cells_of(old) & cells_of(new)
    if not shared:
        methods = ", ".join(dict.fromkeys(new["method"]))
        raise RequestError(
            f"the reference has no trial of what was run ({methods}); freeze this run to compare with it"
        )
    apart = shared - cells_of(pairs)
    return _Meeting(old, new, pairs, only(old, apart), only(new, apart))


def _senses(frame: pd.DataFrame, higher_is_better: set[str]) -> pd.Series:
    """1 where a larger score is worse, -1 where it is better."""
    return frame["metric"].isin(higher_is_better).map({False: 1.0, True: -1.0})


def _unscored(meeting: _Meeting, good: pd.DataFrame, untested: Sequence[str]) -> Iterator[str]:
    """Which errors were not compared, and why."""
    if untested:
        yield f"Too few trials to tell whether these have moved: {', '.join(untested)}."
    pairs = len(meeting.pairs)
    if len(good) < pairs:
        yield f"{pairs - len(good)} pairs of trials have no scores to compare."
    missing = len(meeting.old) - pairs - len(meeting.old_apart)
    if missing:
        yield f"{missing} trials of the reference are not in this run."
    extra = len(meeting.new) - pairs - len(meeting.new_apart)
    if extra:
        yield f"{extra} trials of this run are not in the reference."


def _unmeasured(good: pd.DataFrame, machines: pd.DataFrame, *, alone: bool) -> Iterator[str]:
    """Why memory and time were not compared, or do not count."""
    if len(machines) < len(good):
        yield f"{len(good) - len(machines)} trials ran on another device; memory and time are not compared."
    if not alone and machines["cost_old"].notna().any():
        yield "* Times do not count, since trials shared the machine in one of the runs (--timing)."
    if good["cost_old"].isna().all() or good["cost_new"].isna().all():
        yield "Times were not compared: no calibration job beside the trials in both runs."
