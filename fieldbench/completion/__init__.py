"""Completing an observation without a truth: which method to trust, and how far off it will be.

Observed entries are withheld in holes like the gaps (:mod:`fieldbench.completion.gaps`), every candidate
completes what is left, and the errors at the withheld entries decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldbench.completion.bench import Bench, Fit
from fieldbench.completion.gaps import withheld_like_the_gaps
from fieldbench.completion.nearby import AtDistance, by_distance
from fieldbench.completion.periodic import fitted
from fieldbench.errors import RequestError, as_reason
from fieldbench.estimate import Estimate
from fieldbench.execution import Options
from fieldbench.execution.machine import cores
from fieldbench.field import Field, FloatArray, Mask, Observation
from fieldbench.judging import keyed_seed, stream
from fieldbench.metric import Metric, score_one
from fieldbench.registry import Registry, Sources

if TYPE_CHECKING:
    import pandas as pd

AUTO = "auto"

#: A method that needs more than this part of its even share of the budget for its first fold has to wait.
_FIRST_TRY = 0.25
#: But it is given so many seconds if its share has them, since the first fold may import much.
_IMPORTS = 10.0


@dataclass(frozen=True)
class Candidate:
    """One method and how it did at withheld entries.

    Attributes:
        method: its spec.
        errors: its error in each fold that it completed, in the metric.
        expected: the error to compare by: the mean of all folds; where folds are missing, what that mean
            would be if its ratio to the best complete candidate's error were the same in all folds.
        seconds: of one fit, on average.
        note: why it is not (fully) compared: not applicable, failed, out of time.
        out_of_time: whether it lacks folds because the budget was used up.
    """

    method: str
    errors: tuple[float, ...] = ()
    expected: float = math.nan
    seconds: float = math.nan
    note: str = ""
    out_of_time: bool = False


@dataclass(frozen=True, eq=False)
class Completed:
    """A completed field and what is known of it.

    Attributes:
        method: spec of the method that made it.
        values: array, in the observation's unit; NaN where the field does not exist.
        deviation: standard deviation of each entry, or None if the method reports none.
        comparison: the candidates, best first.
        metric: name of the metric of their errors.
        withheld: how many observed entries were withheld in each fold; 0 without a comparison.
        seconds: of the final fit, to all that was observed.
        by_distance: the chosen method's errors at withheld entries by distance to the nearest observation.
    """

    method: str
    values: FloatArray
    deviation: FloatArray | None
    comparison: tuple[Candidate, ...]
    metric: str
    withheld: int
    seconds: float
    by_distance: tuple[AtDistance, ...] = ()

    @property
    def expected_error(self) -> float:
        """The error to expect at entries like the withheld ones, in the metric (NaN if it was not measured)."""
        return next((item.expected for item in self.comparison if item.method == self.method), math.nan)

    def frame(self) -> pd.DataFrame:
        """The comparison as a table: method, expected error, errors of the folds, seconds and note; best first."""
        import pandas as pd

        rows = [asdict(item) for item in self.comparison]
        return pd.DataFrame(rows, columns=["method", "expected", "errors", "seconds", "note"])


def complete(
    observation: Observation,
    method: str = AUTO,
    *,
    candidates: Sequence[str] = (),
    budget: float = 300.0,
    folds: int = 3,
    share: float = 0.1,
    seed: int = 0,
    device: str = "auto",
    sources: Sources | None = None,
    weights: FloatArray | None = None,
    watch: Callable[[str], None] = lambda line: None,
    busy: Callable[[str], None] = lambda work: None,
) -> Completed:
    """Complete a field from what was observed of it.

    Args:
        observation: values with gaps.
        method: a method's spec, or ``auto`` to choose by withheld entries.
        candidates: specs to choose among; all installed methods with default parameters if none are given.
        budget: seconds of fitting that the comparison may take. The final fit comes on top, and a second or two
            for each method that had to be stopped. 0 skips the comparison, for one method.
        folds: how many times entries are withheld.
        share: share of the observed entries withheld each time.
        seed: of everything random.
        device: as in :class:`fieldbench.execution.Options`.
        sources: plugins besides the installed ones.
        weights: array of the observation's shape, what each entry's squared error counts in the comparison (the
            area of a grid cell); None for all alike. Not for a field that is compared by its logarithm.
        watch: told, line by line, what came of each fit.
        busy: told what is being done now, before each fit.

    Raises:
        RequestError: if nothing is missing, a spec is wrong or not applicable, or no method gets through.
    """
    if folds < 1 or not 0 < share < 1 or not 0 <= budget < math.inf:
        raise RequestError(
            "folds must be at least 1, the share withheld between 0 and 1, the budget 0 or more seconds, but finite"
        )
    if candidates and method != AUTO:
        raise RequestError(f"there is nothing to choose among where a method is named; leave out {method} or --among")
    sources = Sources.from_environment() if sources is None else sources
    registry = Registry(sources)
    metric = _metric(registry, observation)
    if weights is not None and observation.log_floor is not None:
        raise RequestError("errors of logarithms are not weighted by area; leave out the weights or the log floor")
    with Bench(registry, Options(device=device, jobs=1, threads=cores())) as bench:
        rivals, out = _rivals(observation, method, candidates, registry, bench)
        comparison: list[Candidate] = []
        withheld: list[Mask] = []
        if budget > 0:
            withheld = [
                withheld_like_the_gaps(observation, share, stream("withhold", seed, number)) for number in range(folds)
            ]
            compared_by = _Comparison(bench, observation, withheld, metric, weights, seed, budget, watch, busy)
            comparison = compared_by.run(rivals)
        elif method == AUTO:
            raise RequestError("choosing a method needs a budget; give --budget SECONDS, or name a method")
        ranked = sorted(comparison, key=_rank)
        compared = [item.method for item in ranked if item.errors]
        if method == AUTO and not compared:
            reasons = "; ".join(f"{item.method}: {item.note}" for item in ranked)
            raise RequestError(f"no method got through a comparison of {budget:g} s ({reasons}); raise the budget")
        chosen, fit = _final(bench, observation, compared if method == AUTO else rivals, seed, watch, busy)
    values = np.array(fit.estimate)
    deviation = None if fit.deviation is None else np.array(fit.deviation)
    for array in (values, deviation):
        if array is not None:
            array[~observation.valid] = np.nan
    return Completed(
        chosen,
        values,
        deviation,
        (*ranked, *out),
        metric.name,
        int(withheld[0].sum()) if withheld else 0,
        fit.seconds,
        compared_by.by_distance(chosen) if budget > 0 else (),
    )


class _Comparison:
    """Cross-validation within a budget: what is quick gets all folds, what is slow the time that is left.

    Every rival first gets a part of its even share of the budget for one fold. Those that make it do all
    folds. Those that do not are given the time that is left, each its even share, and more folds if it lasts.
    """

    def __init__(
        self,
        bench: Bench,
        observation: Observation,
        withheld: list[Mask],
        metric: Metric,
        weights: FloatArray | None,
        seed: int,
        budget: float,
        watch: Callable[[str], None],
        busy: Callable[[str], None],
    ) -> None:
        self._bench, self._metric, self._seed, self._watch, self._busy = bench, metric, seed, watch, busy
        self._observation, self._withheld, self._weights = observation, withheld, weights
        self._estimates: dict[str, list[FloatArray]] = {}
        self._left = budget
        self._errors: dict[str, list[float]] = {}
        self._seconds: dict[str, list[float]] = {}
        self._notes: dict[str, str] = {}
        self._longest: dict[str, float] = {}
        self._out_of_time: set[str] = set()

    def run(self, rivals: Sequence[str]) -> list[Candidate]:
        even = self._left / len(rivals)
        first = even if len(rivals) == 1 else max(_FIRST_TRY * even, min(_IMPORTS, even))
        late = [method for method in rivals if not self._fold(method, 0, first) and self._notes[method] == ""]
        self._complete_folds([method for method in rivals if method in self._errors])
        for index, method in enumerate(late):
            before = self._longest.get(method, 0.0)
            limit = min(self._left, max(2 * before, self._left / (len(late) - index)))
            # Little more than it has had in vain would be time lost.
            if limit > 1.5 * before:
                self._fold(method, 0, limit)
        tried = [item.method for item in sorted(self._candidates(rivals), key=_rank) if item.errors]
        self._complete_folds([method for method in tried if method in late])
        scaled = any(len(errors) == len(self._withheld) for errors in self._errors.values())
        for method in rivals:
            done = len(self._errors.get(method, ()))
            if self._notes[method] == "" and done < len(self._withheld):
                partly = f"{done} of {len(self._withheld)} folds in the time given"
                partly += ", error scaled to all folds" if scaled else ""
                self._notes[method] = partly if done else self._slow(method)
                self._out_of_time.add(method)
        return self._candidates(rivals)

    def by_distance(self, method: str) -> tuple[AtDistance, ...]:
        """Errors of a method by how far the nearest observation was."""
        return by_distance(self._observation, self._withheld, self._estimates.get(method, ()), self._score)

    def _score(self, estimate: FloatArray, entries: Mask) -> float:
        """The error of a vector of estimates at some entries."""
        truth = np.asarray(self._observation.values[entries], dtype=float)
        weights = np.ones(len(truth)) if self._weights is None else self._weights[entries]
        root, everywhere = np.sqrt(weights / weights.mean()), np.ones(len(truth), dtype=bool)
        return score_one(self._metric, Estimate(root * estimate), Field(root * truth), everywhere, everywhere)

    def _slow(self, method: str) -> str:
        """Why a method without any fold has none."""
        if method not in self._longest:
            return "not tried: the time was up"
        return f"too slow: no fold in {self._longest[method]:.2g} s"

    def _complete_folds(self, methods: Sequence[str]) -> None:
        """Run the folds that are missing, as far as they should end in time."""
        for number in range(1, len(self._withheld)):
            for method in methods:
                if self._notes[method] == "" and max(self._seconds[method]) < self._left:
                    self._fold(method, number, self._left)

    def _fold(self, method: str, number: int, limit: float) -> bool:
        """Fit one fold; whether it came to an end. One that runs out of time gets no note, as it may come again."""
        self._notes.setdefault(method, "")
        if limit <= 0:
            return False
        withheld = self._withheld[number]
        place = f"fold {number + 1} of {len(self._withheld)}"
        self._busy(f"measuring {method}, {place}")
        own = keyed_seed(self._seed, "complete", method)
        fit = fitted(lambda seen: self._bench.fit(method, seen, own, limit=limit), self._observation.without(withheld))
        self._left -= fit.seconds
        if fit.estimate is None:
            if fit.late:
                self._longest[method] = max(limit, self._longest.get(method, 0.0))
                self._watch(f"{method}: not done in {limit:.2g} s")
            else:
                self._notes[method] = fit.error
                self._watch(f"{method}: {fit.error}")
            return False
        self._estimates.setdefault(method, []).append(fit.estimate[withheld])
        error = self._score(fit.estimate[withheld], withheld)
        self._errors.setdefault(method, []).append(error)
        self._seconds.setdefault(method, []).append(fit.seconds)
        self._watch(f"{method}: {place}, {self._metric.name} {error:.4g}, {fit.seconds:.1f} s")
        return True

    def _candidates(self, rivals: Sequence[str]) -> list[Candidate]:
        whole = {method: errors for method, errors in self._errors.items() if len(errors) == len(self._withheld)}
        best = min(whole, key=lambda method: float(np.mean(whole[method])), default=None)
        made = []
        for method in rivals:
            errors = tuple(self._errors.get(method, ()))
            expected = float(np.mean(errors)) if errors else math.nan
            if errors and best is not None and method not in whole:
                same = float(np.mean(whole[best][: len(errors)]))
                if same > 0:
                    expected *= float(np.mean(whole[best])) / same
            seconds = float(np.mean(self._seconds[method])) if errors else math.nan
            late = method in self._out_of_time
            made.append(Candidate(method, errors, expected, seconds, self._notes[method], late))
        return made


def _rivals(
    observation: Observation, method: str, candidates: Sequence[str], registry: Registry, bench: Bench
) -> tuple[list[str], list[Candidate]]:
    """The methods to compare, and those that cannot work on such an observation, with the reason."""
    if method != AUTO:
        selector = registry.method(method)
        reason = bench.unsuited(str(selector), observation)
        if reason:
            raise RequestError(reason)
        return [str(selector)], []
    reasons: dict[str, str | None] = {}
    for text in candidates or registry.entries("method"):
        try:
            rival = registry.method(text)
            reasons[str(rival)] = bench.unsuited(str(rival), observation)
        except Exception as error:  # one that cannot do without a parameter, or a plugin that is at fault
            if candidates:
                raise
            reasons[text] = as_reason(error)
    rivals = [text for text, reason in reasons.items() if reason is None]
    if not rivals:
        raise RequestError("no method works on this field: " + "; ".join(filter(None, reasons.values())))
    return rivals, [Candidate(text, note=reason) for text, reason in reasons.items() if reason is not None]


def _metric(registry: Registry, observation: Observation) -> Metric:
    """RMSE, or for a field that is compared by its logarithm SLNRE with the field's floor."""
    if observation.log_floor is None:
        return registry.metric("rmse")
    return registry.metric(f"slnre[floor={observation.log_floor!r}]")


def _final(
    bench: Bench,
    observation: Observation,
    ranked: Sequence[str],
    seed: int,
    watch: Callable[[str], None],
    busy: Callable[[str], None],
) -> tuple[str, Fit]:
    """Fit the best method to everything; if it fails on that, the next."""
    error = ""
    for text in ranked:
        watch(f"completing the field with {text}")
        busy(f"completing the field with {text}")
        own = keyed_seed(seed, "complete", text)
        fit = fitted(lambda seen: bench.fit(text, seen, own), observation)  # noqa: B023
        if fit.estimate is not None:
            return text, fit
        error = f"{text}: {fit.error}"
        watch(error)
    raise RequestError(f"no method completed the field; {error}")


def _rank(candidate: Candidate) -> tuple[bool, float, float]:
    """Best first, the quicker of two equal ones; last those that were not compared."""
    if math.isnan(candidate.expected):
        return True, 0.0, 0.0
    return False, candidate.expected, candidate.seconds
