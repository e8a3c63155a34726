"""Candidates compared at withheld entries, within a budget, and the mean of the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

import numpy as np

from fieldbench.calibration import Calibration, calibrate
from fieldbench.calibration import Fold as Withheld
from fieldbench.completion.bench import Bench, FitResult, at_once
from fieldbench.completion.periodic import fitted
from fieldbench.completion.validation import Promise, Validation
from fieldbench.completion.window import window
from fieldbench.errors import RequestError
from fieldbench.estimate import Estimate
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import keyed_seed, stream

#: Part of the budget that every candidate may take for its first fold, and the seconds that it has at least.
_FIRST, _LEAST = 0.03, 2.0
#: How much more a candidate is given that did not come to an end, at least.
_MORE = 4.0
#: A candidate gets no more folds if it is slower than this part of the budget, and its error larger than the best one's
#: by this factor.
_SLOW, _BEATEN = 0.02, 1.5
#: Folds of the best candidates, so that neither the choice nor the promised error hangs on a few pieces.
_FOLDS = 8
#: A field with more observed entries than this is first completed in a window that has about as many.
_WINDOW = 2_000
#: Part of the budget that a candidate may take for the window, half of it if it predicts whole fields, and how many
#: times the best one's error makes it hopeless: it waits until the others have done.
_FOR_WINDOW, _HOPELESS = 0.04, 3.0
#: Part of what is left of the budget that a candidate may take for its first fold.
_MUCH = 0.2
#: Share of the observed entries of a window that is withheld.
_SHARE = 0.1
#: The largest logarithm of a ratio of errors.
_FARTHEST = 300.0
#: Part of the least error over all folds by which errors of a fold are raised: one that is predicted exactly, such as
#: a day without rain, says little of the others.
_EXACT = 0.1
#: Errors of this part of the largest value are those of rounding.
_ROUNDING = 1e-12
#: Candidates whose mean is taken, at most, where their errors can be checked.
_TOGETHER = 3
#: Part of the budget that is kept for the fits of a mean of candidates, after that of the best one.
_FOR_MEAN = 0.1
#: A candidate may still turn out to be the best if its error is at most this many times the best one's.
_CLOSE = 2.0


@dataclass(frozen=True)
class Candidate:
    """One method and how it did at withheld entries.

    Attributes:
        method: its spec; of a mean, the specs.
        errors: its error in each fold that it completed, in the metric.
        ratio: what candidates are compared by: the geometric mean over folds of its error over the best one's.
            Folds differ in how hard they are, and one bad fold of eight would decide a comparison of means. Where
            folds are missing, it is larger by the root of how many times more there should be.
        expected: its error at the gaps, as if it had completed all folds: where some are missing, scaled by the
            ratio of the leading candidate's error in all folds and in the same folds.
        seconds: processor time of one fit, on average.
        wall: wall-clock time of one fit, on average.
        note: why it is not (fully) compared: not applicable, failed, out of time.
        out_of_time: whether it lacks folds because the budget was used up.
    """

    method: str
    errors: tuple[float, ...] = ()
    ratio: float = math.nan
    expected: float = math.nan
    seconds: float = math.nan
    wall: float = math.nan
    note: str = ""
    out_of_time: bool = False


def rank(candidate: Candidate) -> tuple[bool, float, float]:
    """Best first, the quicker of two equal ones; last those that were not compared."""
    return (True, 0.0, 0.0) if math.isnan(candidate.ratio) else (False, candidate.ratio, candidate.seconds)


def _log_ratios(errors: Sequence[float], others: Sequence[float], least: float) -> FloatArray:
    """Logarithms of errors over others, both raised by ``least``, in each of the folds that both have."""
    numbers = np.finfo(float)
    pairs = np.nan_to_num(list(zip(errors, others, strict=False)), nan=np.inf)
    pairs = np.clip(np.hypot(pairs, least), numbers.tiny, numbers.max)
    return np.asarray(np.log(pairs[:, 0]) - np.log(pairs[:, 1]))


def _ratio(errors: Sequence[float], others: Sequence[float], least: float) -> float:
    """The geometric mean of errors over others, as :func:`_log_ratios` takes them; always a number above 0."""
    return float(np.exp(np.clip(_log_ratios(errors, others, least).mean(), -_FARTHEST, _FARTHEST)))


def mean_of(estimates: Sequence[Estimate], floor: float | None) -> Estimate:
    """The mean of estimates, of their logarithms where there is a floor.

    Its deviation is that of the first: calibrated, it is a scale of errors only.

    >>> mean_of([Estimate(np.zeros(1)), Estimate(np.ones(1))], None).mean
    array([0.5])
    """
    if len(estimates) == 1:
        return estimates[0]
    parts = [estimate.in_domain(floor) for estimate in estimates]
    mean, deviation = np.mean([part.mean for part in parts], axis=0), parts[0].spread()
    if floor is None:
        return Estimate(mean, deviation)
    return Estimate(np.maximum(np.exp(mean) - floor, 0.0), deviation, distribution="lognormal", floor=floor)


def named(methods: Sequence[str]) -> str:
    """How a mean is called.

    >>> named(["kriging"]), named(["kriging", "linear"])
    ('kriging', 'mean of kriging, linear')
    """
    return methods[0] if len(methods) == 1 else f"mean of {', '.join(methods)}"


class CandidateComparison:
    """Cross-validation within a budget: what is quick gets all folds, what is slow the time that is left.

    Every candidate first gets a small part of the budget for one fold. Those that make it do all folds. The others
    are given several times as much in turn, as long as the budget lasts. Of a large field, a window tells before which
    ones are quick, and which are hopeless.
    """

    def __init__(
        self,
        bench: Bench,
        observation: Observation,
        validation: Validation,
        seed: int,
        budget: float,
        watch: Callable[[str], None],
        busy: Callable[[str], None],
    ) -> None:
        self._bench, self._observation, self._validation, self._seed = bench, observation, validation, seed
        self._watch, self._busy, self._budget, self._left = watch, busy, budget, budget
        self._for_mean = 0.0
        self._folds = len(validation.folds)
        self._residuals: dict[str, list[FloatArray]] = {}
        self._withheld: dict[str, list[Withheld]] = {}
        self._errors: dict[str, list[float]] = {}
        self._times: dict[str, list[tuple[float, float]]] = {}
        self._notes: dict[str, str] = {}
        self._longest: dict[str, float] = {}
        self._lock = Lock()

    def run(self, methods: Sequence[str]) -> list[Candidate]:
        """Compare methods, and measure those that may be the best more often."""
        self._notes = dict.fromkeys(methods, "")
        if len(methods) > 1:
            self._for_mean = _FOR_MEAN * self._left
            self._left -= self._for_mean
        limits, slow = self._tried_on_a_window(methods) if len(methods) > 1 else ({}, [])
        # A method that predicts single entries only has far less to do here.
        rest = [method for method in methods if method not in limits and method not in slow]
        waiting = sorted([*limits, *rest], key=lambda method: not self._bench.pointwise(method))
        if not waiting:
            waiting, slow = slow, []
        limit = self._left if len(methods) == 1 else max(_FIRST * self._left, min(_LEAST, self._left / len(methods)))
        # One fold each tells who leads, and that one goes on before the others use up what is left.
        limits = {method: max(limit, limits.get(method, 0.0)) for method in waiting}
        at_once(self._bench, partial(self._measure, limits, 1), waiting)
        done = [method for method in waiting if method in self._errors]
        if done:
            self._measure(limits, self._folds, min(done, key=lambda method: self._errors[method][0]))
            at_once(self._bench, partial(self._measure, limits, self._folds), done)
        waiting = self._unfinished([*waiting, *slow])
        while waiting and self._left >= 1.5 * limit:
            limit = max(_MORE * limit, self._left / len(waiting))
            limits = {method: max(limit, _MORE * self._longest.get(method, 0.0)) for method in waiting}
            waiting.sort(key=limits.__getitem__)
            at_once(self._bench, partial(self._measure, limits, self._folds), waiting)
            waiting = self._unfinished(waiting)
        for method in methods:
            if self._notes[method] == "":
                self._notes[method] = self._lacking(method)
        while self._another_round(methods):
            pass
        return self._candidates(methods)

    def _unfinished(self, methods: Sequence[str]) -> list[str]:
        """Those that ran out of time in their first fold, or had none."""
        return [method for method in methods if method not in self._errors and self._notes[method] == ""]

    def _tried_on_a_window(self, methods: Sequence[str]) -> tuple[dict[str, float], list[str]]:
        """What candidates may take for a fold of the whole field, the quickest first, and those that had better wait.

        These are hopeless, or might use up what is left; the best one in the window comes first, the late ones last.
        Both are empty where the field is no larger than a window, or says too little in one.
        """
        rng = stream("window", self._seed)
        part = window(self._observation, _WINDOW, rng)
        if part is None:
            return {}, []
        try:
            validation = Validation(part, _SHARE, 1, rng)
        except RequestError:
            return {}, []
        larger = self._observation.mask.sum() / part.mask.sum()
        fold, seen = validation.folds[0], part.without(validation.folds[0].withheld)
        errors, needed, late = dict[str, float](), dict[str, float](), []

        def tried(method: str) -> FitResult:
            self._busy(f"trying {method} on a window of the field")
            limit = _FOR_WINDOW * self._budget / (1 if self._bench.pointwise(method) else 2)
            fit = self._bench.fit(method, seen, self._seed_of(method), limit=limit)
            self._watch(f"{method}: a window of the field, {fit.error or f'{fit.seconds:.1f} s'}")
            return fit

        for method, fit in zip(methods, at_once(self._bench, tried, methods), strict=True):
            self._left -= fit.charged
            if fit.estimate is not None:
                errors[method] = validation.error(validation.residuals(fit.estimate, fold) ** 2, 0)
                needed[method] = larger * fit.seconds
            elif fit.late:
                late.append(method)
        best = min(errors.values(), default=0.0)
        # A window hardly tells how long those take that predict the withheld entries only.
        soon = [
            method
            for method in needed
            if errors[method] <= _HOPELESS * best
            and (needed[method] <= _MUCH * self._left or self._bench.pointwise(method))
        ]
        soon.sort(key=needed.__getitem__)
        wait = sorted(needed.keys() - set(soon), key=errors.__getitem__)
        return {method: min(needed[method], _MUCH * self._left) for method in soon}, wait + late

    def _seed_of(self, method: str) -> int:
        return keyed_seed(self._seed, "complete", method)

    def best(self, ranked: Sequence[Candidate]) -> tuple[str, ...]:
        """The best candidate, and those that can hardly be told from it: their mean is safer than each alone.

        These are less than a standard error away, over folds, and completing the field with them is quick enough.
        Where the gaps are harder to predict than anything that was withheld, errors there say little of who is the
        best, and all that are not hopeless count.

        Args:
            ranked: what :meth:`run` returned, best first.
        """
        first, *rest = ranked
        checked = self._validation.checked
        worst = _CLOSE if checked else _HOPELESS
        near, left = [first.method], self._for_mean + max(self._left, 0.0)
        for made in rest:
            if made.ratio > worst or (checked and len(near) == _TOGETHER):
                break
            seconds = self._final_seconds(made)
            if seconds < left and (not checked or self._alike(made.errors, first.errors)):
                near.append(made.method)
                left -= seconds
        return tuple(near)

    def _alike(self, errors: Sequence[float], best: Sequence[float]) -> bool:
        """Whether errors are, on average over folds, less than a standard error above the best ones."""
        logarithms = _log_ratios(errors, best, self._exact())
        number = len(logarithms)
        return number > 2 and float(logarithms.mean()) < float(logarithms.std(ddof=1)) / math.sqrt(number)

    def _final_seconds(self, made: Candidate) -> float:
        """About how long the whole field takes; of a pointwise candidate, validation points only were asked for."""
        if not self._bench.pointwise(made.method):
            return made.seconds
        missing = int((self._observation.valid & ~self._observation.mask).sum())
        return made.seconds * max(1.0, missing / len(self._validation.folds[0].at))

    def mean(self, methods: Sequence[str], ranked: Sequence[Candidate]) -> Candidate:
        """A mean as a candidate.

        Args:
            methods: whose mean it is.
            ranked: all candidates, best first.
        """
        parts = [made for made in ranked if made.method in methods]
        squares = self.squares(methods)
        errors = tuple(self._validation.error(square, number) for number, square in enumerate(squares))
        ratio = _ratio(errors, ranked[0].errors, self._exact())
        seconds, wall = (sum(getattr(made, name) for made in parts) for name in ("seconds", "wall"))
        return Candidate(named(methods), errors, ratio, self.promise(methods).expected, seconds, wall)

    def squares(self, methods: Sequence[str]) -> list[FloatArray]:
        """Squared errors of the mean of methods, at the validation points of each fold that all of them have."""
        folds = zip(*(self._residuals[method] for method in methods), strict=False)
        with np.errstate(over="ignore"):
            return [np.asarray(np.mean(fold, axis=0) ** 2) for fold in folds]

    def promise(self, methods: Sequence[str]) -> Promise:
        """The error of the mean of methods to expect at the gaps."""
        return self._validation.promise(self.squares(methods))

    def calibration(self, methods: Sequence[str], estimate: Estimate) -> Calibration:
        """What errors of the mean of methods at withheld entries say of its estimate from all that was observed."""
        floor = self._observation.log_floor
        folds = [
            replace(fold[0], estimate=mean_of([part.estimate for part in fold], floor))
            for fold in zip(*(self._withheld[method] for method in methods), strict=False)
        ]
        return calibrate(estimate, self._observation, folds, self._validation.weights()[0][: len(folds)])

    def compared(self, methods: Sequence[str]) -> bool:
        """Whether all of these methods were fitted to a fold."""
        return all(method in self._residuals for method in methods)

    def _exact(self) -> float:
        """An error that is small beside the best candidate's, and no smaller than what rounding makes."""
        means = [float(np.sqrt(np.mean(np.square(errors)))) for errors in self._errors.values()]
        rounding = _ROUNDING * float(np.abs(self._observation.observed).max())
        return max(_EXACT * min((mean for mean in means if math.isfinite(mean)), default=0.0), rounding)

    def _worth_more(self, method: str) -> bool:
        """Whether another fold of a method should end in time, and may matter."""
        if self._notes[method] or method not in self._errors:
            return False
        slowest = max(seconds for seconds, _ in self._times[method])
        if slowest > self._left:
            return False
        best = min(errors[0] for errors in self._errors.values())
        return slowest < _SLOW * self._budget or self._errors[method][0] <= _BEATEN * best

    def _another_round(self, methods: Sequence[str]) -> bool:
        """Withhold other entries for all that may be the best, as long as that is quick; whether there may be more."""
        complete = [made for made in self._candidates(methods) if len(made.errors) >= self._folds and not made.note]
        if not complete:
            return False
        best = min(complete, key=rank)
        number = len(best.errors)
        close = [made for made in complete if made.ratio <= _CLOSE and len(made.errors) == number] or [best]
        if sum(made.seconds for made in close) > self._left:
            close = [best]
        if number >= _FOLDS or best.seconds > self._left:
            return False
        if number == len(self._validation.folds):
            self._validation.add()
        return all(at_once(self._bench, partial(self._fold, number), [one.method for one in close]))

    def _lacking(self, method: str) -> str:
        """What a candidate lacks that is not at fault."""
        done = len(self._errors.get(method, ()))
        if done >= self._folds:
            return ""
        if done:
            return f"{done} of {self._folds} folds, error scaled to all"
        if method in self._longest:
            return f"too slow: no fold in {self._longest[method]:.2g} s"
        return "not tried: the time was up"

    def _measure(self, limits: Mapping[str, float], folds: int, method: str) -> None:
        """Fit the first fold, within a limit, and further ones up to a number as long as these may matter."""
        if method not in self._errors:
            self._fold(0, method, limits[method])
        while len(self._errors.get(method, ())) < folds and self._worth_more(method):
            if not self._fold(len(self._errors[method]), method):
                break

    def _fold(self, number: int, method: str, limit: float = math.inf) -> bool:
        """Fit one fold; whether it came to an end. One that runs out of time gets no note, as it may come again."""
        limit = min(limit, self._left)
        if limit <= 0 or self._notes[method]:
            return False
        fold = self._validation.folds[number]
        self._busy(f"measuring {method}, {self._fold_text(number)}")
        seen = self._observation.without(fold.withheld)
        if self._bench.pointwise(method):
            valid = seen.mask.copy()
            valid[tuple(fold.at.T)] = True
            seen = replace(seen, valid=valid)  # nothing else is asked for but what is judged
        fit = fitted(lambda part: self._bench.fit(method, part, self._seed_of(method), limit=limit), seen)
        with self._lock:
            return self._told(method, number, limit, fit)

    def _told(self, method: str, number: int, limit: float, fit: FitResult) -> bool:
        """Keep what came of a fold."""
        fold = self._validation.folds[number]
        self._left -= fit.charged
        if fit.made is None:
            if fit.late:
                self._longest[method] = max(limit, self._longest.get(method, 0.0))
                self._watch(f"{method}: not done in {limit:.2g} s")
            else:
                self._notes[method] = fit.error
                self._watch(f"{method}: {fit.error}")
            return False
        residuals, at = self._validation.residuals(fit.made.mean, fold), tuple(fold.at.T)
        self._residuals.setdefault(method, []).append(residuals)
        self._withheld.setdefault(method, []).append(Withheld(fold.withheld, fit.made.at(at), at))
        with np.errstate(over="ignore"):
            error = self._validation.error(residuals**2, number)
        self._errors.setdefault(method, []).append(error)
        self._times.setdefault(method, []).append((fit.seconds, fit.wall))
        self._watch(f"{method}: {self._fold_text(number)}, {self._validation.metric} {error:.4g}, {fit.seconds:.1f} s")
        return True

    def _fold_text(self, number: int) -> str:
        return f"fold {number + 1} of {max(self._folds, number + 1)}"

    def _candidates(self, methods: Sequence[str]) -> list[Candidate]:
        promised = {method: self.promise([method]).expected for method in methods if method in self._residuals}
        leader = min(
            promised,
            key=lambda method: (-len(self._errors[method]), np.nan_to_num(promised[method], nan=np.inf)),
            default="",
        )
        least = self._exact()
        enough = min(self._folds, len(self._errors.get(leader, ())))
        ratios = {
            method: _ratio(errors, self._errors[leader], least) * math.sqrt(max(1.0, enough / len(errors)))
            for method, errors in self._errors.items()
        }
        best = min(ratios.values(), default=math.nan)
        made = []
        for method in methods:
            errors = tuple(self._errors.get(method, ()))
            ratio = ratios.get(method, math.nan) / best
            expected = promised.get(method, math.nan)
            if errors and len(errors) < enough:
                squares = self.squares([leader])
                all_folds, same = (
                    self._validation.promise(squares[:count]).expected for count in (self._folds, len(errors))
                )
                if same > 0:
                    expected *= all_folds / same
            seconds, wall = np.mean(self._times.get(method, [(math.nan, math.nan)]), axis=0).tolist()
            late = self._notes[method] != "" and self._notes[method] == self._lacking(method)
            made.append(Candidate(method, errors, ratio, expected, seconds, wall, self._notes[method], late))
        return made
