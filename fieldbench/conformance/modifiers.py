"""Checks of modifiers, each on every method that takes it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

import numpy as np

from fieldbench.conformance import examples, tuners
from fieldbench.conformance.check import NotChecked, fail, no_error
from fieldbench.conformance.general import NamedCheck, named
from fieldbench.conformance.methods import SEED, MethodUnderCheck, of_method, search_space
from fieldbench.errors import RequestError, one_line
from fieldbench.estimate import Estimate
from fieldbench.field import FloatArray, Mask, Observation
from fieldbench.method import Method, Modifier, OfFits, Refit, Tuner
from fieldbench.sampler import RandomEntries
from fieldbench.spec import parse

#: Of the field on which modifiers that refit are tried.
_SHAPE = (12, 15)

#: What a modified method is checked for again; a modifier changes neither its parameters nor its orders.
_AGAIN = (
    "shape-and-finiteness", "deterministic", "global-random-state", "inputs-unmodified", "reports", "fiber-mask",
    "block-mask", "constant-field", "batch-equals-single",
)  # fmt: skip


def of_modifier(
    modifier: Modifier, methods: list[Method], observation: Observation | None = None
) -> Iterator[NamedCheck]:
    """The checks of a modifier, with the methods that it can be tried on.

    Args:
        modifier: that is checked.
        methods: on which it may be tried.
        observation: for tuning's values; a small one of the suite's own where None.
    """
    takers = [method for method in methods if takes(method, modifier)]
    yield from named([_has_a_method], modifier, takers)
    if isinstance(modifier, OfFits):
        if isinstance(modifier, Refit):
            yield from named([_makes_an_estimate, _fits_what_was_observed], modifier)
        else:
            yield from tuners.of_tuner(cast(Tuner, modifier))
        for method in takers:
            yield f"text-form-on-{method.name}", partial(_text_form, modifier, method)
        return
    yield from named([_refused_elsewhere], modifier, [method for method in methods if not takes(method, modifier)])
    if takers and modifier.search_space():
        modified = modifier.modify(takers[0])
        yield f"search-space-on-{takers[0].name}", partial(search_space, modified, observation, f"{modifier.name}.")
    for method in takers:
        if method.conformance_dataset is not None and modifier.name not in method.accepts:
            continue  # it is made for particular fields, and does not ask to be tried on others
        modified = modifier.modify(method)
        yield f"text-form-on-{method.name}", partial(_text_form, modifier, method)
        for name, body in of_method(modified, observation):
            if name in _AGAIN:
                yield f"{name}-on-{method.name}", body
        yield f"changes-{method.name}", partial(_changes, method, modified, observation)


def _fitted(modifier: Refit) -> tuple[Estimate, Observation, list[Observation]]:
    """What a modifier makes of a small field, that field, and all that it had fitted.

    Each fit is the observed mean, moved by the seed.
    """
    whole = examples.observed(examples.smooth_field(_SHAPE), examples.random_mask(_SHAPE))
    asked: list[Observation] = []

    def fit(observation: Observation, seed: int) -> Estimate:
        asked.append(observation)
        move = 0.01 * float(np.random.default_rng(seed).normal())
        return Estimate(np.full(observation.shape, observation.observed.mean() + move))

    def withhold(share: float, number: int) -> Mask:
        return RandomEntries().withhold(whole.mask, share, np.random.default_rng(number))

    with no_error(f"having a small field completed by +{modifier.name}", "returns a fieldbench.Estimate"):
        return modifier.complete(whole, fit, withhold, SEED).checked(whole.valid), whole, asked


def _makes_an_estimate(modifier: Refit) -> None:
    first, second = (_arrays(_fitted(modifier)[0]) for _ in range(2))
    done = f"having a small field completed by +{modifier.name} twice"
    if len(first) != len(second) or not all(map(np.array_equal, first, second)):
        fail(done, "the estimates differ", "takes all randomness from its seed and from what is drawn for it")


def _arrays(estimate: Estimate) -> list[FloatArray]:
    parts = [estimate.mean, estimate.deviation, estimate.members, *(estimate.quantiles or {}).values()]
    return [part for part in parts if part is not None]


def _fits_what_was_observed(modifier: Refit) -> None:
    _, whole, asked = _fitted(modifier)
    for observation in asked:
        inside = not (observation.mask & ~whole.mask).any()
        if not inside or not np.array_equal(observation.values[observation.mask], whole.values[observation.mask]):
            fail(
                f"looking at the observations that +{modifier.name} had fitted",
                "one holds a value that was not observed",
                "hands on the observation, or a part of it",
            )
    if not asked:
        fail(f"counting the fits that +{modifier.name} asked for", "there is none", "has the method fitted")


def takes(method: Method, modifier: Modifier) -> bool:
    """Whether this method accepts this modifier."""
    try:
        modifier.modify(method)
    except Exception:  # what is not a RequestError is a failure of refused-elsewhere
        return False
    return True


def _has_a_method(modifier: Modifier, takers: list[Method]) -> None:
    if not takers:
        fail(
            f"adding +{modifier.name} to every installed method",
            "none takes it",
            "is named in the accepts of a method, or overrides modify()",
        )


def _refused_elsewhere(modifier: Modifier, others: list[Method]) -> None:
    for method in others:
        try:
            modifier.modify(method)
        except RequestError as error:
            if modifier.name not in str(error):
                fail(f"adding +{modifier.name} to {method.name}", f"the error is {str(error)!r}", "is named in it")
        except Exception as error:
            fail(f"adding +{modifier.name} to {method.name}", one_line(error), "is added, or raises RequestError")
    if not others:
        raise NotChecked("every installed method takes it")


def _text_form(modifier: Modifier, method: Method) -> None:
    text = str(modifier.modify(method))
    names = [part.name for part in parse(text)]
    if names[-1] != modifier.name:
        fail(
            f"writing {method.name} with +{modifier.name} as text",
            f"it is {text!r}",
            "appears in the text form of the method it modifies, last",
        )


def _changes(method: Method, modified: Method, observation: Observation | None) -> None:
    plain, changed = MethodUnderCheck(method, observation), MethodUnderCheck(modified, observation)
    if (plain.estimate == changed.estimate).all():
        fail(
            f"completing {plain.example.words} by {method.name} and by {modified}",
            "the estimates are equal",
            "changes something",
        )
