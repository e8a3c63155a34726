"""Candidates compared at withheld entries, within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldbench.calibration import Calibration, calibrate
from fieldbench.calibration import Fold as Held
from fieldbench.completion.bench import Bench
from fieldbench.completion.periodic import fitted
from fieldbench.completion.validation import Promise, Validation
from fieldbench.estimate import Estimate
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import keyed_seed

#: Part of the budget that every candidate may take for its first fold, and the seconds that it has at least.
_FIRST, _LEAST = 0.03, 2.0
#: How much more a candidate is given that did not come to an end, at least.
_MORE = 4.0
#: A candidate gets no more folds if it is slower than this part of the budget, and its error larger than the best one's
#: by this factor.
_SLOW, _BEATEN = 0.02, 1.5
#: Folds of the chosen method, so that its promised error does not hang on a few pieces.
_FOLDS = 8


@dataclass(frozen=True)
class Candidate:
    """One method and how it did at withheld entries.

    Attributes:
        method: its spec.
        errors: its error in each fold that it completed, in the metric.
        expected: the error to compare by, as if it had completed all folds: where some are missing, scaled by the
            ratio of the best complete candidate's error in all folds and in the same folds.
        seconds: processor time of one fit, on average.
        wall: wall-clock time of one fit, on average.
        note: why it is not (fully) compared: not applicable, failed, out of time.
        out_of_time: whether it lacks folds because the budget was used up.
    """

    method: str
    errors: tuple[float, ...] = ()
    expected: float = math.nan
    seconds: float = math.nan
    wall: float = math.nan
    note: str = ""
    out_of_time: bool = False


def rank(candidate: Candidate) -> tuple[bool, float, float]:
    """Best first, the quicker of two equal ones; last those that were not compared."""
    if math.isnan(candidate.expected):
        return True, 0.0, 0.0
    return False, candidate.expected, candidate.seconds


class CandidateComparison:
    """Cross-validation within a budget: what is quick gets all folds, what is slow the time that is left.

    Every candidate first gets a small part of the budget for one fold. Those that make it do all folds. The others
    are given several times as much in turn, as long as the budget lasts.
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
        self._folds = len(validation.folds)
        self.squares: dict[str, list[FloatArray]] = {}
        self._held: dict[str, list[Held]] = {}
        self._errors: dict[str, list[float]] = {}
        self._times: dict[str, list[tuple[float, float]]] = {}
        self._notes: dict[str, str] = {}
        self._longest: dict[str, float] = {}

    def run(self, methods: Sequence[str]) -> list[Candidate]:
        """Compare methods, and measure the best one more often."""
        self._notes = dict.fromkeys(methods, "")
        # A method that predicts single entries only has far less to do here.
        waiting = sorted(methods, key=lambda method: not self._bench.pointwise(method))
        limit = self._left if len(methods) == 1 else max(_FIRST * self._left, min(_LEAST, self._left / len(methods)))
        while waiting and self._left > 0:
            late = [method for method in waiting if not self._fold(method, 0, min(limit, self._left))]
            for number in range(1, self._folds):
                for method in waiting:
                    if method in self._errors and self._worth_more(method):
                        self._fold(method, number, self._left)
            waiting = [method for method in late if self._notes[method] == ""]
            if waiting and self._left < 1.5 * limit:
                break
            limit = max(_MORE * limit, self._left / max(len(waiting), 1))
        for method in methods:
            if self._notes[method] == "":
                self._notes[method] = self._lacking(method)
        made = self._candidates(methods)
        self._more_folds(min(made, key=rank))
        return made

    def promise(self, method: str) -> Promise:
        """The error of a method to expect at the gaps."""
        return self._validation.promise(self.squares[method])

    def calibration(self, method: str, estimate: Estimate) -> Calibration:
        """What a method's errors at withheld entries say of its estimate from all that was observed."""
        held = self._held[method]
        return calibrate(estimate, self._observation, held, self._validation.weights()[0][: len(held)])

    def _worth_more(self, method: str) -> bool:
        """Whether another fold of a method should end in time, and may matter."""
        slowest = max(seconds for seconds, _ in self._times[method])
        if self._notes[method] or slowest > self._left or len(self._errors) == 0:
            return False
        best = min(errors[0] for errors in self._errors.values())
        return slowest < _SLOW * self._budget or self._errors[method][0] <= _BEATEN * best

    def _more_folds(self, best: Candidate) -> None:
        """Withhold other entries for the best candidate, as long as that is quick."""
        if not best.errors or len(best.errors) < self._folds:
            return
        while len(self.squares[best.method]) < _FOLDS and best.seconds < self._left:
            number = len(self.squares[best.method])
            if number == len(self._validation.folds):
                self._validation.add()
            if not self._fold(best.method, number, self._left):
                return

    def _lacking(self, method: str) -> str:
        """What a candidate lacks that is not at fault."""
        done = len(self._errors.get(method, ()))
        if done == self._folds:
            return ""
        if done:
            return f"{done} of {self._folds} folds, error scaled to all"
        if method in self._longest:
            return f"too slow: no fold in {self._longest[method]:.2g} s"
        return "not tried: the time was up"

    def _fold(self, method: str, number: int, limit: float) -> bool:
        """Fit one fold; whether it came to an end. One that runs out of time gets no note, as it may come again."""
        if limit <= 0 or self._notes[method]:
            return False
        fold = self._validation.folds[number]
        which = f"fold {number + 1} of {max(self._folds, number + 1)}"
        self._busy(f"measuring {method}, {which}")
        seen = self._observation.without(fold.withheld)
        if self._bench.pointwise(method):
            seen = replace(seen, valid=self._observation.mask)  # nothing else is asked for but what is withheld
        own = keyed_seed(self._seed, "complete", method)
        fit = fitted(lambda part: self._bench.fit(method, part, own, limit=limit), seen)
        self._left -= fit.charged
        if fit.made is None:
            if fit.late:
                self._longest[method] = max(limit, self._longest.get(method, 0.0))
                self._watch(f"{method}: not done in {limit:.2g} s")
            else:
                self._notes[method] = fit.error
                self._watch(f"{method}: {fit.error}")
            return False
        squares, at = self._validation.squares(fit.made.mean, fold), tuple(fold.at.T)
        self.squares.setdefault(method, []).append(squares)
        self._held.setdefault(method, []).append(Held(fold.withheld, fit.made.at(at), at))
        error = self._validation.error(squares, number)
        self._errors.setdefault(method, []).append(error)
        self._times.setdefault(method, []).append((fit.seconds, fit.wall))
        self._watch(f"{method}: {which}, {self._validation.metric} {error:.4g}, {fit.seconds:.1f} s")
        return True

    def _candidates(self, methods: Sequence[str]) -> list[Candidate]:
        whole = [method for method in methods if len(self._errors.get(method, ())) == self._folds]
        promised = {method: self.promise(method).expected for method in methods if method in self.squares}
        best = min(whole, key=lambda method: promised[method], default=None)
        made = []
        for method in methods:
            errors = tuple(self._errors.get(method, ()))
            expected = promised.get(method, math.nan)
            if errors and best is not None and method not in whole:
                same = self._validation.promise(self.squares[best][: len(errors)]).expected
                if same > 0:
                    expected *= promised[best] / same
            seconds, wall = (
                (float(np.mean(part)) for part in zip(*self._times[method], strict=True))
                if errors
                else (
                    math.nan,
                    math.nan,
                )
            )
            late = self._notes[method] != "" and self._notes[method] == self._lacking(method)
            made.append(Candidate(method, errors, expected, seconds, wall, self._notes[method], late))
        return made
