"""The checks of datasets, noises, samplers, metrics and modifiers: each catches the mistake it is made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fieldbench
from fieldbench import conformance
from fieldbench.field import Field
from fieldbench.plugin import Plugin
from fieldbench.registry import Registry, Sources
from fieldbench.sampler import RandomEntries


class Waves(fieldbench.Dataset):
    """Random waves."""

    name = "waves"

    def draw(self, rng: np.random.Generator) -> Field:
        return Field(np.outer(rng.normal(size=8), rng.normal(size=9)), unit="m", quantity="height")


class Hum(fieldbench.Noise):
    """Uniform noise."""

    name = "hum"

    def draw(self, shape: Any, rng: np.random.Generator) -> Any:
        return rng.uniform(-1, 1, shape)


class Rows(fieldbench.Sampler):
    """Whole slices along the first axis."""

    name = "rows"

    def draw(self, valid: Any, axes: Any, rate: float, rng: np.random.Generator) -> Any:
        order = rng.permutation(valid.shape[0])
        mask = np.zeros(valid.shape, dtype=bool)
        mask[order[: max(1, round(rate * len(order)))]] = True
        return mask & valid


class MedianError(fieldbench.Metric):
    """Median absolute error."""

    name = "median-error"

    def score(self, estimate: Any, truth: Any, where: Any, mask: Any) -> float:
        return float(np.median(np.abs(estimate.mean - truth.values)[where]))


class Level(fieldbench.Modifier):
    """Moves the estimate by a share of the mean."""

    name = "level"

    weight: float = fieldbench.parameter(0.1, "share of the mean")


class Levelled(fieldbench.Method):
    """The mean, moved by +level."""

    name = "levelled"
    accepts = frozenset({"level", "idle"})

    def complete(self, observation, *, seed, device, report):
        level = self.modifier("level")
        weight = level.weight if isinstance(level, Level) else 0.0
        return np.full(observation.shape, (1 + weight) * observation.observed.mean())


class Idle(fieldbench.Modifier):
    """Changes nothing."""

    name = "idle"


class Stumbles(fieldbench.Modifier):
    """It raises for methods that it does not know."""

    name = "stumbles"

    def modify(self, method):
        return {"levelled": method}[method.name]


class Unwanted(fieldbench.Modifier):
    """No method takes it."""

    name = "unwanted"


def mistaken(right: type[Plugin], words: str, check: str, said: str, **own: Any) -> Any:
    """A plugin that makes a mistake, the check that must catch it, and a part of what that must say.

    Args:
        right: the plugin that it is but for this.
        words: what it does wrong.
        check: its name.
        said: by the check.
        own: what it has of its own.
    """
    cls = type(right)("Mistaken", (right,), {"__doc__": words, "__module__": __name__, **own})
    return pytest.param(cls, check, said, id=f"{right.name}-{words}")


def odd() -> float:
    """Another number each time, whatever the seed."""
    return float(np.random.default_rng().random())


class Growing:
    """Each field is larger than the one before."""

    drawn = 0

    def draw(self, rng):
        self.drawn += 1
        return Field(np.ones((3, 3 + self.drawn)), quantity="height")


GROWING = Growing()


def _touches(self, rng):
    np.random.rand()  # noqa: NPY002
    return Waves.draw(self, rng)


def _moving_land(self, rng):
    valid = np.random.default_rng().random((8, 9)) < 0.7
    return Field(np.ones((8, 9)), quantity="height", valid=valid)


def _stretching(self, rng):
    axes = [fieldbench.Axis.regular(name, 3, odd(), "m") for name in "xy"]
    return Field(np.ones((3, 3)), tuple(axes), quantity="height")


DATASETS = [
    (
        "no quantity", "draws-a-field", "quantity is empty",
        {"draw": lambda self, rng: Field(Waves.draw(self, rng).values)},
    ),
    ("an array", "draws-a-field", "returned a ndarray", {"draw": lambda self, rng: Waves.draw(self, rng).values}),
    (
        "fixed and silent", "fixed-field", "they are the same, and fixed_field is False",
        {"draw": lambda self, rng: Waves.draw(self, np.random.default_rng(7))},
    ),
    (
        "not so fixed", "fixed-field", "they differ, and fixed_field is True",
        {"fixed_field": True},
    ),
    (
        "its own seed", "deterministic", "entries differ",
        {"draw": lambda self, rng: Waves.draw(self, np.random.default_rng())},
    ),
    ("growing", "deterministic", "the shapes are", {"draw": lambda self, rng: GROWING.draw(rng)}),
    ("the global generator", "global-random-state", "numpy.random", {"draw": _touches}),
    ("no such metric", "defaults-exist", "did you mean 'rmse'", {"metric": "rsme"}),
    ("a rate of percent", "defaults-exist", "(10.0,)", {"default_rates": (10.0,)}),
    (
        "nothing", "observable", "nothing is observed",
        {"default_sampler": "random[count=bernoulli]", "default_rates": (1e-9,)},
    ),
    ("too low a rate", "observable", "rate 0.001 of 72 entries observes none", {"default_rates": (0.001,)}),
    ("moving land", "deterministic", "exist in one alone", {"draw": _moving_land}),
    ("another grid", "deterministic", "axes is", {"draw": _stretching}),
    (
        "other metadata", "global-random-state", "metadata is",
        {"draw": lambda self, rng: Field(np.ones((3, 3)), quantity="height", metadata={"emitters": odd()})},
    ),
    ("a metric of others", "observable", "slnre", {"metric": "slnre"}),
    ("a changing fingerprint", "fingerprint", "it returned", {"fingerprint": lambda self: str(odd())}),
    (
        "a high floor", "floor", "worse than the mean",
        {"floor": lambda self, field, seen: fieldbench.Estimate(field.values + 100)},
    ),
    ("half a floor", "floor", "shape", {"floor": lambda self, field, seen: fieldbench.Estimate(field.values[:2])}),
    ("an array for a floor", "floor", "returned a ndarray", {"floor": lambda self, field, seen: field.values}),
]  # fmt: skip

NOISES = [
    ("a vector", "works-in-3-d", "it has shape (504,)", lambda self, shape, rng: Hum.draw(self, shape, rng).ravel()),
    ("whole numbers", "works-in-2-d", "int64", lambda self, shape, rng: Hum.draw(self, shape, rng).astype(int)),
    ("no seed", "streams-differ", "it is the same", lambda self, shape, rng: np.random.default_rng(1).random(shape)),
    (
        "its own seed", "deterministic", "the draws differ",
        lambda self, shape, rng: np.random.default_rng().random(shape),
    ),
    (
        "the global generator", "global-random-state", "the state of numpy.random changed",
        lambda self, shape, rng: np.random.uniform(-1, 1, shape),  # noqa: NPY002
    ),
]  # fmt: skip


def _seeds(self, valid, axes, rate, rng):
    np.random.seed(0)  # noqa: NPY002
    return Rows.draw(self, valid, axes, rate, rng)


def _in_place(self, valid, axes, rate, rng):
    valid &= Rows.draw(self, valid, axes, rate, rng)
    return valid


def _stumbles(self, valid, axes, rate, rng):
    assert rate > 0.01
    return Rows.draw(self, valid, axes, rate, rng)


SAMPLERS = [
    (
        "true where withheld", "keeps-the-rate", "at rate 0.3 by rows: a share 0.68",
        lambda self, valid, axes, rate, rng: valid & (rng.random(valid.shape) >= rate),
    ),
    (
        "a half", "keeps-the-rate", "at rate 0.3 by rows: a share 0.5",
        lambda self, valid, axes, rate, rng: valid & (rng.random(valid.shape) < 0.5),
    ),
    ("numbers", "works-in-3-d", "float64 array", lambda self, *given: Rows.draw(self, *given).astype(float)),
    (
        "land", "observes-what-exists", "do not exist are observed",
        lambda self, valid, *given: Rows.draw(self, np.ones_like(valid), *given),
    ),
    (
        "its own seed", "deterministic", "the draws differ",
        lambda self, valid, axes, rate, rng: Rows.draw(self, valid, axes, rate, np.random.default_rng()),
    ),
    ("a global seed", "global-random-state", "the state of numpy.random changed", _seeds),
    ("in place", "inputs-unmodified", "valid was changed", _in_place),
    ("nothing", "works-in-4-d", "nothing is observed", lambda self, valid, axes, rate, rng: np.zeros_like(valid)),
    ("small rates", "small-rates", "AssertionError", _stumbles),
]  # fmt: skip

WITHHOLDING = [
    ("all", "480 of 480", lambda self, mask, share, rng: mask.copy()),
    (
        "most", "479 of 480",
        lambda self, mask, share, rng: mask & (np.arange(mask.size).reshape(mask.shape) != np.flatnonzero(mask)[0]),
    ),
    ("the unobserved", "not part of the mask", lambda self, mask, share, rng: ~mask),
]  # fmt: skip


def _raises(self, *given):
    raise ZeroDivisionError("no score")


def _sorts(self, estimate, *given):
    score = MedianError.score(self, estimate, *given)
    estimate.mean.sort()
    return score


METRICS = [
    ("an error", "truth-is-best", "ZeroDivisionError: no score", {"score": _raises}),
    (
        "text", "returns-a-number", "it returned '0.",
        {"score": lambda self, *given: f"{MedianError.score(self, *given):.3f}"},
    ),
    ("the wrong way", "truth-is-best", "lower_is_better = False", {"lower_is_better": False}),
    (
        "everywhere", "other-entries-change-nothing", "the scores are",
        {"score": lambda self, made, truth, where, mask: float(np.nanmedian(np.abs(made.mean - truth.values)))},
    ),
    ("sorts", "inputs-unmodified", "was changed", {"score": _sorts}),
    ("undecided", "applies-to", "answered None", {"applies_to": lambda self, field: None}),
]  # fmt: skip

MISTAKES = [
    *(mistaken(Waves, words, check, said, **own) for words, check, said, own in DATASETS),
    *(mistaken(Hum, words, check, said, draw=draw) for words, check, said, draw in NOISES),
    *(mistaken(Rows, words, check, said, draw=draw) for words, check, said, draw in SAMPLERS),
    *(mistaken(Rows, words, "withholds-a-part", said, withhold=withhold) for words, said, withhold in WITHHOLDING),
    *(mistaken(MedianError, words, check, said, **own) for words, check, said, own in METRICS),
    (Idle, "changes-levelled", "the estimates are equal"),
    (Stumbles, "refused-elsewhere", "KeyError"),
    (Unwanted, "has-a-method", "none takes it"),
]

REGISTRY = Registry(Sources(classes=(Level, Levelled, Idle, Unwanted)))

RIGHT: list[type[Plugin]] = [Waves, Hum, Rows, MedianError, Level, RandomEntries]


@pytest.mark.parametrize("right", RIGHT)
def test_a_right_plugin_passes_every_check(right: type[Plugin]) -> None:
    found = {check.name: check.outcome() for check in conformance.checks(right, registry=REGISTRY)}
    assert {name: outcome for name, outcome in found.items() if outcome.status != "passed"} == {}


@pytest.mark.parametrize(("mistake", "name", "words"), MISTAKES)
def test_each_mistake_is_caught_by_its_check(mistake: type[Plugin], name: str, words: str) -> None:
    (check,) = [check for check in conformance.checks(mistake, registry=REGISTRY) if check.name == name]
    outcome = check.outcome()
    assert outcome.status == "failed"
    assert words in outcome.message
    assert "A right plugin" in outcome.message
    assert "\n" not in outcome.message


def test_a_sampler_that_refuses_some_fields_is_tried_on_the_others() -> None:
    class Flat(Rows):
        """It knows surfaces only."""

        def draw(self, valid, axes, rate, rng):
            if valid.ndim != 2:
                raise fieldbench.RequestError("rows: the field must have two axes")
            return super().draw(valid, axes, rate, rng)

    class Choosy(Rows):
        """It knows no field."""

        def draw(self, valid, axes, rate, rng):
            raise fieldbench.RequestError("rows: no sensor lies in the field")

    for sampler, skipped in ((Flat, 2), (Choosy, 9)):
        found = [check.outcome() for check in conformance.checks(sampler, registry=REGISTRY)]
        assert [outcome for outcome in found if outcome.status == "failed"] == []
        assert sum(outcome.status == "skipped" for outcome in found) == skipped
    assert all("no sensor lies in the field" in outcome.message for outcome in found if outcome.status == "skipped")


def test_a_method_that_must_be_told_something_is_no_matter_of_a_modifier() -> None:
    class Needy(Levelled):
        """It must be told its height."""

        name = "needy"
        height: float = fieldbench.parameter(meaning="height")

    registry = Registry(Sources(classes=(Level, Levelled, Needy)))
    found = {check.name: check.outcome().status for check in conformance.checks("level", registry=registry)}
    assert found["changes-levelled"] == "passed"
    assert not any(name.endswith("needy") for name in found)


def test_a_dataset_without_its_file_is_skipped() -> None:
    class Missing(Waves):
        """Its file is not here."""

        def prepare(self):
            raise fieldbench.DataUnavailable("put waves.npy into FIELDBENCH_DATA")

    (check,) = [check for check in conformance.checks(Missing, registry=REGISTRY) if check.name == "draws-a-field"]
    outcome = check.outcome()
    assert (outcome.status, outcome.message) == ("skipped", "put waves.npy into FIELDBENCH_DATA")


def test_a_modifier_is_tried_on_every_method_that_takes_it() -> None:
    names = {check.name for check in conformance.checks("level", registry=REGISTRY)}
    assert {"deterministic-on-levelled", "text-form-on-levelled", "refused-elsewhere"} <= names
    assert not any(name.endswith("-on-nearest") for name in names)


def test_a_name_of_two_kinds_needs_its_kind() -> None:
    class Gaussian(Levelled):
        """It is called like a noise."""

        name = "gaussian"

    registry = Registry(Sources(classes=(Gaussian,)))
    with pytest.raises(fieldbench.RequestError, match="'gaussian' is a method and a noise"):
        conformance.checks("gaussian", registry=registry)
    assert any(check.name == "one-observed-entry" for check in conformance.checks("gaussian", kind="method",
                                                                                  registry=registry))  # fmt: skip
    assert any(check.name == "streams-differ" for check in conformance.checks("gaussian", kind="noise",
                                                                              registry=registry))  # fmt: skip
