"""Methods made of methods: what is forwarded, and what each shipped wrapper computes."""

from __future__ import annotations

from typing import ClassVar

import cloudpickle
import numpy as np
import pytest
from pydantic import BaseModel

import fieldbench
from fieldbench import Axis, Estimate, Observation, as_estimate
from fieldbench.errors import RequestError
from fieldbench.identity import cell_identity
from fieldbench.records import Cell
from fieldbench.registry import Registry, Sources
from fieldbench_methods.kriging import Kriging
from fieldbench_methods.residual import Residual

AXES = (Axis("depth", [5.0, 10.0, 40.0, 50.0]), Axis.regular("x", 5), Axis.regular("y", 6))


class Sure(fieldbench.Method):
    """Zero everywhere but where it is observed, with a deviation of 1, two members and two quantiles."""

    name = "sure"
    revision = "1"
    trained = True
    uses_gpu = True
    libraries = ("torch",)
    accepts = frozenset({"tv"})

    def complete(self, observation, *, seed, device, report):
        mean = observation.filled(0.0)
        report(1, mean)
        ones = np.ones(mean.shape)
        return Estimate(mean, ones, np.stack([mean - 1, mean + 1]), {0.1: mean - 2, 0.9: mean + 2})


class Flat(fieldbench.Method):
    """It works on flat fields alone, of 3 columns, and looks at each as part of a batch."""

    name = "flat"
    revision = "1"
    orders = (2,)

    def complete(self, observation, *, seed, device, report):
        return observation.filled(0.0)

    def batch_size(self, shape, device):
        return 7

    def check_shape(self, shape):
        if shape[-1] == 3:
            raise ValueError("3 columns are too few")


REGISTRY = Registry(Sources(classes=(Sure, Flat)))


def observation(shift: float = 0.0, **about) -> Observation:
    rng = np.random.default_rng(3)
    mask = rng.random((4, 5, 6)) < 0.6
    return Observation(rng.normal(size=mask.shape) + shift, mask, AXES, **about)


def complete(text: str, seen: Observation) -> Estimate:
    return as_estimate(REGISTRY.method(text).complete(seen, seed=1, device="cpu", report=fieldbench.NullReport()))


@pytest.mark.parametrize("wrapper", ["log", "standardised", "anomaly", "slices", "residual[of=idw]"])
def test_marks_and_needs_of_the_method_within_are_those_of_the_whole(wrapper) -> None:
    method = REGISTRY.method(f"sure+{wrapper}")
    assert (method.name, method.trained, method.uses_gpu) == ("sure", True, True)
    assert (method.libraries, method.accepts) == (("torch",), {"tv"})
    assert not REGISTRY.method(f"nearest+{wrapper}").trained


#: What a wrapped method does not forward, and who asks for it elsewhere.
ASKED_OF_THE_PARTS = {
    "revision": "identity.py describes the method within and the wrapper by themselves",
    "fingerprint": "identity.py asks the method within and those among the parameters",
    "requires": "registry.py asks each class before it makes an object",
    "conformance_parameters": "conformance/choice.py asks the method within and each modifier",
    "prior_training": "cli/train_prior.py asks the class of the method",
}

#: What Method answers from the method within, by bare(), parameters() and the list of modifiers.
DERIVED = {"modifier", "modifiers", "tunable", "space", "with_values", "parameter_names", "search_space", "summary"}


def test_every_attribute_of_a_method_is_forwarded_or_asked_of_its_parts() -> None:
    whole = type(REGISTRY.method("nearest+standardised"))
    named = {name for base in (fieldbench.Method, fieldbench.Plugin) for name in vars(base) if name[0] != "_"}
    named |= fieldbench.Method.__class_vars__ | set(fieldbench.Method.model_fields)
    known = {name for name in named if not hasattr(BaseModel, name) and not name.startswith("_")}
    assert {"name", "trained", "uses_gpu", "orders", "accepts", "libraries", "batch_size", "applicable"} <= known
    missing = known - set(vars(whole)) - DERIVED - ASKED_OF_THE_PARTS.keys()
    assert not missing, f"a wrapped method has the default of {missing}, whatever the method within says"


def test_an_edit_of_the_data_behind_a_method_within_counts() -> None:
    class Weighed(Sure):
        """It has data outside its code."""

        name = "weighed"
        revision = "1"
        weights: ClassVar[list[str]] = ["one"]

        def fingerprint(self):
            return self.weights[0]

    registry = Registry(Sources(classes=(Weighed,)))

    def identities():
        texts = ("weighed", "weighed+standardised", "nearest+residual[of=weighed]", "weighed+log+slices+conformal")
        cells = [Cell(text, "ssf-synthetic", "random", "none", "final", 0.1) for text in texts]
        return [cell_identity(registry, cell) for cell in cells]

    before = identities()
    assert identities() == before
    Weighed.weights[0] = "other"
    assert not set(before) & set(identities())


def test_a_method_is_pointwise_where_all_that_takes_part_is() -> None:
    for text in ("idw+standardised", "idw+log+anomaly", "idw+residual[of=nearest]"):
        assert REGISTRY.method(text).pointwise, text
    for text in ("sure+standardised", "idw+slices", "idw+residual[of=harmonic]", "idw+slices+log"):
        assert not REGISTRY.method(text).pointwise, text


def test_marks_of_a_method_among_the_parameters_count() -> None:
    method = REGISTRY.method("nearest+residual[of=sure]")
    assert method.trained
    assert method.uses_gpu
    assert method.libraries == ("torch",)


def test_what_a_method_works_on_is_forwarded() -> None:
    method = REGISTRY.method("flat+standardised")
    assert method.orders == (2,)
    assert method.applicable(observation()) == "flat+standardised works on 2-D fields; this one is 3-D"
    assert method.batch_size((4, 4), "cpu") == 7
    with pytest.raises(ValueError, match="3 columns"):
        method.check_shape((4, 3))
    assert REGISTRY.method("flat+slices").orders == (3,)
    assert REGISTRY.method("flat+slices").applicable(observation()) is None
    assert REGISTRY.method("nearest+residual[of=flat]").orders == (2,)


def test_a_modifier_that_the_method_works_into_itself_goes_within() -> None:
    method = REGISTRY.method("tap+log+tv")
    assert str(method) == "tap+tv+log"
    assert method == REGISTRY.method("tap+tv+log")
    assert method.modifier("tv") is not None


@pytest.mark.parametrize(
    "text", ["nearest+log[floor=0.5]", "sure+standardised+slices[axis=x]", "nearest+residual[of=idw[power=3.0]]"]
)
def test_text_pickle_and_parameters(text) -> None:
    method = REGISTRY.method(text)
    assert str(method) == text
    assert REGISTRY.method(str(method)) == method == cloudpickle.loads(cloudpickle.dumps(method))
    assert method.parameters() == method.bare().parameters()
    assert str(method.bare()) == text.partition("+")[0]


def test_a_method_as_a_parameter_is_made_from_its_spec_or_given() -> None:
    method = REGISTRY.method("idw") + Residual(of=Kriging(kernel="exponential"))
    assert method == REGISTRY.method("idw+residual[of=kriging[kernel=exponential]]")
    assert REGISTRY.method("idw+residual[of=sure]").modifiers[0].of == Sure(), "a class of this program is known there"
    for text in ("idw+residual[of=idw+tuned]", "idw+residual[of=idw+conformal]"):
        with pytest.raises(RequestError, match=r"\+(tuned|conformal) is of whole trials; write it behind all others"):
            REGISTRY.method(text)
    with pytest.raises(RequestError, match="did you mean 'kriging'"):
        REGISTRY.method("idw+residual[of=krigin]")


def test_each_parameter_and_each_method_within_counts_in_the_identity() -> None:
    texts = ["idw", "idw+standardised", "idw[power=3]+standardised", "idw+log[floor=1]", "idw+log[floor=2]"]
    texts += ["idw+residual[of=nearest]", "idw+residual[of=idw]", "idw+residual[of=idw[power=3]]"]
    texts += ["idw+log[floor=1]+standardised", "idw+standardised+log[floor=1]"]
    cells = [Cell(text, "ssf-synthetic", "random", "none", "final", 0.1) for text in texts]
    identities = {cell_identity(REGISTRY, cell) for cell in cells}
    assert "" not in identities
    assert len(identities) == len(texts)


def test_log_is_the_exponential_of_what_the_logarithms_give() -> None:
    seen = observation(shift=5.0, log_floor=0.25)
    made = complete("sure+log", seen)
    np.testing.assert_allclose(made.mean[seen.mask], seen.observed)
    np.testing.assert_allclose(made.mean[~seen.mask], np.exp(0.0) - 0.25)
    assert (made.distribution, made.floor) == ("lognormal", 0.25)
    np.testing.assert_array_equal(made.deviation, np.ones(seen.shape))
    np.testing.assert_allclose(made.members[1][~seen.mask], np.exp(1.0) - 0.25)
    np.testing.assert_allclose(made.quantiles[0.1][~seen.mask], np.exp(-2.0) - 0.25)


def test_log_without_a_floor_says_how_to_give_one() -> None:
    assert "+log[floor=0.001]" in REGISTRY.method("nearest+log").applicable(observation(shift=5.0))
    assert REGISTRY.method("nearest+log[floor=1]").applicable(observation(shift=5.0)) is None


def test_standardised_values_come_back_in_their_unit() -> None:
    seen = observation(shift=100.0)
    made = complete("sure+standardised", seen)
    mean, deviation = seen.observed.mean(), seen.observed.std()
    np.testing.assert_allclose(made.mean[seen.mask], seen.observed)
    np.testing.assert_allclose(made.mean[~seen.mask], mean)
    np.testing.assert_allclose(made.deviation, np.full(seen.shape, deviation))
    np.testing.assert_allclose(made.quantiles[0.9][~seen.mask], mean + 2 * deviation)


def test_an_anomaly_is_what_the_mean_profile_leaves() -> None:
    seen = observation()
    profile = np.array([seen.values[level][seen.mask[level]].mean() for level in range(4)])
    made = complete("sure+anomaly[along=depth]", seen)
    expected = np.broadcast_to(profile[:, None, None], seen.shape)
    np.testing.assert_allclose(made.mean[~seen.mask], expected[~seen.mask])
    np.testing.assert_allclose(made.mean[seen.mask], seen.observed)


def test_a_level_without_observations_lies_between_its_neighbours_by_coordinate() -> None:
    seen = observation()
    withheld = np.zeros(seen.shape, dtype=bool)
    withheld[2] = True
    seen = seen.without(withheld)
    one, other = (seen.values[level][seen.mask[level]].mean() for level in (1, 3))
    between = one + (40 - 10) / (50 - 10) * (other - one)
    np.testing.assert_allclose(complete("sure+anomaly", seen).mean[2], np.full((5, 6), between))


def test_a_residual_is_completed_and_added() -> None:
    x, y = np.meshgrid(np.arange(9.0), np.arange(8.0), indexing="ij")
    truth = 3 * x - 2 * y
    mask = np.random.default_rng(0).random(truth.shape) < 0.5
    seen = Observation(truth + np.sin(x * y), mask)
    first = complete("idw", seen).mean
    rest = complete("nearest", seen.replaced(seen.filled() - first)).mean
    np.testing.assert_allclose(complete("nearest+residual[of=idw]", seen).mean, first + rest)


@pytest.mark.parametrize("within", ["sure", "sure+log[floor=10]"])
def test_a_residual_is_as_uncertain_as_the_rest_is(within) -> None:
    seen = observation(shift=5.0)
    first = complete("idw", seen).mean
    rest = complete(within, seen.replaced(seen.filled() - first)).in_domain(None)
    made = complete(f"{within}+residual[of=idw]", seen).checked(seen.valid)
    assert made.distribution == "normal"
    np.testing.assert_allclose(made.deviation, rest.deviation)
    np.testing.assert_allclose(made.members, first + rest.members)
    np.testing.assert_allclose(made.quantiles[0.9], first + rest.quantiles[0.9])


def test_slices_have_the_uncertainty_that_all_of_them_have() -> None:
    seen = observation(shift=5.0)
    emptied = seen.without(np.isin(np.arange(4), [1])[:, None, None] & np.ones(seen.shape, dtype=bool))
    made = complete("sure+slices", emptied).checked(seen.valid)
    apart = {level: complete("sure", slice_of(emptied, level)) for level in (0, 2, 3)}
    for level, alone in apart.items():
        np.testing.assert_allclose(made.mean[level], alone.mean)
        np.testing.assert_allclose(made.members[:, level], alone.members)
        np.testing.assert_allclose(made.quantiles[0.1][level], alone.quantiles[0.1])
    np.testing.assert_allclose(made.members[:, 1], (apart[0].members + apart[2].members) / 2)
    assert complete("sure+log[floor=1]+slices", emptied).distribution == "lognormal"


def test_a_missing_slice_is_that_of_the_neighbour_that_exists() -> None:
    class Dry(Sure):
        """It leaves NaN where the field does not exist."""

        name = "dry"

        def complete(self, observation, *, seed, device, report):
            return np.where(observation.valid, 4.0, np.nan)

    seen, valid = observation(), np.ones((4, 5, 6), dtype=bool)
    valid[0, :2] = False
    mask = seen.mask & valid & (np.arange(4) != 1)[:, None, None]
    partly = Observation(np.where(mask, seen.values, np.nan), mask, AXES, valid=valid)
    made = as_estimate(Registry(Sources(classes=(Dry,))).method("dry+slices").complete(partly))
    np.testing.assert_array_equal(made.mean[valid], 4.0)


def slice_of(seen: Observation, level: int) -> Observation:
    return Observation(seen.values[level], seen.mask[level], seen.axes[1:])


class Told(Sure):
    """It keeps what it is told of the noise."""

    name = "told"
    heard: ClassVar[list[float | None]] = []

    def complete(self, observation, *, seed, device, report):
        self.heard.append(observation.noise_deviation)
        return observation.filled()


def test_the_noise_level_is_that_of_the_values_that_a_method_sees() -> None:
    registry = Registry(Sources(classes=(Told,)))
    seen = observation(shift=5.0, metadata={"noise_deviation": 0.5, "emitters": 3.0})
    scaled = pytest.approx(0.5 / seen.observed.std())
    wrappers = {"anomaly": 0.5, "slices": 0.5, "residual": 0.5, "standardised": scaled, "log[floor=1]": None}
    for wrapper, expected in wrappers.items():
        Told.heard.clear()
        registry.method(f"told+{wrapper}").complete(seen)
        assert all(noise == expected for noise in Told.heard), wrapper


@pytest.mark.parametrize("wrapper", ["log[floor=1]", "standardised", "anomaly"])
def test_estimates_on_the_way_are_carried_back(wrapper) -> None:
    heard = []

    class Kept(fieldbench.NullReport):
        def __call__(self, step, estimate, **diagnostics):
            heard.append((step, as_estimate(estimate).mean))

    seen = observation(shift=5.0)
    REGISTRY.method(f"sure+{wrapper}").complete(seen, report=Kept())
    ((step, mean),) = heard
    assert step == 1
    np.testing.assert_allclose(mean[seen.mask], seen.observed)


def test_a_method_completes_an_observation_without_being_told_more() -> None:
    seen = observation()
    given = {"seed": 0, "device": "cpu", "report": fieldbench.NullReport()}
    for text in ("nearest", "sure", "nearest+standardised", "tap[epochs=2,window=2]"):
        method = REGISTRY.method(text)
        alone, told = (as_estimate(made).mean for made in (method.complete(seen), method.complete(seen, **given)))
        np.testing.assert_array_equal(np.asarray(alone), np.asarray(told))


def test_tables_mark_a_trained_method_whatever_wraps_it() -> None:
    from fieldbench.plan import Plan, Request
    from fieldbench.report.metadata import collect

    plan = Plan(
        Request(methods=("nasdac+standardised", "nearest+standardised"), datasets="radiomap", trials=1), REGISTRY
    )
    assert collect(plan, REGISTRY).trained == ("nasdac+standardised",)


def test_a_wrapper_given_twice_is_refused() -> None:
    with pytest.raises(RequestError, match=r"\+log is given twice"):
        REGISTRY.method("nearest+log+log")
