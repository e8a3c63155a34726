"""Checks of modifiers, each on every method that takes it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fieldbench.conformance.check import NotChecked, fail
from fieldbench.conformance.general import Named
from fieldbench.conformance.methods import MethodUnderCheck, of_method, search_space
from fieldbench.errors import RequestError, one_line
from fieldbench.field import Observation
from fieldbench.method import Method, Modifier
from fieldbench.spec import parse

#: What a modified method is checked for again; a modifier changes neither its parameters nor its orders.
_AGAIN = (
    "shape-and-finiteness", "deterministic", "global-random-state", "unobserved-entries-change-nothing",
    "inputs-unmodified", "reports", "fiber-mask", "block-mask", "constant-field", "batch-equals-single",
)  # fmt: skip


def of_modifier(modifier: Modifier, methods: list[Method], observation: Observation | None = None) -> Iterator[Named]:
    """The checks of a modifier, with the methods that it can be tried on."""
    takers = [method for method in methods if takes(method, modifier)]
    others = [method for method in methods if not takes(method, modifier)]
    yield "has-a-method", partial(_has_a_method, modifier, takers)
    yield "refused-elsewhere", partial(_refused_elsewhere, modifier, others)
    if takers and modifier.search_space():
        modified = modifier.modify(takers[0])
        yield f"search-space-on-{takers[0].name}", partial(search_space, modified, observation, f"{modifier.name}.")
    for method in filter(lambda method: _is_tried_on(method, modifier), takers):
        modified = modifier.modify(method)
        yield f"text-form-on-{method.name}", partial(_text_form, modifier, method)
        for name, body in of_method(modified, observation):
            if name in _AGAIN:
                yield f"{name}-on-{method.name}", body
        yield f"changes-{method.name}", partial(_changes, method, modified, observation)


def takes(method: Method, modifier: Modifier) -> bool:
    """Whether this method accepts this modifier."""
    try:
        modifier.modify(method)
    except Exception:  # what is no RequestError is a failure of refused-elsewhere
        return False
    return True


def _is_tried_on(method: Method, modifier: Modifier) -> bool:
    """Whether the small made-up fields suit the method; one made for particular fields is tried if it asks for it."""
    return method.conformance_dataset is None or modifier.name in method.accepts


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
