"""Checks of every plugin, whatever its kind: its description, its parameters and its text form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

import cloudpickle
import numpy as np
import pydantic

from fieldbench import seeding
from fieldbench.conformance.check import fail, no_error
from fieldbench.errors import nearest
from fieldbench.method import Method
from fieldbench.plugin import Plugin
from fieldbench.spec import Value, format_part, parse

#: A check's name and what it does.
NamedCheck: TypeAlias = tuple[str, Callable[[], object]]

T = TypeVar("T")


def named(bodies: Iterable[Callable[..., None]], *given: object) -> Iterator[NamedCheck]:
    """Checks that are called as their functions are, done with what is given."""
    for body in bodies:
        yield body.__name__.strip("_").replace("_", "-"), partial(body, *given)


def of_any(plugin: Plugin) -> Iterator[NamedCheck]:
    """The checks of every plugin."""
    bare = plugin.bare() if isinstance(plugin, Method) else plugin
    yield from named([_description, _parameters_round_trip, _parameters_validated], bare)
    yield from named([_pickles], plugin)


def expected_failures_exist(plugin: Plugin, names: Iterable[str]) -> None:
    """Every declared failure names a check of this plugin and gives a reason."""
    known = list(names)
    for name, reason in plugin.expected_failures.items():
        done = f"reading expected_failures of {type(plugin).__name__}"
        if name not in known:
            fail(done, f"it has no check {name!r}{nearest(name, known)}", "names checks that are made of it")
        if not reason.strip():
            fail(done, f"{name!r} has no reason", "says why each cannot pass")


@contextmanager
def unmodified(done: str, arrays: Mapping[str, np.ndarray[Any, Any]], right: str = "works on copies") -> Iterator[None]:
    """What is done within changes none of these arrays.

    Args:
        done: what is done.
        arrays: by name.
        right: what a right plugin does.
    """
    before = {name: array.copy() for name, array in arrays.items()}
    yield
    for name, array in arrays.items():
        if not np.array_equal(before[name], array, equal_nan=array.dtype.kind == "f"):
            fail(done, f"{name} was changed", right)


def _same_arrays(first: Any, second: Any, done: str) -> None:
    if not np.array_equal(first, second):
        fail(done, "the draws differ", "draws from the given generator alone")


def of_draws(
    words: str, draw: Callable[[int], T], same: Callable[[T, T, str], None] = _same_arrays
) -> Iterator[NamedCheck]:
    """The checks of what is drawn from a generator with a seed.

    Args:
        words: what is done, such as ``drawing a mask``.
        draw: draws with a seed.
        same: fails if two draws, which are made as told, are not the same.
    """

    def deterministic() -> None:
        first = draw(1)
        draw(2)
        same(first, draw(1), f"{words} twice from one seed, another in between")

    def global_random_state() -> None:
        first = draw(1)
        second = with_global_seed(partial(draw, 1), 3, words)
        same(first, second, f"{words} with another state of the global random generators")

    yield "deterministic", deterministic
    yield "global-random-state", global_random_state


def with_global_seed(made: Callable[[], T], seed: int, words: str) -> T:
    """What is made while the global random generators have a seed, whose state it must not change.

    Args:
        made: makes it.
        seed: of the global generators.
        words: what is done, such as ``drawing a mask``.
    """
    with seeding.seeded(seed):
        before = seeding.snapshot()
        found = made()
        after = seeding.snapshot()
    changed = [name for name in after if before.get(name) != after[name]]
    if changed:
        fail(
            f"watching the global random generators while {words}",
            f"the state of {' and '.join(changed)} changed",
            "takes randomness from the generator or the seed that it is given, and leaves the global ones alone",
        )
    return found


def _description(plugin: Plugin) -> None:
    """The class has a docstring, and every parameter says what it means."""
    cls = type(plugin)
    if not cls.summary():
        fail(
            f"reading the docstring of {cls.__name__}", "it has none", "has a docstring; its first line is the summary"
        )
    for key in cls.parameter_names():
        if not cls.model_fields[key].description:
            fail(
                f"reading the declaration of parameter {key!r} of {plugin.name}",
                "it does not say what it means",
                'declares it as parameter(default, "meaning")',
            )


def _parameters_round_trip(plugin: Plugin) -> None:
    """The short and the full text form both read back as an equal plugin."""
    own = type(plugin).parameter_names()
    for text in (str(plugin), format_part(plugin.name, plugin.parameters())):
        (part,) = parse(text)
        done = f"writing the plugin as {text!r} and reading it back"
        with no_error(done, "accepts the values that its own text form shows"):
            again = type(plugin)(**part.parameters)
        for key in own:
            if getattr(again, key) != getattr(plugin, key):
                fail(
                    done,
                    f"{key} was {getattr(plugin, key)!r} and became {getattr(again, key)!r}",
                    "has parameters that are numbers, booleans, None, words or tuples of these, and does not alter "
                    "them on the way in",
                )


def _parameters_validated(plugin: Plugin) -> None:
    """An undeclared parameter is refused, and a declared one cannot be changed afterwards."""
    cls = type(plugin)
    given: dict[str, Value] = {**plugin.parameters(), "no_such_parameter_0": 1}
    try:
        cls(**given)
    except pydantic.ValidationError:
        pass
    else:
        fail(
            f"making {cls.__name__} with an undeclared parameter",
            "it was accepted",
            "keeps extra='forbid', so that a misspelt parameter is noticed",
        )
    for key in cls.parameter_names()[:1]:
        try:
            setattr(plugin, key, getattr(plugin, key))
        except (pydantic.ValidationError, AttributeError, TypeError):
            continue
        fail(f"setting {key} of {plugin}", "it was changed", "keeps frozen=True, so that results belong to a text form")


def _pickles(plugin: Plugin) -> None:
    """The plugin reaches another process."""
    with no_error(f"pickling {plugin}", "holds its parameters alone; what cannot be pickled is made when it is used"):
        again = cloudpickle.loads(cloudpickle.dumps(plugin))
    if str(again) != str(plugin):
        fail(f"pickling {plugin} and reading it back", f"it became {again}", "holds its parameters alone")
