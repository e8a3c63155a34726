"""Comparing methods trial by trial: all of them met the same observations, so differences are paired.

The trials of a setting (dataset, sampler, noise, rate, selection) are its independent repetitions. For each
pair of methods the differences of their scores give a mean with Student's interval, wins, and from :data:`FEWEST`
trials on a test: Wilcoxon's signed ranks where there are enough trials for them to reach 5 % at all
(:func:`fewest_for_ranks`), else a paired t. All pairs of all settings are corrected together, p-values after Holm
(1979), intervals after Bonferroni. Ranks over settings are compared as Demsar 2006 does (Friedman, Nemenyi). In a
setting only those methods are ranked that have a score on every trial, since the trials that another lost may be the
hard ones.
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
from fieldbench.report.factors import levels_meant, must_be_measured, once, ordered
from fieldbench.report.formats import Text, csv_text, style_of
from fieldbench.report.labels import called, labelled, named_so
from fieldbench.report.metadata import RunMetadata
from fieldbench.report.numbers import decimals, fixed, p_text, with_unit
from fieldbench.report.settings import SETTING, about_masks, records_of, settings_of, title_of
from fieldbench.report.statistics import CONFIDENCE, detectable, interval
from fieldbench.report.times import SECONDS, caution

#: Fewer trials carry no test.
FEWEST = 5

#: What the tests are called.
_TESTS = {"wilcoxon": "Wilcoxon's signed ranks", "t": "paired t (too few trials for signed ranks to reach 5 %)"}

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two methods in one setting.

    Attributes:
        better, worse: the methods, by their mean over the pairs; in the order asked for where they are equal.
        difference: by how much ``better`` is better in the mean: never negative, in the metric's unit.
        low, high: 95 % interval of the difference (Student's t, all of a comparison holding together); NaN for a
            single pair.
        wins, ties: pairs in which ``better`` has the better score, and in which both have the same.
        count: pairs in which both methods have a finite score.
        missing: pairs that are left out since a method failed, has not run yet or scored no finite number.
        detectable: the difference that this many trials find in four of five cases, NaN for a single pair.
        test: ``wilcoxon``, ``t`` or ``none`` (fewer than :data:`FEWEST` pairs).
        p: two-sided p-value of the test; NaN for ``none``.
        corrected: the same after Holm's correction over the pairs of all settings.
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
    detectable: float
    test: str
    p: float
    corrected: float = math.nan

    @property
    def significant(self) -> bool:
        """Whether the corrected p-value is below 5 %, and the corrected interval above zero."""
        return self.corrected < 1 - CONFIDENCE and self.low > 0

    def sentence(self, unit: str = "", direction: str = "") -> str:
        """What a reader can quote: ``A beats B on 9 of 10 trials, by 0.12 m/s [0.08, 0.16]``.

        Where the test or the interval does not tell them apart, A is only "ahead of" B.
        """
        if self.count == 0:
            return f"{self.better} and {self.worse} have no trial in common"
        plural = "trial" if self.count == 1 else "trials"
        if self.difference == 0:
            mean = "" if self.ties == self.count else "the mean of "
            return f"{self.better} and {self.worse} tie on {mean}{self.count} {plural}"
        digits = _digits(self.low, self.high, self.difference)
        amount = f"{self.difference:.{digits}f}{' ' + unit if unit else ''}"
        interval = "" if math.isnan(self.low) else f" [{self.low:.{digits}f}, {self.high:.{digits}f}]"
        measure = f" {direction}" if direction else ""
        verb, doubt = ("beats", "") if self.significant else ("is ahead of", ", which may be chance")
        doubt += f" (a test needs {FEWEST} trials)" if self.count < FEWEST else ""
        on = f"{self.wins} of {self.count} {plural}{_ties(self.ties)}"
        return f"{self.better} {verb} {self.worse} on {on}, by {amount}{measure}{interval}{doubt}"


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
        pairs: every pair of methods with any score (or of the baseline with another), those of the best method first.
        one_field: name of the dataset, if its field is the same in every trial; else an empty text.
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
    one_field: str = ""

    @property
    def first(self) -> tuple[str, ...]:
        """The method with the best mean, or those that share it."""
        return tuple(name for name, mean in zip(self.methods, self.means, strict=True) if mean == self.means[0])

    @property
    def sentence(self) -> str:
        """The best method against the runner-up, or the baseline against the best of the others."""
        if not self.methods:
            return "no method has a score on every trial" if self.unranked else "no trial has ended for all methods"
        if len(self.methods) == 1:
            best = self.methods[0]
            return f"only {best} has a score on every trial" if self.unranked else f"{best} is the only method"
        ranked = [pair for pair in self.pairs if {pair.better, pair.worse} <= set(self.methods)]
        if not ranked:
            return "the baseline has no score on some trial"
        pair = min(ranked, key=lambda pair: sorted(map(self.methods.index, (pair.better, pair.worse))))
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
        baseline: the one method that all others are tested against; empty where every pair is tested.
    """

    groups: tuple[SettingComparison, ...]
    scores: pd.DataFrame
    higher_is_better: tuple[bool, ...]
    averaged: tuple[str, ...] = ()
    baseline: str = ""

    @property
    def sentence(self) -> str:
        """One sentence for the whole: the only setting's, or who is best in how many."""
        if len(self.groups) == 1:
            return f"{self.groups[0].sentence} ({self.groups[0].title})."
        contested = [group for group in self.groups if len(group.methods) > 1]
        if not contested:
            return "No setting has two methods with a score on every trial."
        firsts = [group.first for group in contested]
        best = max(itertools.chain.from_iterable(firsts), key=lambda name: sum(name in first for first in firsts))
        wins = [first for first in firsts if best in first]
        shared = sum(len(first) > 1 for first in wins)
        example = next((group for group in contested if group.methods[0] == best), contested[0])
        ties = f" (shared in {shared})" if shared else ""
        share = f"{best} has the best mean in {len(wins)} of {len(contested)} settings{ties}"
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

        complete = self.scores.mul(np.where(self.higher_is_better, -1.0, 1.0), axis=0).dropna()
        means = complete.rank(axis=1).mean().sort_values(kind="stable")
        alike = len(means) < 3 or len(complete) < 2
        friedman = math.nan if alike else float(stats.friedmanchisquare(*complete.to_numpy().T).pvalue)
        return Ranks(tuple(map(str, means.index)), tuple(map(float, means)), len(complete), friedman)

    def to(self, format: str, *, styled: bool = False, width: int | None = None) -> str:
        """A sentence, a table of pairs for each setting, ranks and notes as ``text``, ``markdown``, ``csv``, ``latex``
        or ``html``.

        Args:
            format: one of these names; ``csv`` has one line a pair.
            styled: for ``text``, whether bold may be used.
            width: of a line in characters; wider tables are split.

        Raises:
            RequestError: for any other name.
        """
        if format == "csv":
            return csv_text(self.pairs())
        style = style_of(format, styled=styled, width=width)
        pieces = [style.paragraph(style.text(self.sentence))]
        pieces += [_pair_table(group, style) for group in self.groups if group.pairs]
        ranks = self.ranks()
        if len(self.groups) > 1 and ranks.settings:
            means = [[style.text(name), f"{mean:.2f}"] for name, mean in zip(ranks.methods, ranks.means, strict=True)]
            title = style.text(f"Ranks over {ranks.settings} settings (1 is best){ranks.test}")
            pieces.append(style.table(title, ["method", "mean rank"], means))
        return style.whole(pieces, [style.text(note) for note in self.notes])

    @property
    def notes(self) -> list[str]:
        """How the numbers were made."""
        tests = {pair.test for group in self.groups for pair in group.pairs}
        missing = sum(pair.missing for group in self.groups for pair in group.pairs)
        notes = list(dict.fromkeys(group.caution for group in self.groups if group.caution))
        together = sum(pair.count > 1 for group in self.groups for pair in group.pairs)
        corrected = f"; all {together} hold together, after Bonferroni" if together > 1 else ""
        notes.append(f"difference: mean over paired trials, with its 95 % interval (Student's t{corrected})")
        if names := [name for test, name in _TESTS.items() if test in tests]:
            tested = sum(pair.test != "none" for group in self.groups for pair in group.pairs)
            corrected = f", Holm's correction over all {tested} tests" if tested > 1 else ""
            notes.append(
                f"p: {' or '.join(names)}, two-sided{corrected}; bold: p below 5 % and the interval above zero"
            )
        if any(0 < pair.count < FEWEST for group in self.groups for pair in group.pairs):
            notes.append(f"p -: fewer than {FEWEST} trials carry no test; run {FEWEST} or more (--trials)")
        if together:
            notes.append(
                "detectable: the smallest difference that these trials find in four of five cases (paired t at 5 %, "
                "corrected likewise); smaller ones would mostly go unseen"
            )
        if fields := dict.fromkeys(group.one_field for group in self.groups if group.one_field):
            notes.append(about_masks(fields))
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
        return self.to("text")


def compare(
    frame: pd.DataFrame,
    metadata: RunMetadata,
    *,
    metric: str | None = None,
    average: Sequence[str] = (),
    baseline: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare the methods of a run pair by pair.

    Args:
        frame: records as :func:`fieldbench.report.frame.read_frame` gives them.
        metadata: what is known of its specs and metrics.
        metric: a metric or ``seconds``; by default the headline metric of each dataset.
        average: factors of the setting (``rate``, ``noise``, ``sampler``) over which each trial's scores are
            averaged first, so that trials stay the independent unit. Only trials that are complete count.
        baseline: test each other method against this one only, and correct for these tests; a spec, the name that one
            spec alone has, or a label.
        labels: what to call what.

    Raises:
        RequestError: for an unknown metric, factor or baseline, or a frame with fewer than two methods.
    """
    frame = once(frame)
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
    baseline = None if baseline is None else _baseline(baseline, frame, methods, labels)
    names = {name: called(name, labels) for name in methods}
    methods = list(names.values())
    plain = frame.assign(method=frame["method"].astype(str).map(names), status=frame["status"].astype(str))
    by = [factor for factor in SETTING if factor not in average]
    drafts, groups, directions = [], [], []
    for setting in settings_of(plain, by, metadata):
        part = records_of(setting, plain)
        dataset = str(setting["dataset"])
        chosen = metric or metadata.headline_of(dataset)
        lower, target = metadata.lower_is_better(chosen), metadata.targets.get(chosen)
        shown = called(chosen, labels)
        scores, ended = _paired(part, chosen, average, methods)
        if target is not None:  # more and less are both worse
            scores, lower, shown = (scores - target).abs(), True, f"|{shown} - {target:g}|"
        means, unranked = _means(scores, ended, lower)
        (named,) = labelled([setting], labels)
        groups.append(
            SettingComparison(
                title=title_of(setting, plain, labels),
                setting=named,
                metric=shown,
                unit=metadata.unit(chosen, dataset),
                methods=tuple(means),
                means=tuple(means.values()),
                unranked=unranked,
                pairs=(),
                caution=caution(part.dropna(subset=SECONDS)) if chosen == SECONDS else "",
                one_field=called(dataset, labels) if dataset in metadata.fixed else "",
            )
        )
        directions.append(not lower)
        scored = [str(name) for name in scores if scores[name].notna().any()]
        compared = itertools.combinations(dict.fromkeys([*means, *scored]), 2)  # the ranked ones first
        asked = [pair for pair in compared if baseline is None or names[baseline] in pair]
        signed = -scores if lower else scores
        drafts.append([(*pair, *_advantages(*pair, signed)) for pair in asked])
    together = sum(len(advantages) > 1 for listed in drafts for *_, advantages, _ in listed)
    pairs = [[_pair(*met, max(1, together)) for met in listed] for listed in drafts]
    corrected = iter(holm([pair.p for listed in pairs for pair in listed]))
    groups = [
        replace(group, pairs=tuple(replace(pair, corrected=next(corrected)) for pair in listed))
        for group, listed in zip(groups, pairs, strict=True)
    ]
    rows = [dict(zip(group.methods, group.means, strict=True)) for group in groups]
    scores = pd.DataFrame(rows, index=[group.title for group in groups], columns=methods, dtype=float)
    return Comparison(tuple(groups), scores, tuple(directions), average, names.get(baseline or "", ""))


def _baseline(text: str, frame: pd.DataFrame, methods: Sequence[str], labels: Mapping[str, str]) -> str:
    """The one method that a spec, a name or a label stands for."""
    named = named_so(text, labels)
    if named in methods:
        return named
    try:
        (meant,) = levels_meant(frame, "method", [named])
    except RequestError:
        raise RequestError(f"the baseline {text!r} is not in this run{nearest(text, methods)}") from None
    if len(meant) > 1:
        raise RequestError(f"the baseline {text!r} may be any of {', '.join(map(str, meant))}; give one of these")
    return str(meant[0])


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
    corrected = pd.Series(values, dtype=float)
    tested = corrected.dropna().sort_values()
    corrected.update((tested * np.arange(len(tested), 0, -1)).clip(upper=1).cummax())
    return corrected.tolist()


def _paired(
    part: pd.DataFrame, metric: str, average: Sequence[str], methods: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Finite scores of one setting, and whether a trial has ended in whatever way: a row a trial, a column a method.

    A trial that is averaged over levels of a factor needs all of them.
    """
    values = part[metric].astype(float) if metric in part else pd.Series(math.nan, index=part.index)
    scores = part.assign(score=values.where((part["status"] == OK) & np.isfinite(values)))
    levels = len(part[list(average)].drop_duplicates()) if average else 1
    trials = scores.groupby(["seed", "trial", "method"], sort=True)["score"]
    present = [name for name in methods if name in set(part["method"])]
    whole = trials.mean().where(trials.count() >= levels)
    ended = trials.size() >= levels
    return whole.unstack("method")[present], ended.unstack("method", fill_value=False)[present]


def _means(scores: pd.DataFrame, ended: pd.DataFrame, lower: bool) -> tuple[dict[str, float], tuple[str, ...]]:
    """The methods with a score on every trial that all ended, each with its mean, the best first; and the others."""
    common = scores[ended.all(axis=1)]
    complete = [str(name) for name in common if len(common) and common[name].notna().all()]
    means = {name: float(common[name].mean()) for name in complete}
    ranked = sorted(means, key=lambda name: means[name] if lower else -means[name])
    unranked = tuple(str(name) for name in common if len(common) and name not in complete)
    return {name: means[name] for name in ranked}, unranked


def _advantages(first: str, second: str, scores: pd.DataFrame) -> tuple[Vector, int]:
    """By how much the first is better on each trial that both have, where more is better; how many others are there."""
    left, right = scores[first].to_numpy(), scores[second].to_numpy()
    advantages = left - right
    found = advantages[np.isfinite(advantages)]
    return found, int((np.isfinite(left) | np.isfinite(right)).sum()) - len(found)


def _pair(first: str, second: str, advantage: Vector, missing: int, together: int) -> Pair:
    """Compare two methods that have met, one of ``together`` such pairs."""
    count = len(advantage)
    if count == 0:
        nothing = math.nan
        return Pair(first, second, nothing, nothing, nothing, 0, 0, 0, missing, nothing, "none", nothing)
    if advantage.mean() < 0:  # the means over common trials may differ from those over all
        first, second, advantage = second, first, -advantage
    low, high = interval(advantage, together)
    test, p = _test(advantage, fewest_for_ranks(together))
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
        detectable=detectable(float(advantage.std(ddof=1)), count, together) if count > 1 else math.nan,
        test=test,
        p=p,
    )


def _test(differences: Vector, fewest: int) -> tuple[str, float]:
    if len(differences) < FEWEST:
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


def _pair_table(group: SettingComparison, style: Text) -> str:
    heads = ["better", "worse", "difference", "95 % interval", "wins", "p", "detectable"]
    missing = any(pair.missing for pair in group.pairs)
    body = []
    for pair in group.pairs:
        cells = [style.text(text) for text in pair_cells(pair)]
        cells[5] = style.bold.format(cells[5]) if pair.significant else cells[5]
        body.append([*cells, *([str(pair.missing)] if missing else [])])
    title = style.text(f"{group.title}: {with_unit(group.metric, group.unit)}")
    heads = [style.text(head) for head in (*heads, *(["missing"] if missing else []))]
    return style.table(title, heads, body, labels=2)


def pair_cells(pair: Pair) -> list[str]:
    """A pair as the texts of its row: better, worse, difference, interval, wins, corrected p, detectable difference."""
    if pair.count == 0:
        return [pair.better, pair.worse, "-", "-", "0/0", "-", "-"]
    digits = _digits(pair.low, pair.high, pair.difference)
    interval = "-" if math.isnan(pair.low) else f"[{pair.low:.{digits}f}, {pair.high:.{digits}f}]"
    wins = f"{pair.wins}/{pair.count}{_ties(pair.ties)}"
    difference = "tie" if pair.difference == 0 else f"{pair.difference:.{digits}f}"
    found = fixed(pair.detectable, digits)
    return [pair.better, pair.worse, difference, interval, wins, p_text(pair.corrected), found]


def _ties(count: int) -> str:
    return f" ({count} tie{'s' * (count > 1)})" if count else ""
