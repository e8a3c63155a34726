"""All that knows the truth: draw a field, observe it, withhold from it, choose an estimate and score it.

No scheduling, no files and no method: whoever calls brings a function that has a method's process complete what
was observed.
"""

from __future__ import annotations

import hashlib
import math
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from fieldbench.dataset import Dataset
from fieldbench.errors import DataUnavailable, as_reason
from fieldbench.estimate import Estimate, in_domain
from fieldbench.field import Axis, Field, FloatArray, Mask, Observation, unchangeable
from fieldbench.method import Fit, OfFits, Refit, Tuner
from fieldbench.metric import Metric, doubled, for_field, score_all, score_one
from fieldbench.noise import Noise
from fieldbench.records import FAILED, NOT_APPLICABLE, OK, OUT_OF_MEMORY, Cell, Record, Trial, canonical
from fieldbench.sampler import Sampler, observe
from fieldbench.scores import PIT_BINS
from fieldbench.search import Space
from fieldbench.selection import Holdout, Recorder, Selection
from fieldbench.spec import Value
from fieldbench.tuning import Study, TriedPoint, in_words

#: Characters of a traceback that are kept: its end, which says where and why.
LONGEST_TRACEBACK = 20_000

Records: TypeAlias = Generator[Record, None, None]
"""Records as they come; closing it ends the work."""

Note: TypeAlias = Callable[[str], None]
"""Told which plugin is about to be called, so that it can be named if nobody comes back from there."""


class Shelf(Protocol):
    """Where the plugins of a trial are found by their specs, methods excepted."""

    def dataset(self, text: str) -> Dataset: ...
    def sampler(self, text: str) -> Sampler: ...
    def noise(self, text: str) -> Noise: ...
    def selection(self, text: str) -> Selection: ...
    def metric(self, text: str) -> Metric: ...
    def metrics(self) -> list[Metric]: ...
    def refits(self, text: str) -> list[OfFits]: ...
    def space(self, text: str) -> Space: ...


@dataclass(frozen=True)
class Draw:
    """The truth and the observation of one trial, the same for every method."""

    field: Field
    mask: Mask
    observation: Observation
    measured: FloatArray


@dataclass(frozen=True)
class Task:
    """What a method's process is given for one trial, and nothing beside it.

    Attributes:
        observation: what the method may see; entries that were withheld are unobserved in it.
        seed: 32 bits for the method's own randomness.
        every: steps between the estimates that it is asked to report.
        values: of parameters, in place of those that the method has.
    """

    observation: Observation
    seed: int
    every: int
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What came back from a method's process for some tasks.

    Attributes:
        status, error: as in a :class:`fieldbench.records.Record`.
        estimates: one for each task if the status is ``ok``; not checked.
        seconds: from the first byte sent to the last one read.
        diagnostics: what else is worth keeping.
    """

    status: str
    error: str = ""
    estimates: Sequence[Estimate] = ()
    seconds: float = 0.0
    diagnostics: dict[str, Any] = field(default_factory=dict)


Complete: TypeAlias = Callable[[Sequence[Task], Sequence[Recorder]], Answer]
"""Has a method complete some observations of one shape, and passes on what it reports."""


@dataclass(frozen=True)
class Judged:
    """A trial's record, and behind one that is ``ok`` its draw and the estimate that counted."""

    record: Record
    draw: Draw | None = None
    estimate: Estimate | None = None


class Apart(Exception):
    """Not every trial of a group went well together; each is to be run by itself."""


def draw(trial: Trial, shelf: Shelf, note: Note = lambda what: None) -> Draw:
    """Draw field, mask and noise of a trial.

    Each has its own stream, and a stream depends only on what it draws: the field on the dataset and the
    trial number, the mask also on sampler and rate, the noise on all of these and itself. So all methods
    meet the same observations, all rates the same fields, all noise levels the same masks.

    Args:
        trial: what is drawn.
        shelf: makes the plugins.
        note: told which plugin is called next.

    Raises:
        RequestError: if the sampler observes nothing.
        ValueError: if a plugin returns something else than it should.
    """
    cell = trial.cell
    which_field = (trial.seed, trial.number, cell.dataset)
    pattern = (*which_field, cell.sampler, cell.rate)
    note(drawn(cell))
    field_rng, mask_rng = stream("field", *which_field), stream("mask", *pattern)
    noise_rng = stream("noise", *pattern, cell.noise)
    truth = draw_field(shelf, cell.dataset, field_rng, note)
    note(f"sampler {cell.sampler}")
    observed = shelf.sampler(cell.sampler).draw(truth.valid, truth.axes, cell.rate, mask_rng)
    mask = unchangeable(_mask_of(observed, truth.shape, cell.sampler) & truth.valid)
    note(f"noise {cell.noise}")
    noise = _plain(shelf.noise(cell.noise).draw(truth.shape, noise_rng), f"noise {cell.noise}")
    if noise.dtype.kind not in "fiu" or noise.shape != truth.shape:
        what = f"{noise.dtype} of shape {noise.shape}"
        raise ValueError(f"noise {cell.noise} returned {what}; it should return real numbers of shape {truth.shape}")
    note(drawn(cell))
    observation = observe(truth, mask, noise)
    return Draw(truth, mask, observation, np.asarray(observation.values, dtype=float))


def floor_scores(trial: Trial, shelf: Shelf, note: Note = lambda what: None) -> dict[str, float]:
    """Scores, by the dataset's own metric, of the best estimate that its generator allows for the draw of a trial.

    Args:
        trial, shelf, note: as for :func:`draw`.

    Returns:
        The scores by name; none where the dataset or the noise allows no floor.

    Raises:
        RequestError, ValueError: as :func:`draw`, or if the floor is not an estimate or cannot be scored.
    """
    cell = trial.cell
    if not shelf.noise(cell.noise).normal:
        return {}
    item = draw(trial, shelf, note)
    note(f"dataset {cell.dataset}")
    dataset = shelf.dataset(cell.dataset)
    made = dataset.floor(item.field, item.observation)
    if made is None:
        return {}
    if not isinstance(made, Estimate):
        raise ValueError(f"floor() returned {type(made).__name__}; it should return an Estimate or None")
    headline = shelf.metric(dataset.metric)
    scores, errors = score_all([headline], made.checked(item.field.valid), item.field, item.mask, note)
    if errors:
        raise ValueError(f"metric {headline.name}: {errors[headline.name]}")
    return scores


def drawn(cell: Cell) -> str:
    """What takes part in the draw of a cell, in words."""
    return f"dataset {cell.dataset} by sampler {cell.sampler} with noise {cell.noise}"


def draw_field(shelf: Shelf, text: str, rng: np.random.Generator, note: Note) -> Field:
    """A dataset's field.

    Args:
        shelf, note: as for :func:`draw`.
        text: spec of the dataset.
        rng: the field's stream.
    """
    note(f"dataset {text}")
    found = shelf.dataset(text).draw(rng)
    if type(found) is not Field:  # a class of the dataset's own could say another thing each time it is asked
        raise ValueError(f"draw() returned {type(found).__name__}; it should return a Field")
    names = [*found.covariates, *found.metadata]
    texts = [found.unit, found.quantity, *(text for axis in found.axes for text in (axis.name, axis.unit)), *names]
    for text in texts:
        if type(text) is not str:
            raise ValueError(
                f"draw() returned a field with a {type(text).__name__} where a name or unit should be a text"
            )
    for value in found.metadata.values():
        if not isinstance(value, int | float | np.number):
            raise ValueError(
                f"draw() returned a field whose metadata has a {type(value).__name__}; it holds numbers by name"
            )
        float(value)  # a whole number can be larger than any that is handed on
    if not isinstance(found.log_floor, int | float | np.number | None):
        raise ValueError(f"draw() returned a field with log_floor={found.log_floor!r:.60}; it should be a number")
    for axis in found.axes:
        if type(axis) is not Axis:
            raise ValueError(f"draw() returned a field with the axis {type(axis).__name__}; it should be an Axis")
    # Made anew, it is checked again: its dataset may have changed it since.
    return replace(found)


def stream(*what: object) -> np.random.Generator:
    """An independent generator for each different tuple of texts and numbers."""
    return np.random.default_rng(int(hashlib.sha256(canonical(what).encode()).hexdigest()[:32], 16))


def method_seed(trial: Trial) -> int:
    """The seed of the method's own stream: 32 bits that do not depend on the draw, nor tell the base seed."""
    cell = trial.cell
    name = cell.method.partition("[")[0].partition("+")[0]
    return keyed_seed(trial.seed, name, trial.number, cell.dataset, cell.sampler, cell.rate, cell.noise)


def keyed_seed(seed: int, *what: object) -> int:
    """32 bits from a base seed and what it is for, by a hash under the base seed as its key."""
    key = hashlib.sha256(b"%d" % seed).digest()
    return int.from_bytes(hashlib.blake2b(canonical(what).encode(), key=key, digest_size=4).digest())


def judge(trials: Sequence[Trial], shelf: Shelf, complete: Complete, note: Note = lambda what: None) -> list[Judged]:
    """Run trials of one cell together; each is judged as if it had been run alone.

    A trial that goes wrong becomes a record that says why.

    Args:
        trials: of one cell.
        shelf, note: as for :func:`draw`.
        complete: has the method do its part.

    Raises:
        Apart: if something went wrong with a group of several.
    """
    stage = [""]

    def noted(what: str) -> None:
        stage[0] = what
        note(what)

    try:
        return _judged(trials, shelf, complete, noted)
    except Exception as error:
        if len(trials) > 1:
            raise Apart from error
        status, message, diagnostics = failure(error)
        named = message if stage[0] == "method" or stage[0] in message else f"{stage[0]}: {message}"
        return [Judged(Record(trials[0], status, named, diagnostics=diagnostics))]


def _judged(trials: Sequence[Trial], shelf: Shelf, complete: Complete, note: Note) -> list[Judged]:
    cell = trials[0].cell
    rule, metrics = shelf.selection(cell.select), shelf.metrics()
    headline = shelf.metric(shelf.dataset(cell.dataset).metric)
    draws = [draw(trial, shelf, note) for trial in trials]
    tasks, recorders = [], []
    for trial, item in zip(trials, draws, strict=True):
        fold = None
        if isinstance(rule, Holdout):
            fold = _drawn_fold(trial, shelf, item.observation, rule.share, note, cell.select)
        seen = item.observation if fold is None else item.observation.without(fold)
        tasks.append(Task(seen, method_seed(trial), rule.every))
        recorders.append(Recorder(rule, headline, item.field, fold, item.measured))
    refits = shelf.refits(cell.method)
    if refits and len(trials) > 1:
        raise Apart
    note("method")
    answer = _Fits(trials[0], shelf, complete, note).answer(refits, tasks[0]) if refits else complete(tasks, recorders)
    if answer.status != OK:
        if len(trials) > 1:
            raise Apart
        return [Judged(Record(trials[0], answer.status, answer.error, diagnostics=answer.diagnostics))]

    found = []
    for trial, item, recorder, estimate in zip(trials, draws, recorders, answer.estimates, strict=True):
        chosen, diagnostics = recorder.choose(estimate.checked(item.field.valid))
        scores, errors = score_all(metrics, chosen, item.field, item.mask, note)
        if headline.name in errors:
            raise ValueError(f"metric {headline.name}: {errors[headline.name]}")
        diagnostics |= {"observed": int(item.mask.sum()), "shape": list(item.field.shape), "batch": len(trials)}
        diagnostics |= answer.diagnostics
        if (shares := probability_histogram(chosen, item.field, item.mask)) is not None:
            diagnostics["pit"] = shares
        if errors:
            diagnostics["not_scored"] = errors
        seconds = answer.seconds / len(trials)
        found.append(Judged(Record(trial, OK, "", scores, seconds, diagnostics=diagnostics), item, chosen))
    return found


def probability_histogram(estimate: Estimate, truth: Field, mask: Mask) -> list[float] | None:
    """Shares of unobserved entries by the probability that lay below them, in bins of equal width; None if unknown.

    Args:
        estimate: with a distribution, or none.
        truth: without noise.
        mask: True = observed, of the field's shape.
    """
    unobserved, floor = truth.valid & ~mask, truth.log_floor
    if not unobserved.any():
        return None
    values = in_domain(truth.values[unobserved].astype(float), floor)
    found = estimate.entries(unobserved, floor).probability_below(values)
    if found is None:
        return None
    counts, _ = np.histogram(found, PIT_BINS, (0.0, 1.0))
    return [round(float(count) / len(found), 6) for count in counts]


def _drawn_fold(trial: Trial, shelf: Shelf, observation: Observation, share: float, note: Note, *what: object) -> Mask:
    """Observed entries to withhold, as the trial's sampler chooses them; ``what`` they are for has its own stream."""
    cell = trial.cell
    rng = stream("withhold", trial.seed, trial.number, cell.dataset, cell.sampler, cell.rate, *what)
    note(f"sampler {cell.sampler}")
    fold = shelf.sampler(cell.sampler).withhold_from(observation, share, rng)
    fold = _mask_of(fold, observation.shape, cell.sampler) & observation.mask
    if not fold.any():
        raise ValueError(f"sampler {cell.sampler} withheld no observed entry")
    return fold


class _Unfitted(Exception):
    """A fit did not end well; what came back of it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.error)
        self.answer = answer


class _Fits:
    """The fits that the modifiers of one trial ask for."""

    def __init__(self, trial: Trial, shelf: Shelf, complete: Complete, note: Note) -> None:
        self._trial, self._shelf, self._complete, self._note = trial, shelf, complete, note
        self._metric = shelf.metric(shelf.dataset(trial.cell.dataset).metric)
        self._answers: list[Answer] = []
        #: What a record keeps of the last search.
        self._tuning: dict[str, Any] = {}

    def answer(self, refits: Sequence[OfFits], task: Task) -> Answer:
        """One answer made of several fits; its seconds are those of all."""
        fit: Fit = self._once
        for refit in refits:
            fit = self._tuned(refit) if isinstance(refit, Tuner) else self._around(cast(Refit, refit), fit)
        try:
            estimate = fit(task.observation, task.seed)
        except _Unfitted as unfitted:
            return unfitted.answer
        said = {**self._answers[-1].diagnostics, "fits": len(self._answers)}
        if self._tuning:
            said["tuning"] = self._tuning
        return Answer(OK, "", [estimate], self._seconds, said)

    @property
    def _seconds(self) -> float:
        """Of all fits so far."""
        return sum(answer.seconds for answer in self._answers)

    def _once(self, observation: Observation, seed: int, values: Mapping[str, Value] | None = None) -> Estimate:
        """A fit of the method itself; ``_Unfitted`` if it does not end well."""
        self._note("method")
        answer = self._complete([Task(observation, seed, 0, values or {})], [])
        self._answers.append(answer)
        if answer.status != OK:
            raise _Unfitted(answer)
        return answer.estimates[0].checked(observation.valid)

    def _around(self, refit: Refit, inner: Fit) -> Fit:
        """Fits by a modifier that makes one of several."""
        own = f"modifier {refit}"

        def fit(observation: Observation, seed: int) -> Estimate:
            def fitted(seen: Observation, seed: int) -> Estimate:
                found = inner(seen, seed)
                self._note(own)
                return found

            def withhold(share: float, number: int) -> Mask:
                fold = self._fold(observation, share, str(refit), number)
                self._note(own)
                return fold

            self._note(own)
            made = refit.complete(observation, fitted, withhold, seed)
            if not isinstance(made, Estimate):
                raise ValueError(f"+{refit.name} returned {type(made).__name__}; it should return an Estimate")
            return made.checked(observation.valid)

        return fit

    def _tuned(self, tuner: Tuner) -> Fit:
        """Fits with the parameters that a tuner finds; those of one observation are sought once."""
        space = self._shelf.space(self._trial.cell.method)
        known: dict[bytes, Mapping[str, Value]] = {}

        def fit(observation: Observation, seed: int) -> Estimate:
            pattern = observation.mask.tobytes()
            if pattern not in known:
                known[pattern], estimate = self._search(tuner, space, observation, seed)
                if not tuner.fits_again:
                    return estimate
            return self._once(observation, seed, known[pattern])

        return fit

    def _search(
        self, tuner: Tuner, space: Space, observation: Observation, seed: int
    ) -> tuple[Mapping[str, Value], Estimate]:
        """The point with the least error, and what was last fitted with it."""
        # The folds are those of every method and budget.
        instead = tuner.while_trying
        folds = [self._fold(observation, tuner.share, tuner.name, number) for number in range(tuner.folds)]
        fitted = dict[int, Estimate]()
        failures = list[_Unfitted]()

        def evaluate(values: Mapping[str, Value]) -> TriedPoint:
            before, errors = self._seconds, []
            try:
                for fold in folds:
                    estimate = self._once(observation.without(fold), seed, {**values, **instead})
                    errors.append(self._error(estimate, observation, fold))
            except _Unfitted as unfitted:
                if unfitted.answer.status == NOT_APPLICABLE:
                    raise
                failures.append(unfitted)
                return TriedPoint(math.inf, self._seconds - before, unfitted.answer.error)
            finally:
                self._note(f"modifier {tuner}")
            fitted[len(study.tried)] = estimate
            error, seconds = float(np.mean(errors)), self._seconds - before
            if not math.isfinite(error):  # nothing can be compared with it
                return TriedPoint(math.inf, seconds, f"its {self._metric.name} is {error}")
            return TriedPoint(error, seconds)

        study = Study(tuner, space, evaluate)
        self._note(f"modifier {tuner}")
        chosen = study.run(seed)
        index = list(study.tried).index(in_words(chosen))
        if index not in fitted:  # no point has an error, and the first could not even be fitted
            raise failures[0]
        self._tuning = {**study.as_dict(chosen), "metric": self._metric.name}
        return chosen, fitted[index]

    def _error(self, estimate: Estimate, observation: Observation, fold: Mask) -> float:
        """The error at withheld entries by the headline metric, the smaller the better."""
        about = (observation.axes, observation.unit, observation.quantity, fold, observation.log_floor)
        target = doubled(Field(observation.filled(), *about, observation.metadata, observation.covariates))
        self._note(f"metric {self._metric.name}")
        error = score_one(for_field(self._metric, target), estimate, target, fold, observation.mask & ~fold)
        return self._metric.rank(error)

    def _fold(self, observation: Observation, share: float, *what: object) -> Mask:
        return _drawn_fold(self._trial, self._shelf, observation, share, self._note, *what)


def _mask_of(mask: Any, shape: tuple[int, ...], sampler: str) -> Mask:
    array = _plain(mask, f"sampler {sampler}")
    if array.dtype != np.bool_ or array.shape != shape:
        what = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"sampler {sampler} returned {what}; it should return a boolean mask of shape {shape}")
    return array


def _plain(found: Any, plugin: str) -> np.ndarray[Any, Any]:
    """What a plugin returned, as an array."""
    if isinstance(found, np.ma.MaskedArray):  # what lies under a mask is not a value
        raise ValueError(f"{plugin} returned a masked array; it should return a plain one")
    return np.asarray(found)


def failure(error: Exception) -> tuple[str, str, dict[str, Any]]:
    """Status, message and diagnostics of a trial that raised."""
    exhausted = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    trace = "".join(traceback.format_exception(error))[-LONGEST_TRACEBACK:]
    diagnostics: dict[str, Any] = {"traceback": trace}
    if isinstance(error, DataUnavailable | FileNotFoundError | ImportError):
        diagnostics["of_the_machine"] = True  # another one may have what is missing here
    return OUT_OF_MEMORY if exhausted else FAILED, as_reason(error), diagnostics
