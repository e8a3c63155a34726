"""The command line, called in this process and in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from fieldbench.cli.main import main
from tests.command import Outcome

TOYS = Path(__file__).parents[1] / "toys.py"


Command: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def fieldbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """``fieldbench("run", "--methods", ...)`` with the toy plugins, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDBENCH_PLUGINS", str(TOYS))
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["fieldbench", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capfd.readouterr()
        assert isinstance(exit_.value.code, int)
        return Outcome(exit_.value.code, out, err)

    return call


@pytest.fixture
def run(fieldbench: Command) -> Command:
    """``run("mean,flaky", ...)``: a run on ``wave`` with one slot, kept in ``kept``."""

    def call(methods: str, *arguments: str) -> Outcome:
        fixed = ("--datasets", "wave", "--device", "cpu", "--jobs", "1", "--out", "kept")
        return fieldbench("run", "--methods", methods, *fixed, *arguments)

    return call
