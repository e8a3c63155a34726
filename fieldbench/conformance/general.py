"""Checks of every plugin, whatever its kind: its description, its parameters and its text form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias, TypeVar

import cloudpickle
import numpy as np
import pydantic

from fieldbench import seeding
from fieldbench.conformance.check import fail, no_error
from fieldbench.errors import first_complaint, nearest
from fieldbench.plugin import Plugin
from fieldbench.spec import Part, Value, format_part, parse

#: A check's name and what it does.
NamedCheck: TypeAlias = tuple[str, Callable[[], None]]

T = TypeVar("T")


def of_any(plugin: Plugin, modified: Plugin | None = None) -> Iterator[NamedCheck]:
    """The checks of every plugin; of a method with modifiers, both it and the method without them are given."""
    yield "description", partial(describes_itself, plugin)
    yield "parameters-round-trip", partial(parameters_round_trip, plugin)
    yield "parameters-validated", partial(parameters_are_validated, plugin)
    yield "pickles", partial(pickles, modified or plugin)


def expected_failures_exist(plugin: Plugin, names: Iterable[str]) -> None:
    """Every declared failure names a check of this plugin and gives a reason."""
    known = list(names)
    for name, reason in plugin.expected_failures.items():
        done = f"reading expected_failures of {type(plugin).__name__}"
        if name not in known:
            fail(done, f"it has no check {name!r}{nearest(name, known)}", "names checks that are made of it")
        if not reason.strip():
            fail(done, f"{name!r} has no reason", "says why each cannot pass")


def of_draws(words: str, draw: Callable[[int], T], same: Callable[[T, T, str], None]) -> Iterator[NamedCheck]:
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


def same_arrays(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any], done: str) -> None:
    """Fails if two draws of an array differ.

    Args:
        first, second: the draws.
        done: how they were made.
    """
    if not np.array_equal(first, second):
        fail(done, "the draws differ", "draws from the given generator alone")


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


def describes_itself(plugin: Plugin) -> None:
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


def parameters_round_trip(plugin: Plugin) -> None:
    """The short and the full text form both read back as an equal plugin."""
    own = type(plugin).parameter_names()
    for text in (str(plugin), format_part(plugin.name, plugin.parameters())):
        (part,) = parse(text)
        again = _rebuilt(plugin, part, text)
        different = [key for key in own if getattr(again, key) != getattr(plugin, key)]
        if different:
            key = different[0]
            fail(
                f"writing the plugin as {text!r} and reading it back",
                f"{key} was {getattr(plugin, key)!r} and became {getattr(again, key)!r}",
                "has parameters that are numbers, booleans, None, words or tuples of these, and does not alter them "
                "on the way in",
            )


def parameters_are_validated(plugin: Plugin) -> None:
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


def pickles(plugin: Plugin) -> None:
    """The plugin reaches another process."""
    with no_error(f"pickling {plugin}", "holds its parameters alone; what cannot be pickled is made when it is used"):
        again = cloudpickle.loads(cloudpickle.dumps(plugin))
    if str(again) != str(plugin):
        fail(f"pickling {plugin} and reading it back", f"it became {again}", "holds its parameters alone")


def _rebuilt(plugin: Plugin, part: Part, text: str) -> Plugin:
    try:
        return type(plugin)(**part.parameters)
    except pydantic.ValidationError as error:
        fail(
            f"writing the plugin as {text!r} and reading it back",
            first_complaint(error),
            "accepts the values that its own text form shows",
        )
