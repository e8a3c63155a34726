"""What the package depends on: its extras, and what works without torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fieldbench.registry import Registry, Sources

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: Python runs this before anything else; from then on torch is not installed.
WITHOUT_TORCH = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: None if name.partition(".")[0] == "torch" else find(name, *where)
"""


def test_the_extra_all_has_every_other() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    found = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", everything)
    assert found is not None
    assert set(found[1].split(",")) == set(extras) - {"all"}


def test_the_requirements_without_torch_are_all_others() -> None:
    lines = (ROOT / "requirements-without-torch.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        line for line in PROJECT["dependencies"] if not line.startswith("torch>")
    ]


@pytest.fixture
def torchless(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TORCH)
    found = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": found}


def _run(methods: str, out: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fieldbench", "run", "--methods", methods, "--datasets", "ssf-synthetic"]
    few = ["--rates", "0.2", "--trials", "1", "--jobs", "1", "--out", str(out)]
    return subprocess.run([*command, *few], env=environment, capture_output=True, text=True, timeout=300)


def test_most_methods_run_without_torch(torchless: dict[str, str], tmp_path: Path) -> None:
    outcome = _run("thin-plate,kriging,tnn[epochs=2],tap[epochs=2]+tv,tucker-als", tmp_path / "run", torchless)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_a_method_that_needs_torch_says_so(torchless: dict[str, str], tmp_path: Path) -> None:
    outcome = _run("nearest,siren", tmp_path / "run", torchless)
    assert outcome.returncode == 2
    (line,) = outcome.stderr.strip().splitlines()
    assert "siren needs torch, not installed here; run: pip install 'torch'" in line


def test_methods_made_of_torch_require_it() -> None:
    methods = Registry(Sources()).entries("method").values()
    made_of_torch = [entry.cls for entry in methods if "torch" in getattr(entry.cls, "libraries", ())]
    assert made_of_torch
    assert {cls.name for cls in made_of_torch if cls.requires.get("torch") != "torch"} == set()
