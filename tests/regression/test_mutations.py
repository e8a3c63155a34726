"""The mutation proof tells a test that fails from tests that did not run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "mutations.py"


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutations", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mutations", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def failing_test(mutations: ModuleType, tmp_path: Path):
    """``failing_test("test_it.py", text)``: what the proof says of a tree with this test."""

    def failing_test(name: str, text: str) -> str | None:
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "test_it.py").write_text(text)
        (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-ra'\n")
        fault = mutations.Fault("planted", "", "", "", (name,), "")
        found: str | None = mutations.failing_test(fault, tmp_path)
        return found

    return failing_test


@pytest.mark.parametrize(("truth", "caught"), [("True", None), ("False", "test_it.py: test_truth")])
def test_a_fault_is_caught_where_a_test_fails(failing_test, truth: str, caught: str | None) -> None:
    assert failing_test("test_it.py", f"def test_truth():\n    assert {truth}\n") == caught


@pytest.mark.parametrize(("name", "text"), [("test_nowhere.py", ""), ("test_it.py", "import nowhere\n")])
def test_tests_that_cannot_run_catch_nothing(failing_test, name: str, text: str) -> None:
    with pytest.raises(SystemExit, match="planted: the tests themselves went wrong"):
        failing_test(name, text)
