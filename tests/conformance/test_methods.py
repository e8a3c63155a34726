"""The checks of methods: each catches the mistake it is made for, and a right method passes them all."""

from __future__ import annotations

import random
import unittest
from typing import Any, ClassVar

import numpy as np
import pytest

import fieldbench
from fieldbench import conformance
from fieldbench.conformance import examples
from fieldbench.field import FloatArray, Observation
from fieldbench.registry import Registry, Sources

REGISTRY = Registry(Sources())


class Right(fieldbench.Method):
    """The mean of the observed entries, and a little reproducible noise around it."""

    name = "right"

    spread: float = fieldbench.parameter(0.1, "noise, as a share of the largest observed magnitude", ge=0)
    steps: int = fieldbench.parameter(3, "how many estimates are made on the way", ge=1)

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> Any:
        rng = np.random.default_rng(seed)
        largest = np.abs(observation.observed).max()
        estimate = observation.observed.mean() + self.spread * largest * rng.uniform(-1, 1, observation.shape)
        for step in range(1, self.steps + 1):
            if report.due(step):
                report(step, estimate * step / self.steps, share=step / self.steps)
        return estimate

    def complete_batch(self, observations, *, seeds, device, reports):
        return [
            self.complete(observation, seed=seed, device=device, report=report)
            for observation, seed, report in zip(observations, seeds, reports, strict=True)
        ]

    def batch_size(self, shape, device):
        return 4


class WrongShape(Right):
    """It returns a vector."""

    def complete(self, observation, **rest):
        return super().complete(observation, **rest).ravel()


class Complex(Right):
    """It returns complex numbers."""

    def complete(self, observation, **rest):
        return super().complete(observation, **rest) + 0j


class LeavesGaps(Right):
    """It fills nothing in."""

    def complete(self, observation, **rest):
        return observation.values.copy()


class Raises(Right):
    """It raises."""

    def complete(self, observation, **rest):
        raise KeyError("weights")


class Forgets(Right):
    """It ignores its seed."""

    def complete(self, observation, *, seed, **rest):
        return super().complete(observation, seed=int(np.random.default_rng().integers(2**60)), **rest)


class Remembers(Right):
    """It keeps something from one call to the next."""

    calls: ClassVar[list[int]] = []

    def complete(self, observation, **rest):
        self.calls.append(1)
        return super().complete(observation, **rest) + len(self.calls)


class RemembersMasks(Right):
    """It adds how many entries of this shape it has seen observed in any call."""

    seen: ClassVar[dict[tuple[int, ...], Any]] = {}

    def complete(self, observation, **rest):
        known = self.seen.get(observation.shape, False) | observation.mask
        self.seen[observation.shape] = known
        return super().complete(observation, **rest) + known.sum()


class UsesGlobalNumpy(Right):
    """It draws from the global generator."""

    def complete(self, observation, **rest):
        return super().complete(observation, **rest) * (1 + 1e-3 * np.random.rand())  # noqa: NPY002


class SeedsGlobalPython(Right):
    """It seeds the global generator."""

    def complete(self, observation, *, seed, **rest):
        random.seed(seed)
        return super().complete(observation, seed=seed, **rest)


class WritesIntoTheMask(Right):
    """It uses the observation's mask as its own memory."""

    def complete(self, observation, **rest):
        estimate = super().complete(observation, **rest)
        observation.mask.setflags(write=True)
        observation.mask[:] = True
        return estimate


class ReportsVectors(Right):
    """It reports estimates without a shape."""

    def complete(self, observation, *, report, **rest):
        report(1, observation.observed)
        return super().complete(observation, report=report, **rest)


class ReportsBackwards(Right):
    """Its steps fall."""

    def complete(self, observation, *, report, **rest):
        for step in (2, 1):
            report(step, observation.filled())
        return super().complete(observation, report=fieldbench.NullReport(), **rest)


class ReportsText(Right):
    """A diagnostic of it is not a number."""

    def complete(self, observation, *, report, **rest):
        report(1, observation.filled(), state="fine")
        return super().complete(observation, report=fieldbench.NullReport(), **rest)


class DisturbedByReports(Right):
    """An estimate on the way changes what comes next."""

    def complete(self, observation, *, seed, report, **rest):
        if report.due(1):
            seed += 1
        return super().complete(observation, seed=seed, report=report, **rest)


class SaysNothing(Right):
    """It refuses with an empty reason."""

    def applicable(self, observation):
        return "" if observation.ndim == 4 else None


class NeedsFacts(Right):
    """It looks up what few fields say."""

    def applicable(self, observation):
        return None if observation.metadata["emitters"] else "it needs emitters"


class ThreeOnly(Right):
    """It declares an order and accepts others."""

    orders = (3,)

    def applicable(self, observation):
        return None


class NotInTwo(Right):
    """It declares an order that it cannot do."""

    orders = (2, 3)

    def applicable(self, observation):
        return "only volumes" if observation.ndim != 3 else None


class DividesByTheSpread(Right):
    """It divides by the standard deviation."""

    def complete(self, observation, **rest):
        deviation = observation.observed.std()
        with np.errstate(all="ignore"):
            return super().complete(observation, **rest) / deviation * deviation


class DividesByTheLargest(Right):
    """It divides by the largest magnitude."""

    def complete(self, observation, **rest):
        largest = np.abs(observation.observed).max()
        with np.errstate(all="ignore"):
            return super().complete(observation, **rest) / largest * largest


class Overflows(Right):
    """It computes in a narrow range of numbers."""

    def complete(self, observation, **rest):
        with np.errstate(all="ignore"):
            return super().complete(observation, **rest).astype(np.float16)


class AbsoluteStep(Right):
    """It adds a number that has the field's unit."""

    def complete(self, observation, **rest):
        return super().complete(observation, **rest) + 0.5


class BatchDependent(Right):
    """A trial depends on what it is batched with."""

    def complete_batch(self, observations, *, seeds, device, reports):
        mean = float(np.mean([observation.observed.mean() for observation in observations]))
        alone = super().complete_batch(observations, seeds=seeds, device=device, reports=reports)
        return [estimate + mean for estimate in alone]


class OneMask(Right):
    """A batch shares the mask of its first member."""

    def complete_batch(self, observations, *, seeds, device, reports):
        mask = observations[0].mask
        moved = [np.where(mask, np.nan_to_num(item.values), 0.0)[mask].mean() - item.observed.mean()
                 for item in observations]  # fmt: skip
        alone = super().complete_batch(observations, seeds=seeds, device=device, reports=reports)
        return [estimate + error for estimate, error in zip(alone, moved, strict=True)]


class SilentBatch(Right):
    """A batch reports nothing."""

    def complete_batch(self, observations, *, seeds, device, reports):
        silent = [fieldbench.NullReport() for _ in reports]
        return super().complete_batch(observations, seeds=seeds, device=device, reports=silent)


class OtherReports(Right):
    """In a batch it reports the estimates of its neighbours."""

    def complete_batch(self, observations, *, seeds, device, reports):
        alone = super().complete_batch(observations, seeds=seeds, device=device, reports=reports[::-1])
        return alone


class BreaksBatches(Right):
    """It cannot say how large a batch is."""

    def batch_size(self, shape, device):
        raise RuntimeError("no idea")


class ShortBatch(Right):
    """It loses a member of the batch."""

    def complete_batch(self, observations, *, seeds, device, reports):
        return super().complete_batch(observations, seeds=seeds, device=device, reports=reports)[:-1]


class NoBatch(Right):
    """Its batches have no size."""

    def batch_size(self, shape, device):
        return 0


class Unsure(Right):
    """It knows how sure it is: less than a tenth of the mean magnitude."""

    def complete(self, observation, **rest):
        made = super().complete(observation, **rest)
        return fieldbench.Estimate(made, self.deviations(observation))

    def deviations(self, observation):
        return np.full(observation.shape, 0.1 * np.abs(observation.observed).mean())


class OneDeviation(Unsure):
    """It has a single standard deviation."""

    def deviations(self, observation):
        return 1.0


class NegativeDeviation(Unsure):
    """It is surer than sure."""

    def deviations(self, observation):
        return -super().deviations(observation)


class ZeroDeviation(Unsure):
    """It is sure of everything."""

    def deviations(self, observation):
        return np.zeros(observation.shape)


class InfiniteDeviation(Unsure):
    """It does not know at all."""

    def deviations(self, observation):
        return np.full(observation.shape, np.inf)


class Variance(Unsure):
    """It returns a variance."""

    def deviations(self, observation):
        return super().deviations(observation) ** 2


class Unscaled(Unsure):
    """Its deviation is that of values which it scaled."""

    def deviations(self, observation):
        return np.full(observation.shape, 0.1)


class OddDeviation(Unsure):
    """Its deviation is another one each time."""

    def deviations(self, observation):
        return super().deviations(observation) * (1 + np.random.default_rng().random())


class NeedsMany(Right):
    """It cannot do with a single entry."""

    def complete(self, observation, **rest):
        if observation.mask.sum() < 2:
            raise ValueError("need at least two entries")
        return super().complete(observation, **rest)


class OnlyGaps(Right):
    """It cannot do with a field that is fully observed."""

    def complete(self, observation, **rest):
        assert not observation.mask.all()
        return super().complete(observation, **rest)


class DoublesOnly(Right):
    """It insists on double precision."""

    def complete(self, observation, **rest):
        assert observation.values.dtype == np.float64
        return super().complete(observation, **rest)


class CubesOnly(Right):
    """It thinks that all sizes are alike."""

    def complete(self, observation, **rest):
        assert max(observation.shape) < 20
        return super().complete(observation, **rest)


class ChecksWrongly(Right):
    """Its check of the shape raises what nobody expects."""

    def check_shape(self, shape):
        if len(shape) == 2:
            raise IndexError("shape")


class Undocumented(Right):
    spread: float = fieldbench.parameter(0.1)


class Open(Right):
    """It accepts any parameter."""

    model_config: ClassVar = {"extra": "allow"}


class Restless(Right):
    """It alters a parameter on the way in."""

    def model_post_init(self, context):
        object.__setattr__(self, "spread", self.spread * 2)


#: The mistake, the check that must catch it, and a word of what it must say.
MISTAKES = [
    (WrongShape, "shape-and-finiteness", "returned shape (504,)"),
    (Complex, "shape-and-finiteness", "complex128"),
    (LeavesGaps, "shape-and-finiteness", "NaN or infinite"),
    (Raises, "shape-and-finiteness", "KeyError: 'weights'"),
    (Forgets, "deterministic", "entries differ"),
    (Remembers, "deterministic", "keeps nothing from one call to the next"),
    (RemembersMasks, "deterministic", "keeps nothing from one call to the next"),
    (UsesGlobalNumpy, "global-random-state", "numpy.random"),
    (SeedsGlobalPython, "global-random-state", "the state of random changed"),
    (WritesIntoTheMask, "inputs-unmodified", "cannot set WRITEABLE flag"),
    (ReportsVectors, "reports", "the estimate has shape (202,)"),
    (ReportsBackwards, "reports", "[2, 1]"),
    (ReportsText, "reports", "state is a str"),
    (DisturbedByReports, "reports", "whether or not it is asked"),
    (SaysNothing, "applicable-gives-reasons", "the answer is ''"),
    (NeedsFacts, "applicable-gives-reasons", "KeyError: 'emitters'"),
    (NeedsFacts, "shape-and-finiteness", "KeyError: 'emitters'"),
    (ChecksWrongly, "applicable-gives-reasons", "IndexError"),
    (ThreeOnly, "refuses-2-d", "declares orders (3,)"),
    (NotInTwo, "works-in-2-d", "only volumes"),
    (DividesByTheSpread, "constant-field", "NaN or infinite"),
    (DividesByTheLargest, "zero-field", "NaN or infinite"),
    (Overflows, "huge-scale", "NaN or infinite"),
    (AbsoluteStep, "scale-equivariant", "scale_equivariant = False"),
    (BatchDependent, "batch-equals-single", "whatever it is batched with"),
    (OneMask, "batch-equals-single", "member 1 of a batch"),
    (SilentBatch, "batch-equals-single", "they are [] and [1, 2, 3]"),
    (OtherReports, "batch-equals-single", "estimates reported at step 1: they differ"),
    (BreaksBatches, "batch-equals-single", "RuntimeError: no idea"),
    (ShortBatch, "batch-equals-single", "2 estimates came back"),
    (NoBatch, "batch-equals-single", "returned 0"),
    (OneDeviation, "uncertainty", "has shape ()"),
    (NegativeDeviation, "uncertainty", "negative"),
    (ZeroDeviation, "uncertainty", "0 at every unobserved entry"),
    (InfiniteDeviation, "uncertainty", "NaN or infinite"),
    (Variance, "uncertainty", "neither a variance"),
    (Unscaled, "uncertainty", "the field's unit"),
    (OddDeviation, "uncertainty", "entries differ"),
    (NeedsMany, "one-observed-entry", "at least two entries"),
    (OnlyGaps, "fully-observed", "AssertionError"),
    (DoublesOnly, "single-precision", "single precision"),
    (CubesOnly, "elongated-field", "(4, 20, 6)"),
    (Undocumented, "description", "no docstring"),
    (Undocumented, "description", "spread"),
    (Open, "parameters-validated", "it was accepted"),
    (Restless, "parameters-round-trip", "spread was 0.2 and became 0.4"),
]


def outcomes(method: Any, **options: Any) -> dict[str, conformance.CheckResult]:
    return {check.name: check.outcome() for check in conformance.checks(method, registry=REGISTRY, **options)}


def test_a_right_method_passes_every_check() -> None:
    found = outcomes(Unsure)
    assert {name: outcome for name, outcome in found.items() if outcome.status != "passed"} == {}
    caught = {name for _, name, _ in MISTAKES}
    not_tried = {"pickles", "fiber-mask", "block-mask", "tiny-scale", "field-with-gaps", "works-in-3-d", "works-in-4-d"}
    not_tried |= {"white-noise"}  # test_leaks.py
    assert set(found) - not_tried <= caught | {"works-in-2-d"}


@pytest.mark.parametrize(("mistake", "name", "words"), MISTAKES, ids=lambda value: getattr(value, "__name__", None))
def test_each_mistake_is_caught_by_its_check(mistake, name, words) -> None:
    if mistake is Undocumented:
        mistake.__doc__ = None if words == "no docstring" else "A docstring."
    WritesIntoTheMask.model_rebuild()
    (check,) = [check for check in conformance.checks(mistake, registry=REGISTRY) if check.name == name]
    outcome = check.outcome()
    assert outcome.status == "failed"
    assert (words if words != "no docstring" else "it has none") in outcome.message
    assert "A right plugin" in outcome.message
    assert "\n" not in outcome.message
    with pytest.raises(conformance.ConformanceFailure):
        check()


@pytest.mark.parametrize("mask", ["fiber-mask", "block-mask"])
def test_a_mask_pattern_that_breaks_a_method_is_caught(mask: str) -> None:
    class Breaks(Right):
        """It breaks on one pattern."""

        def complete(self, observation, **rest):
            expected = examples.masks(observation.shape)[mask]
            assert not np.array_equal(observation.mask, expected)
            return super().complete(observation, **rest)

    found = outcomes(Breaks)
    failed = {name for name, outcome in found.items() if outcome.status == "failed"}
    assert mask in failed
    assert "shape-and-finiteness" not in failed


def test_land_is_no_reason_to_fail() -> None:
    class Everywhere(Right):
        """It insists on a field without gaps."""

        def complete(self, observation, **rest):
            assert observation.valid.all()
            return super().complete(observation, **rest)

    assert outcomes(Everywhere)["field-with-gaps"].status == "failed"


def test_what_exists_is_all_that_must_be_finite() -> None:
    class Land(Right):
        """It leaves NaN where the field does not exist."""

        def complete(self, observation, **rest):
            estimate = super().complete(observation, **rest)
            return np.where(observation.valid, estimate, np.nan)

    assert outcomes(Land)["field-with-gaps"].status == "passed"


def test_a_refusal_with_a_reason_is_skipped_not_failed() -> None:
    class Choosy(Right):
        """It wants ten entries."""

        def applicable(self, observation):
            return None if observation.mask.sum() >= 10 else "it needs ten observed entries"

    outcome = outcomes(Choosy)["one-observed-entry"]
    assert outcome.status == "skipped"
    assert "it needs ten observed entries" in outcome.message


def test_a_method_is_checked_for_what_it_declares() -> None:
    class Plane(Right):
        """Two dimensions, its own scale, a GPU."""

        orders = (2,)
        scale_equivariant = False
        uses_gpu = True

    names = set(outcomes(Plane))
    assert {"works-in-2-d", "refuses-3-d", "refuses-4-d", "cpu-and-gpu-agree"} <= names
    assert not {"works-in-3-d", "scale-equivariant"} & names


def test_a_simple_method_is_not_asked_for_batches() -> None:
    assert "batch-equals-single" not in {check.name for check in conformance.checks("nearest", registry=REGISTRY)}


def test_conformance_parameters_make_it_quick_unless_told_otherwise() -> None:
    class Slow(Right):
        """It takes long."""

        conformance_parameters: ClassVar = {"steps": 2}
        steps: int = fieldbench.parameter(1000, "steps")

    assert conformance.checks(Slow, registry=REGISTRY)[0].subject == "right[steps=2]"
    assert conformance.checks(Slow(spread=0.5), registry=REGISTRY)[0].subject == "right[spread=0.5,steps=2]"
    assert conformance.checks(Slow(steps=5), registry=REGISTRY)[0].subject == "right[steps=5]"


def test_an_expected_failure_needs_a_reason_and_must_fail() -> None:
    class Excused(AbsoluteStep):
        """It has two excuses, one of which is not needed, and one for what does not exist."""

        expected_failures: ClassVar = {
            "scale-equivariant": "the step is in m/s",
            "reports": "no idea",
            "determinstic": "misspelt",
        }

    found = outcomes(Excused)
    assert found["scale-equivariant"].status == "expected"
    assert found["scale-equivariant"].message.startswith("the step is in m/s (")
    assert found["reports"].status == "failed"
    assert "remove 'reports' from expected_failures" in found["reports"].message
    assert "did you mean 'deterministic'" in found["expected-failures"].message
    silent = type("NullReport", (AbsoluteStep,), {"__doc__": "x", "expected_failures": {"scale-equivariant": " "}})
    assert "has no reason" in outcomes(silent)["expected-failures"].message


def test_an_expected_failure_is_shown_as_skipped_by_a_test_suite() -> None:
    class Excused(AbsoluteStep):
        """It has an excuse."""

        expected_failures: ClassVar = {"scale-equivariant": "the step is in m/s"}

    (check,) = [check for check in conformance.checks(Excused, registry=REGISTRY) if check.name == "scale-equivariant"]
    with pytest.raises(unittest.SkipTest, match="the step is in m/s"):
        check()


def test_an_own_observation_takes_the_place_of_the_examples() -> None:
    class Odd(Right):
        """It knows one kind of field."""

        def applicable(self, observation):
            return None if observation.unit == "odd" else "it works on odd fields"

    assert "looking for a small observation" in outcomes(Odd)["shape-and-finiteness"].message
    values: FloatArray = np.arange(12.0).reshape(3, 4)
    odd = Observation(values, examples.random_mask((3, 4)), unit="odd")
    found = outcomes(Odd, observation=odd)
    assert {name: outcome for name, outcome in found.items() if outcome.status == "failed"} == {}


@pytest.mark.parametrize("ends", [SystemExit(3), MemoryError(), RecursionError()])
def test_whatever_is_raised_wherever_is_a_failure(ends: BaseException) -> None:
    class Leaves(Right):
        """It ends the program."""

        @classmethod
        def summary(cls):
            raise ends

    outcome = outcomes(Leaves)["description"]
    assert outcome.status == "failed"
    assert type(ends).__name__ in outcome.message
    assert outcome.cause is ends


def _shore() -> Observation:
    """A field with land in the corner where most masks of the examples begin."""
    valid = np.ones((8, 9, 7), dtype=bool)
    valid[:5, :6] = False
    return Observation(examples.smooth_field(valid.shape), valid & examples.random_mask(valid.shape), valid=valid)


@pytest.mark.parametrize(
    "observation",
    [_shore(), Observation(np.sin(np.arange(30.0)), np.arange(30) % 3 == 0), Observation([1.0, 2.0], [True, False])],
    ids=["land", "1-d", "two entries"],
)
def test_a_method_is_checked_on_fields_of_any_form(observation: Observation) -> None:
    class Land(Right):
        """It leaves NaN where the field does not exist, and takes any field."""

        def complete(self, observation, **rest):
            estimate = super().complete(observation, **rest)
            return np.where(observation.valid, estimate, np.nan)

    found = outcomes(Land, observation=observation)
    assert {name: outcome for name, outcome in found.items() if outcome.status != "passed"} == {}


@pytest.mark.parametrize("given", ["class", "object"])
def test_a_quick_parameter_that_does_not_exist_is_a_mistake_of_the_request(given: str) -> None:
    class Misspelt(Right):
        """Its quick parameter is called otherwise."""

        conformance_parameters: ClassVar = {"setps": 2}

    with pytest.raises(fieldbench.RequestError, match="conformance_parameters names 'setps', which is not a parameter"):
        conformance.checks(Misspelt if given == "class" else Misspelt(), registry=REGISTRY)


def test_a_large_number_in_a_text_form_is_no_modifier() -> None:
    found = outcomes(Right(spread=1e16))
    assert found["parameters-round-trip"].status == "passed"


def test_ids_read_well_in_a_test_suite() -> None:
    ids = [str(check) for check in conformance.checks("nearest", registry=REGISTRY)]
    assert "nearest-deterministic" in ids
    assert len(set(ids)) == len(ids)


def test_an_unknown_plugin_is_a_mistake_of_the_request() -> None:
    with pytest.raises(fieldbench.RequestError, match="did you mean 'nearest'"):
        conformance.checks("nearst", registry=REGISTRY)
