"""From text to objects: composition, parameters, identities, and how light it is to look."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import pytest

import fieldbench
from fieldbench.errors import RequestError
from fieldbench.plan import Plan, Request
from fieldbench.registry import Registry, Sources


class Base(fieldbench.Method):
    """A method that takes two modifiers."""

    name = "base"
    accepts = frozenset({"smooth", "sharp"})

    steps: int = fieldbench.parameter(3, "steps", ge=1, le=9)
    window: tuple[int, ...] | None = fieldbench.parameter(None, "edges")
    mode: Literal["slow", "fast"] = fieldbench.parameter("slow", "how")

    def complete(self, observation, *, seed, device, report):
        return np.zeros(observation.shape)


class Scaled(Base):
    """A method with parameters of several types."""

    name = "scaled"

    scale: bool | float = fieldbench.parameter(True, "true: by itself; a number: by that", ge=0)
    gains: tuple[float, ...] = fieldbench.parameter((1.0,), "gains")


class Smooth(fieldbench.Modifier):
    """A modifier."""

    name = "smooth"
    weight: float = fieldbench.parameter(0.1, "weight", gt=0)


class Sharp(fieldbench.Modifier):
    """Another modifier."""

    name = "sharp"


class Wrapped(fieldbench.Modifier):
    """A modifier that takes any method, by its own rule."""

    name = "wrapped"

    def modify(self, method: fieldbench.Method) -> fieldbench.Method:
        return method.model_copy(update={"modifiers": (*method.modifiers, self)})


class Needy(fieldbench.Noise):
    """A noise that must be told its scale."""

    name = "needy"
    scale: float = fieldbench.parameter(meaning="scale")

    def draw(self, shape: Any, rng: Any) -> Any:
        return self.scale * rng.normal(size=shape)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(Sources(classes=(Base, Scaled, Smooth, Sharp, Wrapped, Needy)))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("base", "base"),
        ("base[]", "base"),
        (" base [ steps = 3 ] ", "base"),
        ("base[steps=4]", "base[steps=4]"),
        ("base[mode=fast,steps=4]", "base[steps=4,mode=fast]"),
        ("base[window=4x4x2]", "base[window=4x4x2]"),
        ("base[window=none]", "base"),
        ("base+smooth", "base+smooth"),
        ("base[steps=4]+smooth[weight=1]+sharp", "base[steps=4]+smooth[weight=1.0]+sharp"),
        ("nearest+wrapped", "nearest+wrapped"),
        ("scaled[scale=true]", "scaled"),
        ("scaled[scale=1]", "scaled[scale=1.0]"),
        ("scaled[scale=false]", "scaled[scale=false]"),
        ("scaled[scale=0]", "scaled[scale=0.0]"),
    ],
)
def test_a_text_has_one_canonical_form(registry, text, canonical) -> None:
    method = registry.method(text)
    assert str(method) == canonical
    assert registry.method(canonical) == method


def test_true_is_not_the_number_one(registry) -> None:
    """Python has them equal, and hashes them alike."""
    flag, number = Scaled(scale=True), Scaled(scale=1.0)
    assert flag != number
    assert len({flag, number, Scaled(scale=1.0)}) == 2
    assert flag + Sharp() != number + Sharp()
    methods = ["scaled[scale=0.5]", "scaled[scale=1]", "scaled"]
    planned = Plan(Request(methods=methods, datasets="ssf-synthetic", trials=1), registry)
    assert len({trial.key for trial in planned}) == len(list(planned.settings)) * 3


def test_modifiers_are_there_for_the_method_to_ask(registry) -> None:
    method = registry.method("base+smooth[weight=2]")
    assert method.modifier("smooth") == Smooth(weight=2)
    assert method.modifier("sharp") is None
    assert Base() + Smooth(weight=2) == method
    assert registry.modifier("smooth[weight=2]") == Smooth(weight=2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("smooth", "smooth modifies a method; write METHOD+smooth"),
        ("base+base", "base is a method of its own"),
        ("nearest+smooth", "nearest does not take +smooth"),
        ("base+smooth+smooth", "+smooth is given twice"),
        ("base+smoth", "unknown method 'smoth'; did you mean 'smooth'"),
        ("base+smooth[wieght=1]", "smooth has no parameter 'wieght'; did you mean 'weight'"),
        ("base[modifiers=1]", "base has no parameter 'modifiers'"),
        ("base[steps=0]", "steps = 0 of base: input should be greater than or equal to 1"),
        ("base[steps=10]", "steps = 10 of base: input should be less than or equal to 9"),
        ("base[steps=2.5]", "steps = 2.5 of base: input should be a valid integer"),
        ("base[mode=quick]", "mode = 'quick' of base: input should be 'slow' or 'fast'"),
        ("base[window=ax2]", "window = 'ax2' of base: input should be a valid tuple"),
        ("scaled[scale=nan]", "scale = nan of scaled: input should be a finite number"),
        ("scaled[gains=(1,inf)]", "gains = (1, inf) of scaled: input should be a finite number"),
        ("base+smooth[weight=inf]", "weight = inf of smooth: input should be a finite number"),
    ],
)
def test_what_is_wrong_with_a_method_is_said_in_one_line(registry, text, complaint) -> None:
    with pytest.raises(RequestError) as raised:
        registry.method(text)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("default", "constraints"), [(math.inf, {}), (1.0, {"allow_inf_nan": True})])
def test_a_parameter_may_allow_infinity(default, constraints) -> None:
    class Endless(fieldbench.Modifier):
        """It knows no limit."""

        name = "endless"
        limit: float | None = fieldbench.parameter(default, "limit", gt=0, **constraints)

    registry = Registry(Sources(classes=(Endless,)))
    assert registry.modifier("endless[limit=inf]") == Endless(limit=math.inf)
    assert registry.modifier("endless").limit == default


def test_a_parameter_that_must_be_given(registry) -> None:
    with pytest.raises(RequestError, match="scale of needy: field required"):
        registry.noise("needy")
    assert str(registry.noise("needy[scale=2]")) == "needy[scale=2.0]"


@pytest.mark.parametrize("kind", ["dataset", "noise", "sampler", "metric", "selection"])
def test_only_methods_compose(registry, kind) -> None:
    with pytest.raises(RequestError, match="only methods can be composed"):
        getattr(registry, kind)("a+b")


def test_a_name_belongs_to_its_kind(registry) -> None:
    with pytest.raises(RequestError, match="unknown dataset 'base'"):
        registry.dataset("base")
    with pytest.raises(RequestError, match="modifies none"):
        registry.modifier("base")


def test_looking_at_all_plugins_loads_nothing_heavy() -> None:
    program = (
        "import sys; from fieldbench.registry import Registry, Sources; assert Registry(Sources()).entries('method'); "
        "heavy = ('torch', 'pandas', 'numba', 'scipy', 'sklearn', 'matplotlib'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.strip() == "[]"
