"""Runs of toy methods, disturbed and undisturbed, and what is compared of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from fieldbench.execution import Options, Stop, execute
from fieldbench.plan import Plan, Request
from fieldbench.records import Record
from fieldbench.registry import Registry, Sources
from fieldbench.results import Results
from fieldbench.session import Session
from fieldbench.store.run import read_rows

TOYS = Path(__file__).parents[1] / "toys.py"
SOURCES = Sources(files=(str(TOYS),))


def request(methods: str | list[str] = "steady", trials: int = 4, **rest: Any) -> Request:
    return Request(methods=methods, datasets="wave", trials=trials, **rest)


def plan(methods: str | list[str] = "steady", trials: int = 4, **rest: Any) -> Plan:
    return Plan(request(methods, trials, **rest), Registry(SOURCES))


def records(methods: str | list[str] = "steady", trials: int = 4, **options: Any) -> list[Record]:
    """Run trials to the end, without a folder."""
    chosen = Options(**{"device": "cpu", "jobs": 2, **options})
    return list(execute(plan(methods, trials), SOURCES, chosen, Stop()))


def run(
    out: Path, methods: str | list[str] = "steady", trials: int = 4, *, retry_failed: bool = False, **options: Any
) -> list[dict[str, Any]]:
    """Run (or go on with) a folder to the end; its rows."""
    chosen = Options(**{"device": "cpu", "jobs": 2, **options})
    session = Session(request(methods, trials), sources=SOURCES, options=chosen, out=out)
    session.run(retry_failed=retry_failed)
    return list(read_rows(out))


def results(out: Path) -> tuple[dict[str, tuple[str, dict[str, float]]], str]:
    """What must be equal of two runs: each trial's status and scores, and the table made of them."""
    rows = list(read_rows(out))
    keys = [row["key"] for row in rows]
    assert len(keys) == len(set(keys))
    return {row["key"]: (row["status"], row["metrics"]) for row in rows}, Results(out).table().to("csv")


@dataclass
class Trouble:
    """A file whose presence makes one trial misbehave."""

    path: Path

    def begin(self, kind: str) -> None:
        self.path.write_text(kind)

    def end(self) -> None:
        self.path.unlink()


@pytest.fixture
def trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trouble:
    path = tmp_path / "trouble"
    monkeypatch.setenv("TOY_TROUBLE", str(path))
    return Trouble(path)


def workers(parent: psutil.Process | None = None) -> list[psutil.Process]:
    """The methods' processes below a parent, this program by default."""
    below = (parent or psutil.Process()).children(recursive=True)
    return [child for child in below if _name(child) == "fb-worker"]


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


class Command:
    """A ``fieldbench`` process that is run for a test, and the worker processes that it started."""

    def __init__(self, *arguments: str, script: str = "from fieldbench.cli.main import main; main()") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )

    def workers(self) -> list[psutil.Process]:
        return workers(psutil.Process(self.process.pid))

    def finish(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=200)
        return self.process.returncode, out, err


@pytest.fixture
def command() -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*arguments: str, **rest: Any) -> Command:
        started.append(Command(*arguments, **rest))
        return started[-1]

    yield start
    for item in started:
        if item.process.poll() is None:
            item.process.kill()
        item.process.communicate()


def run_arguments(out: Path, methods: str = "steady", trials: int = 4, jobs: int = 2) -> list[str]:
    return [
        *("run", "--methods", methods, "--datasets", "wave", "--trials", str(trials), "--jobs", str(jobs)),
        *("--device", "cpu", "--out", str(out), "--plugin", str(TOYS)),
    ]


def lines(out: Path) -> list[bytes]:
    """The whole lines that are on disk now."""
    file = out / "trials.jsonl"
    return [line for line in file.read_bytes().splitlines(True) if line.endswith(b"\n")] if file.exists() else []


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.01)


def gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
