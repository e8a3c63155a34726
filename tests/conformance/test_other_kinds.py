"""The checks of datasets, noises, samplers, metrics and modifiers: each catches the mistake it is made for."""

from __future__ import annotations

from typing import Any, ClassVar

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


class NoQuantity(Waves):
    """It does not say what is measured."""

    def draw(self, rng):
        return Field(super().draw(rng).values)


class BareArray(Waves):
    """It returns an array."""

    def draw(self, rng):
        return super().draw(rng).values


class Frozen(Waves):
    """It is the same whatever the seed, and does not say so."""

    def draw(self, rng):
        return super().draw(np.random.default_rng(7))


class NotSoFixed(Waves):
    """It says that it is always the same."""

    @property
    def fixed_field(self):
        return True


class Unseeded(Waves):
    """It has a generator of its own."""

    def draw(self, rng):
        return super().draw(np.random.default_rng())


class Growing(Waves):
    """Each of its fields is larger than the one before."""

    drawn: ClassVar[list[int]] = []

    def draw(self, rng):
        self.drawn.append(1)
        return Field(np.ones((3, 3 + len(self.drawn))), quantity="height")


class GlobalWaves(Waves):
    """It draws from the global generator."""

    def draw(self, rng):
        field = super().draw(rng)
        np.random.rand()  # noqa: NPY002
        return field


class NoSuchMetric(Waves):
    """Its metric does not exist."""

    metric = "rsme"


class RateOfPercent(Waves):
    """Its rate is a percentage."""

    default_rates = (10.0,)


class Sparse(Waves):
    """Its default rate observes nothing, and so does its sampler."""

    default_sampler = "random[count=bernoulli]"
    default_rates = (1e-9,)


class TooFew(Waves):
    """Its default rate is too low for its fields."""

    default_rates = (0.001,)


class Moving(Waves):
    """Its land moves from draw to draw."""

    def draw(self, rng):
        valid = np.random.default_rng().random((8, 9)) < 0.7
        return Field(np.ones((8, 9)), quantity="height", valid=valid)


class Stretching(Waves):
    """Its grid is another in every draw."""

    def draw(self, rng):
        axes = [fieldbench.Axis.regular(name, 3, np.random.default_rng().random(), "m") for name in "xy"]
        return Field(np.ones((3, 3)), tuple(axes), quantity="height")


class Counting(Waves):
    """What it says of its fields is drawn from a generator of its own."""

    def draw(self, rng):
        return Field(np.ones((3, 3)), quantity="height", metadata={"emitters": np.random.default_rng().random()})


class WrongMetric(Waves):
    """Its metric means nothing for its fields."""

    metric = "slnre"


class Fickle(Waves):
    """Its fingerprint changes."""

    def fingerprint(self):
        return str(np.random.default_rng().random())


class HighFloor(Waves):
    """Its floor is worse than the mean."""

    def floor(self, field, observation):
        return fieldbench.Estimate(field.values + 100)


class SmallFloor(Waves):
    """Its floor is of a part of the field."""

    def floor(self, field, observation):
        return fieldbench.Estimate(field.values[:2])


class BareFloor(Waves):
    """Its floor is an array."""

    def floor(self, field, observation):
        return field.values


class Hum(fieldbench.Noise):
    """Uniform noise."""

    name = "hum"

    def draw(self, shape: Any, rng: np.random.Generator) -> Any:
        return rng.uniform(-1, 1, shape)


class Flat(Hum):
    """It is a vector."""

    def draw(self, shape, rng):
        return super().draw(shape, rng).ravel()


class Whole(Hum):
    """It is made of whole numbers."""

    def draw(self, shape, rng):
        return super().draw(shape, rng).astype(int)


class Same(Hum):
    """It is the same for every seed."""

    def draw(self, shape, rng):
        return super().draw(shape, np.random.default_rng(1))


class Unrepeatable(Hum):
    """It is different each time."""

    def draw(self, shape, rng):
        return super().draw(shape, np.random.default_rng())


class GlobalHum(Hum):
    """It draws from the global generator."""

    def draw(self, shape, rng):
        return np.random.uniform(-1, 1, shape)  # noqa: NPY002


class Rows(fieldbench.Sampler):
    """Whole slices along the first axis."""

    name = "rows"

    def draw(self, valid: Any, axes: Any, rate: float, rng: np.random.Generator) -> Any:
        order = rng.permutation(valid.shape[0])
        mask = np.zeros(valid.shape, dtype=bool)
        mask[order[: max(1, round(rate * len(order)))]] = True
        return mask & valid


class Inverted(Rows):
    """True means hidden."""

    def draw(self, valid, axes, rate, rng):
        return valid & (rng.random(valid.shape) >= rate)


class HalfOfAll(Rows):
    """It does not look at the rate."""

    def draw(self, valid, axes, rate, rng):
        return valid & (rng.random(valid.shape) < 0.5)


class Numbers(Rows):
    """Its mask holds 0 and 1."""

    def draw(self, valid, axes, rate, rng):
        return super().draw(valid, axes, rate, rng).astype(float)


class OnLand(Rows):
    """It observes what does not exist."""

    def draw(self, valid, axes, rate, rng):
        return super().draw(np.ones_like(valid), axes, rate, rng)


class Unsteady(Rows):
    """It differs each time."""

    def draw(self, valid, axes, rate, rng):
        return super().draw(valid, axes, rate, np.random.default_rng())


class GlobalRows(Rows):
    """It seeds the global generator."""

    def draw(self, valid, axes, rate, rng):
        np.random.seed(0)  # noqa: NPY002
        return super().draw(valid, axes, rate, rng)


class InPlace(Rows):
    """It returns what it was given, changed."""

    def draw(self, valid, axes, rate, rng):
        valid &= super().draw(valid, axes, rate, rng)
        return valid


class Nothing(Rows):
    """It observes nothing."""

    def draw(self, valid, axes, rate, rng):
        return np.zeros_like(valid)


class Unprepared(Rows):
    """It fails at small rates without a word of advice."""

    def draw(self, valid, axes, rate, rng):
        assert rate > 0.01
        return super().draw(valid, axes, rate, rng)


class WithholdsAll(Rows):
    """It withholds everything."""

    def withhold(self, mask, share, rng):
        return mask.copy()


class WithholdsMost(Rows):
    """It withholds all but one."""

    def withhold(self, mask, share, rng):
        return mask & (np.arange(mask.size).reshape(mask.shape) != np.flatnonzero(mask)[0])


class WithholdsHidden(Rows):
    """It withholds what was never observed."""

    def withhold(self, mask, share, rng):
        return ~mask


class MedianError(fieldbench.Metric):
    """Median absolute error."""

    name = "median-error"

    def score(self, estimate: Any, truth: Any, where: Any, mask: Any) -> float:
        return float(np.median(np.abs(estimate.mean - truth.values)[where]))


class NoScore(MedianError):
    """It raises."""

    def score(self, estimate, truth, where, mask):
        raise ZeroDivisionError("no score")


class NumpyText(MedianError):
    """It returns text."""

    def score(self, estimate, truth, where, mask):
        return f"{super().score(estimate, truth, where, mask):.3f}"


class WrongWay(MedianError):
    """It says that more is better."""

    lower_is_better = False


class Everywhere(MedianError):
    """It scores entries that do not count."""

    def score(self, estimate, truth, where, mask):
        return float(np.nanmedian(np.abs(estimate.mean - truth.values)))


class Sorts(MedianError):
    """It sorts what it is given."""

    def score(self, estimate, truth, where, mask):
        result = super().score(estimate, truth, where, mask)
        estimate.mean.sort()
        return result


class Undecided(MedianError):
    """It does not say whether it applies."""

    def applies_to(self, field):
        return None


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


REGISTRY = Registry(Sources(classes=(Level, Levelled, Idle, Unwanted)))

RIGHT: list[type[Plugin]] = [Waves, Hum, Rows, MedianError, Level, RandomEntries]

MISTAKES = [
    (NoQuantity, "draws-a-field", "quantity is empty"),
    (BareArray, "draws-a-field", "returned a ndarray"),
    (Frozen, "fixed-field", "they are the same, and fixed_field is False"),
    (NotSoFixed, "fixed-field", "they differ, and fixed_field is True"),
    (Unseeded, "deterministic", "entries differ"),
    (Growing, "deterministic", "the shapes are"),
    (GlobalWaves, "global-random-state", "numpy.random"),
    (NoSuchMetric, "defaults-exist", "did you mean 'rmse'"),
    (RateOfPercent, "defaults-exist", "(10.0,)"),
    (Sparse, "observable", "nothing is observed"),
    (TooFew, "observable", "rate 0.001 of 72 entries observes none"),
    (Moving, "deterministic", "exist in one alone"),
    (Stretching, "deterministic", "axes is"),
    (Counting, "global-random-state", "metadata is"),
    (WrongMetric, "observable", "slnre"),
    (Fickle, "fingerprint", "it returned"),
    (HighFloor, "floor", "worse than the mean"),
    (SmallFloor, "floor", "shape"),
    (BareFloor, "floor", "returned a ndarray"),
    (Flat, "works-in-3-d", "it has shape (504,)"),
    (Whole, "works-in-2-d", "int64"),
    (Same, "streams-differ", "it is the same"),
    (Unrepeatable, "deterministic", "the draws differ"),
    (GlobalHum, "global-random-state", "the state of numpy.random changed"),
    (Inverted, "keeps-the-rate", "at rate 0.3 by rows: a share 0.68"),
    (HalfOfAll, "keeps-the-rate", "at rate 0.3 by rows: a share 0.5"),
    (Numbers, "works-in-3-d", "float64 array"),
    (OnLand, "observes-what-exists", "do not exist are observed"),
    (Unsteady, "deterministic", "the draws differ"),
    (GlobalRows, "global-random-state", "the state of numpy.random changed"),
    (InPlace, "inputs-unmodified", "valid was changed"),
    (Nothing, "works-in-4-d", "nothing is observed"),
    (Unprepared, "small-rates", "AssertionError"),
    (WithholdsAll, "withholds-a-part", "480 of 480"),
    (WithholdsMost, "withholds-a-part", "479 of 480"),
    (WithholdsHidden, "withholds-a-part", "not part of the mask"),
    (NoScore, "truth-is-best", "ZeroDivisionError: no score"),
    (NumpyText, "returns-a-number", "it returned '0."),
    (WrongWay, "truth-is-best", "lower_is_better = False"),
    (Everywhere, "other-entries-change-nothing", "the scores are"),
    (Sorts, "inputs-unmodified", "was changed"),
    (Undecided, "applies-to", "answered None"),
    (Idle, "changes-levelled", "the estimates are equal"),
    (Stumbles, "refused-elsewhere", "KeyError"),
    (Unwanted, "has-a-method", "none takes it"),
]


@pytest.mark.parametrize("right", RIGHT)
def test_a_right_plugin_passes_every_check(right: type[Plugin]) -> None:
    found = {check.name: check.outcome() for check in conformance.checks(right, registry=REGISTRY)}
    assert {name: outcome for name, outcome in found.items() if outcome.status != "passed"} == {}


@pytest.mark.parametrize(("mistake", "name", "words"), MISTAKES, ids=lambda value: getattr(value, "__name__", None))
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
