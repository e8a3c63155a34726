"""From a request to trials: what is combined, in which order, under which names, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import astuple
from typing import Any

import numpy as np
import pydantic
import pytest

import fieldbench
from fieldbench.errors import RequestError
from fieldbench.field import Field
from fieldbench.plan import Plan, Request, Setting
from fieldbench.registry import Registry, Sources
from tests.here import examined


class Waves(fieldbench.Dataset):
    """A random field."""

    name = "waves"
    default_sampler = "fibers"
    default_rates = (0.2, 0.4)
    size: int = fieldbench.parameter(6, "grid points along each axis")

    def draw(self, rng: np.random.Generator) -> Field:
        return Field(rng.normal(size=(self.size,) * 3), quantity="height", unit="m")


class Holes(Waves):
    """It has a hole that it does not declare."""

    name = "holes"

    def draw(self, rng):
        return Field(np.where(np.arange(5) == 2, np.nan, 1.0), quantity="height")


class Elsewhere(Waves):
    """Its file is elsewhere."""

    name = "elsewhere"

    def prepare(self):
        raise fieldbench.DataUnavailable("put waves.npy into FIELDBENCH_DATA")


class Broken(Waves):
    """It fails in the way it is asked to."""

    name = "broken"
    way: str = fieldbench.parameter("raises", "how")

    def draw(self, rng):
        if self.way == "raises":
            raise RuntimeError("no waves today")
        if self.way == "exhausts":
            raise MemoryError("7 TiB for an array")
        if self.way == "unit":
            return fieldbench.Field(np.zeros((6, 6, 6)), unit=None)
        return np.zeros((6, 6, 6))


class Loud(fieldbench.Noise):
    """More than there are numbers for."""

    name = "loud"

    def draw(self, shape, rng):
        return np.full(shape, np.inf)


class Window(fieldbench.Method):
    """It has a window."""

    name = "window"
    window: int = fieldbench.parameter(3, "edge", ge=1)

    def check_shape(self, shape: Any) -> None:
        if self.window > min(shape):
            raise ValueError(f"a window of {self.window} does not fit into {min(shape)}")

    def complete(self, observation, *, seed, device, report):
        return np.zeros(observation.shape)


class Stumbles(Window):
    """It cannot even say whether it applies."""

    name = "stumbles"

    def applicable(self, observation):
        return self.no_such_thing


class Choosy(Window):
    """It works on nothing, whatever the window."""

    name = "choosy"

    def applicable(self, observation):
        return "it works on nothing"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(Sources(classes=(Waves, Holes, Elsewhere, Broken, Loud, Window, Stumbles, Choosy)))


def plan(registry: Registry, **request: Any) -> Plan:
    return Plan(Request(**{"methods": "window", "datasets": "waves", **request}), registry)


def test_everything_is_combined_with_everything_once(registry) -> None:
    request = {
        "methods": ["window", "nearest"],
        "datasets": ["waves", "waves[size=4]"],
        "rates": [0.2, 0.5],
        "noises": ["none", "gaussian"],
        "samplers": ["random", "fibers"],
        "select": ["final", "oracle"],
        "trials": 3,
    }
    asked = plan(registry, **request)
    trials = list(asked)
    assert asked.size == len(trials) == 2 * 2 * 2 * 2 * 2 * 2 * 3
    assert len(asked.cells) == 64
    combined = {(*astuple(t.cell), t.number) for t in trials}
    assert combined == set(
        itertools.product(
            ["window", "nearest"], ["waves", "waves[size=4]"], ["random", "fibers"], ["none", "gaussian"],
            ["final", "oracle"], [0.2, 0.5], [0, 1, 2],
        )
    )  # fmt: skip
    assert len({trial.key for trial in trials}) == len(trials)
    assert list(asked) == trials


def test_methods_of_one_repetition_come_together(registry) -> None:
    trials = list(plan(registry, methods=["window", "nearest", "choosy"], rates=0.3, trials=2))
    assert [(trial.number, trial.cell.method) for trial in trials] == [
        (0, "window"), (0, "nearest"), (0, "choosy"), (1, "window"), (1, "nearest"), (1, "choosy"),
    ]  # fmt: skip


def test_a_dataset_says_what_it_is_usually_observed_with(registry) -> None:
    assert {(t.cell.sampler, t.cell.rate, t.cell.noise, t.cell.select) for t in plan(registry)} == {
        ("fibers", 0.2, "none", "final"),
        ("fibers", 0.4, "none", "final"),
    }


def test_the_same_thing_spelt_twice_counts_once(registry) -> None:
    spelt = plan(registry, methods=["window", "window[window=3]"], rates=[0.3, 0.30], samplers=["random", "random[ ]"])
    assert spelt.size == 3


def test_more_trials_and_other_machines_extend_a_plan(registry) -> None:
    few, many = plan(registry, trials=2), plan(registry, trials=5)
    assert few.digest == many.digest
    assert {trial.key for trial in few} < {trial.key for trial in many}
    rest = plan(registry, trials=3, first_trial=2)
    assert {trial.key for trial in few} | {trial.key for trial in rest} == {trial.key for trial in many}


@pytest.mark.parametrize(
    "change",
    [
        {"methods": "window[window=2]"}, {"methods": ["window", "nearest"]}, {"datasets": "waves[size=5]"},
        {"rates": 0.3}, {"noises": "gaussian"}, {"noises": "gaussian[sigma=2]"}, {"samplers": "random"},
        {"select": "oracle"}, {"seed": 1},
    ],
    ids=str,
)  # fmt: skip
def test_any_other_change_is_another_plan(registry, change) -> None:
    assert plan(registry).digest != plan(registry, **change).digest


def test_pairs_are_taken_as_they_are_listed(registry) -> None:
    pairs = [
        ("window", Setting("waves", "", "none", 0.2)),
        ("nearest", Setting("waves", "random", "none", 0.4)),
        ("window[window=3]", Setting("waves", "fibers", "none", 0.2)),
    ]
    listed = Plan(Request(methods="window", datasets="waves", trials=1), registry, pairs)
    assert [(t.cell.method, t.cell.sampler, t.cell.rate) for t in listed] == [
        ("window", "fibers", 0.2),
        ("nearest", "random", 0.4),
    ]


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"methods": "windw"}, "unknown method 'windw'; did you mean 'window'"),
        ({"methods": "window[widow=3]"}, "window has no parameter 'widow'; did you mean 'window'"),
        ({"methods": "window[window=0]"}, "window = 0 of window: input should be greater than or equal to 1"),
        ({"methods": "window[window=x]"}, "window = 'x' of window: input should be a valid integer"),
        ({"methods": "window+nearest"}, "nearest is a method of its own"),
        ({"datasets": "wave"}, "unknown dataset 'wave'; did you mean 'waves'"),
        ({"datasets": "waves+window"}, "only methods can be composed"),
        ({"noises": "gausian"}, "unknown noise 'gausian'; did you mean 'gaussian'"),
        ({"samplers": "fibres"}, "unknown sampler 'fibres'; did you mean 'fibers'"),
        ({"select": "orcale"}, "unknown selection 'orcale'; did you mean 'oracle'"),
        ({"rates": 0.0}, "rate 0 is outside (0, 1]"),
        ({"rates": 10}, "rate 10 is outside (0, 1]"),
        ({"rates": float("nan")}, "rate nan is outside (0, 1]"),
    ],
)
def test_what_is_wrong_is_said_when_the_plan_is_made(registry, request_, complaint) -> None:
    with pytest.raises(RequestError) as raised:
        plan(registry, **request_)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"rates": 1e-6}, "fibers sampling of waves at rate 1e-06: "),
        ({"methods": ["nearest", "window[window=9]"]}, "window[window=9] on waves: a window of 9 does not fit into 6"),
        ({"datasets": "holes"}, "dataset holes: the field has 1 NaN or infinite entries"),
        ({"datasets": "elsewhere"}, "put waves.npy into FIELDBENCH_DATA"),
        ({"datasets": "broken"}, "dataset broken: RuntimeError: no waves today"),
        ({"datasets": "broken[way=exhausts]"}, "dataset broken[way=exhausts]: MemoryError: 7 TiB for an array"),
        ({"datasets": "broken[way=array]"}, "draw() returned ndarray; it should return a Field"),
        ({"datasets": "broken[way=unit]"}, "draw() returned a field with a NoneType where a name or unit should be"),
        ({"noises": "loud"}, "fibers sampling of waves at rate 0.2 with loud: an observed entry is NaN or infinite"),
    ],
)
def test_what_only_data_can_tell_is_said_before_any_trial(registry, request_, complaint) -> None:
    asked = plan(registry, **request_)
    with pytest.raises(RequestError) as raised:
        examined(asked, registry)
    assert complaint in str(raised.value)


def test_a_method_that_is_not_applicable_is_no_wrong_request(registry) -> None:
    examined(plan(registry, methods="choosy[window=9]"), registry)


def test_a_method_with_a_mistake_of_its_own_is_no_wrong_request(registry) -> None:
    """Its trials will be rows that say so, and the other methods run."""
    examined(plan(registry, methods=["stumbles", "window"]), registry)


def test_the_look_at_the_data_learns_the_unit(registry) -> None:
    assert examined(plan(registry), registry) == {"waves": "m"}


def test_the_order_of_what_is_asked_for_makes_no_other_plan(registry) -> None:
    there = plan(registry, methods=["window", "nearest"], rates=[0.2, 0.5])
    back = plan(registry, methods=["nearest", "window"], rates=[0.5, 0.2])
    assert there.digest == back.digest
    assert {trial.key for trial in there} == {trial.key for trial in back}


@pytest.mark.parametrize(
    "wrong",
    [
        {"methods": []},
        {"datasets": []},
        {"noises": []},
        {"select": []},
        {"trials": 0},
        {"trials": 2**62 + 1},
        {"seed": -1},
        {"seed": 2**63},
        {"first_trial": -1},
        {"first_trial": 2**62 + 1},
        {"trails": 3},
    ],
    ids=str,
)
def test_a_request_is_validated(wrong) -> None:
    with pytest.raises(pydantic.ValidationError):
        Request(**{"methods": "window", "datasets": "waves", **wrong})


def test_the_last_of_all_allowed_trials_has_a_number_of_64_bits() -> None:
    most = Request(methods="window", datasets="waves", seed=2**63 - 1, trials=2**62, first_trial=2**62)
    assert np.iinfo(np.int64).max == most.seed == most.first_trial + most.trials - 1


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"metric": "rsme"}, "unknown metric 'rsme'"),
        ({"metric": 5}, "'5' is not a name"),
        ({"default_sampler": "fibres"}, "unknown sampler 'fibres'"),
        ({"default_sampler": None}, "'None' is not a name"),
        ({"default_rates": "half"}, "ValueError: could not convert"),
        ({"default_rates": (0.5, float("nan"))}, r"default_rates are \[0.5, nan\]"),
        ({"default_rates": ()}, r"default_rates are \[\]"),
    ],
)
def test_a_dataset_that_cannot_say_how_it_is_used_is_refused(attributes: dict[str, Any], words: str) -> None:
    odd = type("Odd", (Waves,), {"name": "odd", "__doc__": "It says so oddly.", "__module__": __name__})
    for name, value in attributes.items():
        type.__setattr__(odd, name, value)
    with pytest.raises(RequestError, match=f"^dataset odd.*{words}"):
        Plan(Request(methods=["nearest"], datasets=["odd"]), Registry(Sources(classes=(odd,))))


def test_a_dataset_whose_metric_ends_the_program_cannot_be_made() -> None:
    odd = type("Odd", (Waves,), {"name": "odd", "__doc__": "It ends.", "__module__": __name__})
    type.__setattr__(odd, "metric", property(lambda self: exit(0)))
    with pytest.raises(RequestError, match=r"^'odd': odd cannot be made: SystemExit: 0"):
        Plan(Request(methods=["nearest"], datasets=["odd"]), Registry(Sources(classes=(odd,))))


def test_a_text_form_that_names_something_else_is_refused() -> None:
    class Liar(fieldbench.Noise):
        """It calls itself none."""

        name = "liar"

        def draw(self, shape, rng):
            return np.zeros(shape)

        def __str__(self) -> str:
            return "none"

    with pytest.raises(RequestError, match="liar is written as 'none'"):
        Plan(
            Request(methods=["nearest"], datasets=["waves"], noises=["liar"]), Registry(Sources(classes=(Waves, Liar)))
        )
