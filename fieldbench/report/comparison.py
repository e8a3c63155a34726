"""Comparing methods trial by trial: all of them met the same observations, so differences are paired.

The trials of a setting (dataset, sampler, noise, rate, selection) are its independent repetitions. For each
pair of methods the differences of their scores give a mean with Student's interval, wins, and a test:
Wilcoxon's signed ranks where there are enough trials for them to reach 5 % at all
(:func:`fewest_for_ranks`), else a paired t. The p-values of all pairs of a setting are corrected together
(Holm 1979). Ranks over settings are compared as Demsar 2006 does (Friedman, Nemenyi). In a setting only those
methods are ranked that have a score on every trial, since the trials that another lost may be the hard ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fieldbench.errors import RequestError, nearest
from fieldbench.records import OK
from fieldbench.report.factors import must_be_measured, ordered
from fieldbench.report.formats import Text
from fieldbench.report.labels import called, labelled
from fieldbench.report.metadata import RunMetadata
from fieldbench.report.numbers import decimals, p_text, with_unit
from fieldbench.report.settings import SETTING, records_of, settings_of, title_of
from fieldbench.report.statistics import CONFIDENCE, interval
from fieldbench.report.times import SECONDS, caution

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two methods in one setting.

    Attributes:
        better, worse: the methods, by their mean over the pairs; in the order asked for where they are equal.
        difference: by how much ``better`` is better in the mean: never negative, in the metric's unit.
        low, high: 95 % interval of the difference (Student's t); NaN for a single pair.
        wins, ties: pairs in which ``better`` has the better score, and in which both have the same.
        count: pairs in which both methods have a finite score.
        missing: pairs that are left out since a method failed, has not run yet or scored no finite number.
        test: ``wilcoxon``, ``t`` or ``none`` (fewer than two pairs).
        p: two-sided p-value of the test; NaN for ``none``.
        corrected: the same after Holm's correction over the pairs of the setting.
    """

    better: str
    worse: str
    difference: float
    low: float
    high: float
    wins: int
    ties: int
    count: int
    missing: int
    test: str
    p: float
    corrected: float = math.nan

    @property
    def significant(self) -> bool:
        """Whether the corrected p-value is below 5 %."""
        return self.corrected < 1 - CONFIDENCE

    def sentence(self, unit: str = "", direction: str = "") -> str:
        """What a reader can quote: ``A beats B on 9 of 10 trials, by 0.12 m/s [0.08, 0.16]``.

        Where the interval reaches zero, A is only "ahead of" B.
        """
        if self.count == 0:
            return f"{self.better} and {self.worse} have no trial in common"
        plural = "trial" if self.count == 1 else "trials"
        if self.difference == 0:
            return f"{self.better} and {self.worse} are equal in the mean of {self.count} {plural}"
        digits = _digits(self.low, self.high, self.difference)
        amount = f"{self.difference:.{digits}f}{' ' + unit if unit else ''}"
        interval = "" if math.isnan(self.low) else f" [{self.low:.{digits}f}, {self.high:.{digits}f}]"
        measure = f" {direction}" if direction else ""
        verb, doubt = ("is ahead of", ", which may be chance") if self.low <= 0 else ("beats", "")
        text = f"{self.better} {verb} {self.worse} on {self.wins} of {self.count} {plural}, by {amount}{measure}"
        return f"{text}{interval}{doubt}"


@dataclass(frozen=True)
class SettingComparison:
    """All pairs of methods in one setting.

    Attributes:
        title: the setting in words, as far as it needs saying.
        setting: its factors and levels; factors that were averaged over are left out.
        metric, unit: what is compared.
        methods: those that have a finite score on every trial that all methods ended, best mean first.
        means: mean score of each of them over these trials.
        unranked: methods without a score on some of these trials: failed, not applicable or not finite.
        pairs: every pair of methods with any score, those of the best method first.
        caution: of seconds, why they do not compare; else an empty text.
    """

    title: str
    setting: dict[str, object]
    metric: str
    unit: str
    methods: tuple[str, ...]
    means: tuple[float, ...]
    unranked: tuple[str, ...]
    pairs: tuple[Pair, ...]
    caution: str = ""

    @property
    def sentence(self) -> str:
        """The best method against the runner-up."""
        if not self.methods:
            return "no method has a score on every trial" if self.unranked else "no trial has ended for all methods"
        if len(self.methods) == 1:
            best = self.methods[0]
            return f"only {best} has a score on every trial" if self.unranked else f"{best} has no rival"
        first, second = self.methods[0], self.methods[1]
        pair = next(pair for pair in self.pairs if {pair.better, pair.worse} == {first, second})
        return pair.sentence(self.unit, "" if self.unit else self.metric)


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of methods over settings, 1 the best.

    Attributes:
        methods: best mean rank first.
        means: mean rank of each.
        settings: how many settings were ranked: those in which every method has a score on every trial.
        friedman: p-value of Friedman's test that all methods are alike; NaN with fewer than 3 methods or
            2 settings.
    """

    methods: tuple[str, ...]
    means: tuple[float, ...]
    settings: int
    friedman: float

    @property
    def test(self) -> str:
        """What Friedman's test adds to a sentence, or nothing."""
        return "" if math.isnan(self.friedman) else f"; Friedman's test that all are alike: p = {p_text(self.friedman)}"


@dataclass(frozen=True)
class Comparison:
    """Every setting's pairs, and ranks over settings.

    Attributes:
        groups: one a setting.
        scores: mean score, a row a setting and a column a method; NaN where a method is not ranked.
        higher_is_better: for each row of ``scores``.
        averaged: factors that were averaged over within each trial, before any statistics.
    """

    groups: tuple[SettingComparison, ...]
    scores: pd.DataFrame
    higher_is_better: tuple[bool, ...]
    averaged: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """One sentence for the whole: the only setting's, or who is best in how many."""
        if len(self.groups) == 1:
            return f"{self.groups[0].sentence} ({self.groups[0].title})."
        contested = [group for group in self.groups if len(group.methods) > 1]
        if not contested:
            return "No setting has two methods with a score on every trial."
        firsts = [group.methods[0] for group in contested]
        best = max(dict.fromkeys(firsts), key=firsts.count)
        example = next(group for group in contested if group.methods[0] == best)
        share = f"{best} has the best mean in {firsts.count(best)} of {len(contested)} settings"
        return f"{share}; for example, {example.sentence} ({example.title})."

    def pairs(self) -> Iterator[dict[str, object]]:
        """Every pair as a flat row."""
        for group in self.groups:
            caution = {"caution": group.caution} if group.caution else {}
            for pair in group.pairs:
                yield {**group.setting, "metric": group.metric, "unit": group.unit, **vars(pair), **caution}

    def ranks(self) -> Ranks:
        """Mean ranks over the settings in which every method is ranked; equal scores share their ranks."""
        from scipy import stats

        complete = self.scores.notna().all(axis=1).to_numpy()
        values = self.scores.to_numpy()[complete]
        signs = np.where(self.higher_is_better, -1.0, 1.0)[complete]
        methods = [str(name) for name in self.scores.columns]
        if not len(values):
            return Ranks(tuple(methods), (math.nan,) * len(methods), 0, math.nan)
        means = stats.rankdata(values * signs[:, None], axis=1).mean(axis=0)
        order = np.argsort(means, kind="stable")
        alike = len(methods) < 3 or len(values) < 2
        friedman = math.nan if alike else float(stats.friedmanchisquare(*(values * signs[:, None]).T).pvalue)
        return Ranks(tuple(methods[index] for index in order), tuple(map(float, means[order])), len(values), friedman)

    def to_text(self) -> str:
        """The comparison for a terminal: a sentence, a table of pairs for each setting, ranks, notes."""
        pieces = [self.sentence]
        pieces += [_pair_table(group) for group in self.groups if group.pairs]
        ranks = self.ranks()
        if len(self.groups) > 1 and ranks.settings:
            means = [[name, f"{mean:.2f}"] for name, mean in zip(ranks.methods, ranks.means, strict=True)]
            title = f"Ranks over {ranks.settings} settings (1 is best){ranks.test}"
            pieces.append(Text().table(title, ["method", "mean rank"], means))
        pieces.append("\n".join(self.notes))
        return "\n\n".join(pieces)

    @property
    def notes(self) -> list[str]:
        """How the numbers were made."""
        tests = {pair.test for group in self.groups for pair in group.pairs}
        missing = sum(pair.missing for group in self.groups for pair in group.pairs)
        notes = list(dict.fromkeys(group.caution for group in self.groups if group.caution))
        notes += ["difference: mean over paired trials, with its 95 % interval (Student's t, uncorrected)"]
        names = [
            *(["Wilcoxon's signed ranks"] if "wilcoxon" in tests else []),
            *(["paired t (too few trials for signed ranks to reach 5 %)"] if "t" in tests else []),
        ]
        if names:
            notes.append(f"p: {' or '.join(names)}, two-sided, Holm's correction over the pairs of a setting")
        if self.averaged:
            notes.append(f"each trial's scores were first averaged over {', '.join(self.averaged)}")
        unranked = [name for group in self.groups for name in group.unranked]
        if unranked:
            listed = ", ".join(f"{name} in {unranked.count(name)}" for name in dict.fromkeys(unranked))
            settings = f"{len(self.groups)} setting{'s' * (len(self.groups) > 1)}"
            notes.append(
                f"not ranked: {listed} of {settings}, without a score on some trial "
                "(failed, not applicable or not finite), which may be a hard one"
            )
        if missing:
            notes.append(
                f"missing: {missing} pairs are left out, since a method has no score there (failed or not run yet, "
                "or no finite one)"
            )
        return notes

    def __str__(self) -> str:
        return self.to_text()


def compare(
    frame: pd.DataFrame,
    metadata: RunMetadata,
    *,
    metric: str | None = None,
    average: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare the methods of a run pair by pair.

    Args:
        frame: records as :func:`fieldbench.report.frame.read_frame` gives them.
        metadata: what is known of its specs and metrics.
        metric: a metric or ``seconds``; by default the headline metric of each dataset.
        average: factors of the setting (``rate``, ``noise``, ``sampler``) over which each trial's scores are
            averaged first, so that trials stay the independent unit. Only trials that are complete count.
        labels: what to call what.

    Raises:
        RequestError: for an unknown metric or factor, or a frame with fewer than two methods.
    """
    allowed = ("sampler", "noise", "rate")
    for factor in average:
        if factor not in allowed:
            raise RequestError(f"cannot average over {factor!r}{nearest(factor, allowed)}")
    methods = [str(name) for name in ordered(list(frame["method"].astype(str)), "method", metadata)]
    if len(methods) < 2:
        raise RequestError("a comparison needs at least two methods; this run has " + (", ".join(methods) or "none"))
    if metric is not None:
        must_be_measured(metric, frame)
    average, labels = tuple(dict.fromkeys(average)), labels or {}
    names = {name: called(name, labels) for name in methods}
    methods = list(names.values())
    plain = frame.assign(method=frame["method"].astype(str).map(names), status=frame["status"].astype(str))
    by = [factor for factor in SETTING if factor not in average]
    groups, directions = [], []
    for setting in settings_of(plain, by, metadata):
        part = records_of(setting, plain)
        chosen = metric or metadata.headline.get(str(setting["dataset"]), "rmse")
        lower, target = metadata.lower_is_better(chosen), metadata.targets.get(chosen)
        unit = metadata.unit(chosen, str(setting["dataset"]))
        paired = _paired(part, chosen, average, methods)
        warning = caution(part.dropna(subset=SECONDS)) if chosen == SECONDS else ""
        if target is not None:  # more and less are both worse
            paired = _Paired((paired.scores - target).abs(), paired.ended)
            lower = True
        shown = called(chosen, labels) if target is None else f"|{called(chosen, labels)} - {target:g}|"
        title = title_of(setting, plain, labels)
        (setting,) = labelled([setting], labels)
        groups.append(replace(_group(title, setting, shown, unit, paired, lower), caution=warning))
        directions.append(not lower)
    rows = [dict(zip(group.methods, group.means, strict=True)) for group in groups]
    scores = pd.DataFrame(rows, index=[group.title for group in groups], columns=methods, dtype=float)
    return Comparison(tuple(groups), scores, tuple(directions), average)


def fewest_for_ranks(pairs: int) -> int:
    """The fewest trials with which signed ranks can reach 5 % after correction over ``pairs`` pairs of methods.

    The smallest two-sided p-value of n signed ranks is 2 / 2^n.

    >>> fewest_for_ranks(1), fewest_for_ranks(6)
    (6, 8)
    """
    return math.ceil(math.log2(2 * pairs / (1 - CONFIDENCE)))


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p-values (Holm 1979); NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = list(values)
    tested = sorted((value, index) for index, value in enumerate(values) if not math.isnan(value))
    largest = 0.0
    for step, (value, index) in enumerate(tested):
        largest = max(largest, min(1.0, value * (len(tested) - step)))
        corrected[index] = largest
    return corrected


@dataclass(frozen=True)
class _Paired:
    """One setting's trials, a row a trial and a column a method.

    Attributes:
        scores: finite scores; NaN where a method has none.
        ended: whether the trial has ended for the method, in whatever way.
    """

    scores: pd.DataFrame
    ended: pd.DataFrame


def _paired(part: pd.DataFrame, metric: str, average: Sequence[str], methods: Sequence[str]) -> _Paired:
    """A trial that is averaged over levels of a factor needs all of them."""
    values = part[metric].astype(float) if metric in part else pd.Series(math.nan, index=part.index)
    scores = part.assign(score=values.where((part["status"] == OK) & np.isfinite(values)))
    levels = len(part[list(average)].drop_duplicates()) if average else 1
    trials = scores.groupby(["seed", "trial", "method"], sort=True)["score"]
    present = [name for name in methods if name in set(part["method"])]
    whole = trials.mean().where(trials.count() >= levels)
    ended = trials.size() >= levels
    return _Paired(whole.unstack("method")[present], ended.unstack("method", fill_value=False)[present])


def _group(
    title: str, setting: dict[str, object], metric: str, unit: str, paired: _Paired, lower: bool
) -> SettingComparison:
    common = paired.scores[paired.ended.all(axis=1)]
    complete = [str(name) for name in common if len(common) and common[name].notna().all()]
    unranked = [str(name) for name in common if len(common) and name not in complete]
    means = {name: float(common[name].mean()) for name in complete}
    ranked = sorted(means, key=lambda name: means[name] if lower else -means[name])
    others = [str(name) for name in common if name not in means and paired.scores[name].notna().any()]
    compared = list(itertools.combinations([*ranked, *others], 2))
    fewest = fewest_for_ranks(max(1, len(compared)))
    pairs = [
        _pair(first, second, paired.scores[first].to_numpy(), paired.scores[second].to_numpy(), lower, fewest)
        for first, second in compared
    ]
    corrected = holm([pair.p for pair in pairs])
    pairs = [replace(pair, corrected=value) for pair, value in zip(pairs, corrected, strict=True)]
    listed = tuple(means[name] for name in ranked)
    return SettingComparison(title, setting, metric, unit, tuple(ranked), listed, tuple(unranked), tuple(pairs))


def _pair(first: str, second: str, left: Vector, right: Vector, lower: bool, fewest: int) -> Pair:
    """Compare two methods whose scores stand in the same order of trials; ``fewest`` of them allow ranks."""
    both = np.isfinite(left) & np.isfinite(right)
    advantage = (right - left)[both] if lower else (left - right)[both]
    missing = int((np.isfinite(left) | np.isfinite(right)).sum() - both.sum())
    count = len(advantage)
    if count == 0:
        return Pair(first, second, math.nan, math.nan, math.nan, 0, 0, 0, missing, "none", math.nan)
    if advantage.mean() < 0:  # the means over common trials may differ from those over all
        first, second, advantage = second, first, -advantage
    low, high = interval(advantage)
    test, p = _test(advantage, fewest)
    return Pair(
        first,
        second,
        difference=float(advantage.mean()),
        low=low,
        high=high,
        wins=int((advantage > 0).sum()),
        ties=int((advantage == 0).sum()),
        count=count,
        missing=missing,
        test=test,
        p=p,
    )


def _test(differences: Vector, fewest: int) -> tuple[str, float]:
    if len(differences) < 2:
        return "none", math.nan
    from scipy import stats

    ranks = len(differences) >= fewest
    name = "wilcoxon" if ranks else "t"
    if not differences.any():
        return name, 1.0
    if np.ptp(differences) == 0 and not ranks:  # no spread at all: t is infinite
        return name, 0.0
    result = stats.wilcoxon(differences) if ranks else stats.ttest_1samp(differences, 0.0)
    return name, float(result.pvalue)


def _digits(low: float, high: float, difference: float) -> int:
    """Decimals that show two figures of the interval's half width, or of the difference itself."""
    width = (high - low) / 2 if not math.isnan(low) and high > low else abs(difference)
    return min(12, decimals(width, figures=2)) if width > 0 else 3


def _pair_table(group: SettingComparison) -> str:
    heads = ["better", "worse", "difference", "95 % interval", "wins", "p (Holm)"]
    missing = any(pair.missing for pair in group.pairs)
    body = [[*pair_cells(pair), *([str(pair.missing)] if missing else [])] for pair in group.pairs]
    title = f"{group.title}: {with_unit(group.metric, group.unit)}"
    return Text().table(title, [*heads, *(["missing"] if missing else [])], body, labels=2)


def pair_cells(pair: Pair) -> list[str]:
    """A pair as the texts of its row: better, worse, difference, interval, wins, corrected p."""
    if pair.count == 0:
        return [pair.better, pair.worse, "-", "-", "0/0", "-"]
    digits = _digits(pair.low, pair.high, pair.difference)
    interval = "-" if math.isnan(pair.low) else f"[{pair.low:.{digits}f}, {pair.high:.{digits}f}]"
    ties = f" ({pair.ties} equal)" if pair.ties else ""
    wins = f"{pair.wins}/{pair.count}{ties}"
    return [pair.better, pair.worse, f"{pair.difference:.{digits}f}", interval, wins, p_text(pair.corrected)]
