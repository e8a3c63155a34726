"""Runs that tests share."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.hostile.commands import Group, Ran
from tests.hostile.plugins import Act

Runner: TypeAlias = Callable[[Group], Ran]

#: The groups that every test run tries. All of them take ten minutes: FIELDBENCH_HOSTILE=all, or ``tox -e hostile``.
QUICK = frozenset({"leaks", "patches", "hangs", "returns", "metrics"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it is asked for."""
    if os.environ.get("FIELDBENCH_HOSTILE") == "all":
        return
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        group = parameters.get("group")
        quick = group.name in QUICK if isinstance(group, Group) else item.path.name == "test_methods.py"
        if item.path.parent == Path(__file__).parent and not quick:
            item.add_marker(pytest.mark.skip(reason="takes long; FIELDBENCH_HOSTILE=all runs it"))


@pytest.fixture(scope="session")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A group's command, run once with those acts that this session tests: one test alone runs one act alone.

    Processes that share the tests (pytest-xdist) share the runs.
    """
    chosen: dict[str, set[str]] = {}
    for item in request.session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if isinstance(parameters.get("act"), Act) and isinstance(parameters.get("group"), Group):
            chosen.setdefault(parameters["group"].name, set()).add(str(parameters["act"]))
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "hostile"

    def run(group: Group) -> Ran:
        wanted = chosen.get(group.name)
        acts = [act for act in group.acts if wanted is None or str(act) in wanted]
        return _once(shared / group.name, lambda folder: group.run(folder, acts))

    return run


def _once(folder: Path, run: Callable[[Path], Ran]) -> Ran:
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(asdict(run(folder))))
    return Ran(**json.loads(result.read_text()))


@pytest.fixture(scope="session")
def reference(ran: Runner) -> Ran:
    """The neighbours among themselves, which is what their scores must be beside anybody."""
    return ran(Group("reference", (), trials=4))
