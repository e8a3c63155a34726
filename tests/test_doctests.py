"""The examples in docstrings run, and every public class and function has one."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

import fieldbench
from fieldbench import hookspecs

PACKAGES = ["fieldbench", "fieldbench_methods", "fieldbench_datasets"]


def modules_with_examples() -> Iterator[str]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            for file in sorted(Path(folder).rglob("*.py")):
                if ">>> " in file.read_text(encoding="utf-8"):
                    parts = [package, *file.relative_to(folder).with_suffix("").parts]
                    yield ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_the_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


#: Constants, type aliases and the marker of hooks cannot carry an example.
EXPLAINED = [name for name in fieldbench.__all__ if isinstance(getattr(fieldbench, name), type | FunctionType)]


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_public_class_or_function_has_an_example_that_runs(name: str) -> None:
    examples = doctest.DocTestParser().get_examples(getattr(fieldbench, name).__doc__ or "")
    assert examples, f"fieldbench.{name} has no example in its docstring"
    assert not any(example.options.get(doctest.SKIP) for example in examples)


def test_every_hook_has_a_docstring() -> None:
    hooks = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("fieldbench_register_")}
    assert hooks
    assert [name for name, hook in hooks.items() if not (hook.__doc__ or "").strip()] == []
