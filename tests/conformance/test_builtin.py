"""Every built-in plugin passes the checks that a stranger's must pass."""

from __future__ import annotations

import pytest

from fieldbench import conformance
from fieldbench.registry import KINDS, Registry, Sources

REGISTRY = Registry(Sources())

#: Datasets that need a file of the user's: nothing can be drawn from their name alone.
NEED_AN_ARGUMENT = {
    (kind, name)
    for kind in KINDS
    for name, entry in REGISTRY.entries(kind).items()
    if any(field.is_required() for field in entry.cls.model_fields.values())
}

CHECKS = [
    check
    for kind in KINDS
    for name, entry in REGISTRY.entries(kind).items()
    if entry.source.label == "fieldbench-completion" and (kind, name) not in NEED_AN_ARGUMENT
    for check in conformance.checks(name, kind=kind, registry=REGISTRY)
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_conformance(check: conformance.Check) -> None:
    check()


def test_nothing_is_broken() -> None:
    assert REGISTRY.broken == []


def test_few_failures_are_expected() -> None:
    for kind in KINDS:
        for name, entry in REGISTRY.entries(kind).items():
            assert len(entry.cls.expected_failures) <= 2, f"{kind} {name} excuses more than two checks"
