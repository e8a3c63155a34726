"""Methods on other people's libraries, a file each: short, listed without the library, and right where it is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from fieldbench import conformance
from fieldbench.registry import Registry, Sources

FILES = sorted((Path(__file__).parents[2] / "examples" / "strangers").glob("*.py"))

#: Lines that are not blank.
LONGEST = 25


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_short_and_its_method_is_listed_without_its_library(file) -> None:
    assert len([line for line in file.read_text().splitlines() if line.strip()]) <= LONGEST
    registry = Registry(Sources(files=(str(file),)))
    assert not registry.broken
    own = [entry for entry in registry.entries("method").values() if entry.source.label == str(file)]
    assert len(own) == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_method_passes_the_checks_where_its_library_is_installed(file) -> None:
    registry = Registry(Sources(files=(str(file),)))
    (entry,) = (entry for entry in registry.entries("method").values() if entry.source.label == str(file))
    for module in entry.cls.requires:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    outcomes = {check.name: check.outcome() for check in conformance.checks(entry.cls.name, registry=registry)}
    failed = {name: outcome.message for name, outcome in outcomes.items() if outcome.status == "failed"}
    assert not failed


def test_there_are_ten() -> None:
    assert len(FILES) == 10
