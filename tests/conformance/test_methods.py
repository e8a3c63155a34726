"""The checks of methods: each catches the mistake it is made for, and a right method passes them all."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
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


class Unsure(Right):
    """It knows how sure it is: less than a tenth of the mean magnitude."""

    def complete(self, observation, **rest):
        made = super().complete(observation, **rest)
        return fieldbench.Estimate(made, self.deviations(observation))

    def deviations(self, observation):
        return np.full(observation.shape, 0.1 * np.abs(observation.observed).mean())


def mistaken(words: str, check: str, said: str, base: type[Right] = Right, **own: Any) -> Any:
    """A method that makes a mistake, the check that must catch it, and a part of what that must say.

    Args:
        words: what it does wrong.
        check: its name.
        said: by the check.
        base: the method that it is but for this.
        own: what it has of its own.
    """
    cls = type(base)("Mistaken", (base,), {"__doc__": words, "__module__": __name__, **own})
    return pytest.param(cls, check, said, id=words or said)


def returns(change: Callable[[Any, Observation], Any]) -> Callable[..., Any]:
    """The method's ``complete``, whose estimate is changed."""

    def complete(self, observation, **rest):
        with np.errstate(all="ignore"):
            return change(Right.complete(self, observation, **rest), observation)

    return complete


def insists(condition: Callable[[Observation], Any]) -> Callable[..., Any]:
    """The method's ``complete`` where a condition holds."""

    def complete(self, observation, **rest):
        assert condition(observation), "it cannot do with that"
        return Right.complete(self, observation, **rest)

    return complete


def reports(*reported: tuple[int, Callable[[Observation], Any], dict[str, Any]]) -> Callable[..., Any]:
    """The method's ``complete``, which tells of other steps, estimates and numbers."""

    def complete(self, observation, *, report, **rest):
        for step, estimate, numbers in reported:
            report(step, estimate(observation), **numbers)
        return Right.complete(self, observation, report=fieldbench.NullReport(), **rest)

    return complete


def raises(error: Exception) -> Callable[..., Any]:
    def function(*arguments: Any, **rest: Any) -> Any:
        raise error

    return function


class Memory:
    """What a method keeps from one call to the next."""

    def __init__(self) -> None:
        self.calls = 0
        self.masks: dict[tuple[int, ...], Any] = {}

    def count(self, made, observation):
        self.calls += 1
        return made + self.calls

    def count_masks(self, made, observation):
        self.masks[observation.shape] = self.masks.get(observation.shape, False) | observation.mask
        return made + self.masks[observation.shape].sum()


def _narrow(self, observation, **rest):
    assert self.width < 9, "nine is too wide"
    return Right.complete(self, observation, **rest)


def _forgets(self, observation, *, seed, **rest):
    return Right.complete(self, observation, seed=int(np.random.default_rng().integers(2**60)), **rest)


def _seeds_python(self, observation, *, seed, **rest):
    random.seed(seed)
    return Right.complete(self, observation, seed=seed, **rest)


def _writes_into_the_mask(made, observation):
    observation.mask.setflags(write=True)
    observation.mask[:] = True
    return made


def _is_disturbed(self, observation, *, seed, report, **rest):
    return Right.complete(self, observation, seed=seed + report.due(1), report=report, **rest)


def _spoils_batch(self, observations, **rest):
    mean = float(np.mean([observation.observed.mean() for observation in observations]))
    return [estimate + mean for estimate in Right.complete_batch(self, observations, **rest)]


def _shares_a_mask(self, observations, **rest):
    mask = observations[0].mask
    moved = [np.nan_to_num(item.values)[mask].mean() - item.observed.mean() for item in observations]
    alone = Right.complete_batch(self, observations, **rest)
    return [estimate + error for estimate, error in zip(alone, moved, strict=True)]


def _reports_of(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """The method's ``complete_batch`` with other listeners."""
    return lambda self, observations, *, reports, **rest: Right.complete_batch(
        self, observations, reports=change(reports), **rest
    )


def _checks_wrongly(self, shape):
    if len(shape) == 2:
        raise IndexError("shape")


MISTAKES = [
    mistaken("a vector", "shape-and-finiteness", "shape (504,)", complete=returns(lambda made, _: made.ravel())),
    mistaken("complex numbers", "shape-and-finiteness", "complex128", complete=returns(lambda made, _: made + 0j)),
    mistaken("gaps", "shape-and-finiteness", "NaN or infinite", complete=returns(lambda _, seen: seen.values.copy())),
    mistaken("an error", "shape-and-finiteness", "KeyError: 'weights'", complete=raises(KeyError("weights"))),
    mistaken("its own seed", "deterministic", "entries differ", complete=_forgets),
    mistaken("counts calls", "deterministic", "keeps nothing from one call", complete=returns(Memory().count)),
    mistaken("keeps masks", "deterministic", "keeps nothing from one call", complete=returns(Memory().count_masks)),
    mistaken(
        "the global generator", "global-random-state", "numpy.random",
        complete=returns(lambda made, _: made * (1 + 1e-3 * np.random.rand())),  # noqa: NPY002
    ),
    mistaken("a global seed", "global-random-state", "the state of random changed", complete=_seeds_python),
    mistaken("the mask", "inputs-unmodified", "cannot set WRITEABLE flag", complete=returns(_writes_into_the_mask)),
    mistaken(
        "reports vectors", "reports", "the estimate has shape (202,)",
        complete=reports((1, lambda seen: seen.observed, {})),
    ),
    mistaken("falling steps", "reports", "[2, 1]", complete=reports(*((n, Observation.filled, {}) for n in (2, 1)))),
    mistaken("a text", "reports", "state is a str", complete=reports((1, Observation.filled, {"state": "fine"}))),
    mistaken("disturbed by reports", "reports", "whether or not it is asked", complete=_is_disturbed),
    mistaken(
        "no reason", "applicable-gives-reasons", "the answer is ''",
        applicable=lambda self, seen: "" if seen.ndim == 4 else None,
    ),
    *(
        mistaken(
            f"metadata ({check})", check, "KeyError: 'emitters'",
            applicable=lambda self, seen: None if seen.metadata["emitters"] else "it needs emitters",
        )
        for check in ("applicable-gives-reasons", "shape-and-finiteness")
    ),
    mistaken("checks wrongly", "applicable-gives-reasons", "IndexError", check_shape=_checks_wrongly),
    mistaken(
        "other orders", "refuses-2-d", "declares orders (3,)",
        orders=(3,), applicable=lambda self, seen: None,
    ),
    mistaken(
        "an order too many", "works-in-2-d", "only volumes", orders=(2, 3),
        applicable=lambda self, seen: "only volumes" if seen.ndim != 3 else None,
    ),
    mistaken(
        "divides by the deviation", "constant-field", "NaN or infinite",
        complete=returns(lambda made, seen: made / seen.observed.std() * seen.observed.std()),
    ),
    mistaken(
        "divides by the largest", "zero-field", "NaN or infinite",
        complete=returns(lambda made, seen: made / np.abs(seen.observed).max() * np.abs(seen.observed).max()),
    ),
    mistaken(
        "half precision", "huge-scale", "NaN or infinite", complete=returns(lambda made, _: made.astype(np.float16))
    ),
    mistaken(
        "a step with a unit", "scale-equivariant", "scale_equivariant = False",
        complete=returns(lambda made, _: made + 0.5),
    ),
    mistaken("companions", "batch-equals-single", "whatever it is batched with", complete_batch=_spoils_batch),
    mistaken("one mask", "batch-equals-single", "member 1 of a batch", complete_batch=_shares_a_mask),
    mistaken(
        "a silent batch", "batch-equals-single", "they are [] and [1, 2, 3]",
        complete_batch=_reports_of(lambda given: [fieldbench.NullReport() for _ in given]),
    ),
    mistaken(
        "reports to neighbours", "batch-equals-single", "estimates reported at step 1: they differ",
        complete_batch=_reports_of(lambda given: given[::-1]),
    ),
    mistaken("no idea", "batch-equals-single", "RuntimeError: no idea", batch_size=raises(RuntimeError("no idea"))),
    mistaken(
        "a member less", "batch-equals-single", "2 estimates came back",
        complete_batch=lambda self, seen, **rest: Right.complete_batch(self, seen, **rest)[:-1],
    ),
    mistaken("no size", "batch-equals-single", "returned 0", batch_size=lambda self, shape, device: 0),
    *(
        mistaken(words, "uncertainty", said, Unsure, deviations=deviations)
        for words, said, deviations in (
            ("one deviation", "has shape ()", lambda self, seen: 1.0),
            ("negative", "negative", lambda self, seen: -Unsure.deviations(self, seen)),
            ("sure of all", "0 at every unobserved entry", lambda self, seen: np.zeros(seen.shape)),
            ("infinite", "NaN or infinite", lambda self, seen: np.full(seen.shape, np.inf)),
            ("a variance", "neither a variance", lambda self, seen: Unsure.deviations(self, seen) ** 2),
            ("of scaled values", "the field's unit", lambda self, seen: np.full(seen.shape, 0.1)),
            ("odd", "entries differ", lambda self, seen: Unsure.deviations(self, seen) * random.random()),
        )
    ),
    mistaken(
        "a space beyond the bounds", "search-space", "less than or equal to 8",
        width=fieldbench.parameter(3, "of a window", le=8, search=(2, 9)), __annotations__={"width": int},
    ),
    mistaken(
        "a space that breaks it", "search-space", "width=9: AssertionError: nine is too wide",
        width=fieldbench.parameter(3, "of a window", search=(2, 9)), __annotations__={"width": int}, complete=_narrow,
    ),
    mistaken("two entries", "one-observed-entry", "cannot do with", complete=insists(lambda seen: seen.mask.sum() > 1)),
    mistaken("a gap", "fully-observed", "cannot do with", complete=insists(lambda seen: not seen.mask.all())),
    *(
        mistaken(
            f"no {pattern}", pattern, "cannot do with",
            complete=insists(lambda seen, p=pattern: (seen.mask != examples.PATTERNS[p](seen.shape)).any()),
        )
        for pattern in ("fiber-mask", "block-mask")
    ),
    mistaken("no land", "field-with-gaps", "cannot do with", complete=insists(lambda seen: seen.valid.all())),
    mistaken(
        "doubles", "single-precision", "single precision",
        complete=insists(lambda seen: seen.values.dtype == np.float64),
    ),
    mistaken("cubes", "elongated-field", "(4, 20, 6)", complete=insists(lambda seen: max(seen.shape) < 20)),
    mistaken("", "description", "it has none"),
    mistaken(
        "a parameter without meaning", "description", "spread",
        spread=fieldbench.parameter(0.1), __annotations__={"spread": float},
    ),
    mistaken(
        "any parameter", "parameters-validated", "it was accepted",
        model_config={"extra": "allow"},
    ),
    mistaken(
        "alters a parameter", "parameters-round-trip", "spread was 0.2 and became 0.4",
        model_post_init=lambda self, context: object.__setattr__(self, "spread", self.spread * 2),
    ),
]  # fmt: skip


def outcomes(method: Any, **options: Any) -> dict[str, conformance.CheckResult]:
    return {check.name: check.outcome() for check in conformance.checks(method, registry=REGISTRY, **options)}


def test_a_right_method_passes_every_check() -> None:
    found = outcomes(Unsure)
    assert {name: outcome for name, outcome in found.items() if outcome.status != "passed"} == {}
    caught = {mistake.values[1] for mistake in MISTAKES}
    not_tried = {"pickles", "tiny-scale", "works-in-3-d", "works-in-4-d", "white-noise"}  # the last is test_leaks.py's
    assert set(found) - not_tried <= caught | {"works-in-2-d"}


@pytest.mark.parametrize(("mistake", "name", "words"), MISTAKES)
def test_each_mistake_is_caught_by_its_check(mistake, name, words) -> None:
    (check,) = [check for check in conformance.checks(mistake, registry=REGISTRY) if check.name == name]
    outcome = check.outcome()
    assert outcome.status == "failed"
    assert words in outcome.message
    assert "A right plugin" in outcome.message
    assert "\n" not in outcome.message
    with pytest.raises(conformance.ConformanceFailure):
        check()


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


class Stepped(Right):
    """It adds a number that has the field's unit."""

    def complete(self, observation, **rest):
        return super().complete(observation, **rest) + 0.5


def test_an_expected_failure_needs_a_reason_and_must_fail() -> None:
    class Excused(Stepped):
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
    mute = type(Stepped)("Mute", (Stepped,), {"__doc__": "x", "expected_failures": {"scale-equivariant": " "}})
    assert "has no reason" in outcomes(mute)["expected-failures"].message


def test_an_expected_failure_is_shown_as_skipped_by_a_test_suite() -> None:
    class Excused(Stepped):
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
