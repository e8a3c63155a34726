"""Completing an observation without a truth: which method to trust, and how far off it will be.

Observed entries are withheld in the pattern of the gaps (:mod:`fieldbench.gap_holdout`), every candidate completes
what is left, and the errors at the withheld entries, weighted to be as hard to predict as the gaps
(:mod:`fieldbench.completion.validation`), decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldbench.calibration import LEVELS, ONE_DEVIATION, calibrated
from fieldbench.completion.bench import Bench, FitResult, at_once
from fieldbench.completion.comparison import Candidate, CandidateComparison, mean_of, named, rank
from fieldbench.completion.nearby import AtDistance, by_distance
from fieldbench.completion.periodic import fitted
from fieldbench.completion.validation import Promise, Validation
from fieldbench.errors import RequestError, as_reason
from fieldbench.execution import Options
from fieldbench.execution.machine import cores
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import keyed_seed, stream
from fieldbench.method import Method
from fieldbench.registry import Registry, Sources

if TYPE_CHECKING:
    import pandas as pd

AUTO = "auto"

#: The method that is a result where no other is.
NEAREST = "nearest"

#: Seconds of processor time for a comparison, by default.
BUDGET = 110.0

#: Squared errors of a field whose largest value is below this may be no numbers but 0.
_SMALLEST = 1e-120


@dataclass(frozen=True, eq=False)
class Completed:
    """A completed field and what is known of it.

    Attributes:
        method: spec of the method that made it, or of those whose mean it is.
        values: array, in the observation's unit; NaN where the field does not exist.
        deviation: standard deviation of each entry, in the observation's unit: calibrated at the withheld entries, or
            without these as the method reports it; None if it reports none. NaN at observed entries if it reports
            none, as withheld entries say nothing of these.
        comparison: the candidates, best first.
        metric: name of the metric of their errors.
        withheld: how many observed entries were withheld in the first fold; 0 without a comparison.
        seconds: processor time of the final fit, to all that was observed.
        promise: the error to expect at the gaps, with its 90 % interval; None if it was not measured, or if most gaps
            are harder to predict than anything that could be withheld (:attr:`beyond`).
        beyond: whether the error at the gaps is beyond what can be checked. Then no candidate has an expected error.
        by_distance: the chosen method's errors at withheld entries by distance to the nearest observation.
        intervals: by probability, the half width of the interval around a value that should hold the truth so often,
            in deviations (of the logarithm, for a field with a floor). Empty where the deviation is not calibrated,
            or where the error is :attr:`beyond` what can be checked.
    """

    method: str
    values: FloatArray
    deviation: FloatArray | None
    comparison: tuple[Candidate, ...]
    metric: str
    withheld: int
    seconds: float
    promise: Promise | None = None
    beyond: bool = False
    by_distance: tuple[AtDistance, ...] = ()
    intervals: Mapping[float, float] = field(default_factory=dict)

    @property
    def expected_error(self) -> float:
        """The error to expect at the gaps, in the metric (NaN if it was not measured or cannot be checked)."""
        return math.nan if self.promise is None else self.promise.expected

    def frame(self) -> pd.DataFrame:
        """The comparison as a table: method, ratio, expected error, errors of the folds, times and note; best first."""
        import pandas as pd

        rows = [asdict(item) for item in self.comparison]
        return pd.DataFrame(rows, columns=["method", "ratio", "expected", "errors", "seconds", "wall", "note"])


def complete(
    observation: Observation,
    method: str = AUTO,
    *,
    candidates: Sequence[str] = (),
    budget: float = BUDGET,
    folds: int = 3,
    share: float = 0.1,
    seed: int = 0,
    device: str = "auto",
    sources: Sources | None = None,
    weights: FloatArray | None = None,
    mix: bool = True,
    watch: Callable[[str], None] = lambda line: None,
    busy: Callable[[str], None] = lambda work: None,
) -> Completed:
    """Complete a field from what was observed of it.

    Args:
        observation: values with gaps.
        method: a method's spec, or ``auto`` to choose by withheld entries.
        candidates: specs to choose among; all installed methods with default parameters if none are given.
        budget: seconds of processor time that fits of the comparison may take; where a fit waits more than it
            computes, its waiting counts. The final fit comes on top. 0 skips the comparison, for one method.
        folds: how many times entries are withheld; more for the method that is chosen, if time is left.
        share: share of the observed entries withheld each time; more where gaps are large.
        seed: of everything random.
        device: as in :class:`fieldbench.execution.Options`.
        sources: plugins besides the installed ones.
        weights: array of the observation's shape, what each entry's squared error counts in the comparison (the
            area of a grid cell); None for all alike.
        mix: whether to take the mean of the best candidates where they can hardly be told apart.
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
    floor = observation.log_floor
    metric = registry.metric("rmse" if floor is None else f"slnre[floor={floor!r}]")  # it refuses a floor that is none
    comparison, ranked, promise, distances = None, list[Candidate](), None, tuple[AtDistance, ...]()
    alone = Options(device=device, jobs=1, threads=cores())
    with ExitStack() as stack:
        at_once = alone if method != AUTO else replace(alone, jobs=cores(), threads=1)
        bench = stack.enter_context(Bench(registry, at_once))
        if method == AUTO and not candidates:
            _begin("asking which methods can work on this field", watch, busy)
        specs, unsuited = _candidates(observation, method, candidates, registry, bench)
        if budget > 0:
            _must_have_squares(observation)
            _begin("withholding entries in the pattern of the gaps", watch, busy)
            validation = Validation(observation, share, folds, stream("withhold", seed), weights)
            comparison = CandidateComparison(bench, observation, validation, seed, budget, watch, busy)
            ranked = sorted(comparison.run(specs), key=rank)
        elif method == AUTO:
            raise RequestError("choosing a method needs a budget; give --budget SECONDS, or name a method")
        wanted: list[tuple[str, ...]] = [(item.method,) for item in ranked if item.errors]
        if method != AUTO:
            wanted = [(spec,) for spec in specs]
        elif not wanted:
            wanted = [(_last_resort(ranked, budget, watch),)]
        elif comparison is not None and mix:
            wanted.insert(0, comparison.best(ranked))
        if method == AUTO:
            bench.close()  # the last fit has all threads for itself
            bench = stack.enter_context(Bench(registry, alone))
        chosen, fit = _final(bench, observation, wanted, seed, watch, busy)
    deviation, intervals = fit.deviation, dict[float, float]()
    if comparison is not None and comparison.compared(chosen):
        promise = comparison.promise(chosen)
        distances = by_distance(observation, validation, comparison.squares(chosen))
        deviation, intervals = _calibrated(comparison, chosen, fit, observation)
        if len(chosen) > 1:
            ranked.insert(0, comparison.mean(chosen, ranked))
    assert fit.made is not None
    values = np.where(observation.valid, fit.made.mean, np.nan)
    if deviation is not None:
        deviation = np.where(observation.valid, deviation, np.nan)
    beyond = promise is not None and not validation.checked
    if beyond:  # no number that could be taken for the gaps' error
        ranked = [replace(item, expected=math.nan) for item in ranked]
    return Completed(
        named(chosen),
        values,
        deviation,
        (*ranked, *unsuited),
        metric.name,
        0 if comparison is None else int(validation.folds[0].withheld.sum()),
        fit.seconds,
        None if beyond else promise,
        beyond,
        distances,
        {} if beyond else intervals,
    )


def _begin(work: str, watch: Callable[[str], None], busy: Callable[[str], None]) -> None:
    watch(work)
    busy(work)


def _calibrated(
    comparison: CandidateComparison, methods: Sequence[str], fit: FitResult, observation: Observation
) -> tuple[FloatArray | None, dict[float, float]]:
    """A deviation as large as errors at withheld entries, and intervals in parts of it; the method's own of too few."""
    assert fit.made is not None
    calibration = comparison.calibration(methods, fit.made)
    one = calibration.quantile(ONE_DEVIATION)
    if not one:
        return fit.deviation, {}
    widths = {level: calibration.quantile(level) for level in (*LEVELS, ONE_DEVIATION)}
    spread = np.array(calibrated(fit.made, observation, calibration, levels=()).spread())
    if fit.deviation is None:  # errors at withheld entries say nothing of those at observed ones
        spread[observation.mask] = np.nan
    else:
        spread[fit.deviation == 0] = 0.0
    return spread, {level: width / one for level, width in sorted(widths.items()) if width is not None}


def _must_have_squares(observation: Observation) -> None:
    largest = float(np.abs(observation.observed).max())
    if 0 < largest < _SMALLEST:
        raise RequestError(f"its values reach {largest:g}, whose squared errors no number holds; use another unit")


def _last_resort(ranked: Sequence[Candidate], budget: float, watch: Callable[[str], None]) -> str:
    """Where no method got through a comparison, the nearest entry is a result, if it is among the candidates."""
    late = [item.method for item in ranked if item.out_of_time]
    if NEAREST in late:
        watch(f"no method got through a comparison of {budget:g} s, so {NEAREST} it is")
        return NEAREST
    reasons = "; ".join(f"{item.method}: {item.note}" for item in ranked)
    raise RequestError(f"no method got through a comparison of {budget:g} s ({reasons}); raise the budget")


def _candidates(
    observation: Observation, method: str, candidates: Sequence[str], registry: Registry, bench: Bench
) -> tuple[list[str], list[Candidate]]:
    """The methods to compare, and those that cannot work on such an observation, with the reason."""
    if method != AUTO:
        chosen = registry.method(method)
        reason = bench.unsuited(str(chosen), observation)
        if reason:
            raise RequestError(reason)
        return [str(chosen)], []

    def asked(text: str) -> tuple[str, str | None]:
        try:
            spec = str(registry.method(text))
            return spec, bench.unsuited(spec, observation)
        except Exception as error:  # one that cannot do without a parameter, or a plugin that is at fault
            if candidates:
                raise
            return text, as_reason(error)

    every = candidates or [key for key, entry in registry.entries("method").items() if issubclass(entry.cls, Method)]
    reasons = dict(at_once(bench, asked, every))
    suited = [text for text, reason in reasons.items() if reason is None]
    if not suited:
        raise RequestError("no method works on this field: " + "; ".join(filter(None, reasons.values())))
    return suited, [Candidate(text, note=reason) for text, reason in reasons.items() if reason is not None]


def _final(
    bench: Bench,
    observation: Observation,
    wanted: Sequence[Sequence[str]],
    seed: int,
    watch: Callable[[str], None],
    busy: Callable[[str], None],
) -> tuple[Sequence[str], FitResult]:
    """Fit the best method, or those of the mean, to everything; if one fails on that, the next."""
    fits, error = dict[str, FitResult](), ""
    for methods in wanted:
        for text in methods:
            if text in fits:
                continue
            _begin(f"completing the field with {text}", watch, busy)
            own = keyed_seed(seed, "complete", text)
            fits[text] = fitted(lambda seen: bench.fit(text, seen, own), observation)  # noqa: B023
            if fits[text].made is None:
                error = f"{text}: {fits[text].error}"
                watch(error)
                break
        parts = [fits[text] for text in methods if text in fits]
        estimates = [part.made for part in parts if part.made is not None]
        if len(estimates) == len(methods):
            made = mean_of(estimates, observation.log_floor)
            return methods, FitResult(made, sum(part.seconds for part in parts), sum(part.wall for part in parts))
    raise RequestError(f"no method completed the field; {error}")
