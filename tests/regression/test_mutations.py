"""The faults of the mutation proof can be planted, and it tells a test that fails from tests that did not run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "benchmarks" / "mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutations"] = module
    spec.loader.exec_module(module)
    return module


mutations = load()


@pytest.mark.parametrize("fault", mutations.faults(), ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_and_names_its_tests(fault) -> None:
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    assert fault.planted(text) != text
    assert fault.tests
    for test in fault.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_there_are_faults_in_every_room() -> None:
    faults = mutations.faults()
    assert len({fault.name for fault in faults}) == len(faults) >= 40
    packages = ("store", "execution", "report", "files", "completion", "regression", "cli", "conformance")
    for package in (*(f"fieldbench/{name}/" for name in packages), "plugins/", "datasets/"):
        assert any(fault.file.startswith(package) for fault in faults), package


@pytest.fixture
def failing_test(tmp_path: Path):
    """``failing_test("test_it.py", text)``: what the proof says of a tree with this test."""

    def failing_test(name: str, text: str) -> str | None:
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "test_it.py").write_text(text)
        (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-ra'\n")
        found: str | None = mutations.failing_test("planted", [name], tmp_path)
        return found

    return failing_test


@pytest.mark.parametrize(("truth", "caught"), [("True", None), ("False", "test_it.py: test_truth")])
def test_a_fault_is_caught_where_a_test_fails(failing_test, truth: str, caught: str | None) -> None:
    assert failing_test("test_it.py", f"def test_truth():\n    assert {truth}\n") == caught


@pytest.mark.parametrize(("name", "text"), [("test_nowhere.py", ""), ("test_it.py", "import nowhere\n")])
def test_tests_that_cannot_run_catch_nothing(failing_test, name: str, text: str) -> None:
    with pytest.raises(SystemExit, match="planted: the tests themselves went wrong"):
        failing_test(name, text)
