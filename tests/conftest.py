"""Data that tests may use, and two lanes: the quick tests, and all of them.

``pytest`` runs the quick ones; ``pytest --slow``, and ``pytest FILE``, all. A test is slow if its line in
``durations.csv`` says that it took long; ``pytest --slow --record-durations`` writes that file anew.
"""

from __future__ import annotations

import csv
import os
import resource
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
DURATIONS = Path(__file__).with_name("durations.csv")
CLOCK = pytest.StashKey[float]()

#: Seconds of processor time, which other work on the machine does not lengthen, from which a test is slow.
LONG = 0.08

# Tests run side by side, with a thread each: libraries look at this when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if BESIDE.is_dir():
    os.environ.setdefault("FIELDBENCH_DATA", str(BESIDE))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests too")
    parser.addoption("--record-durations", action="store_true", help=f"write which tests are slow to {DURATIONS.name}")


def pytest_configure(config: pytest.Config) -> None:
    """What is named on the command line runs as a whole, in the workers of xdist too."""
    if hasattr(config, "workerinput"):
        config.option.slow = config.workerinput["slow"]
    elif config.args_source is pytest.Config.ArgsSource.ARGS:
        config.option.slow = True
    if config.option.record_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(), "durations")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist, which has the arguments of its parent and nothing else."""
    node.workerinput["slow"] = node.config.option.slow


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    with DURATIONS.open(newline="", encoding="utf-8") as file:
        slow = {row["test"] for row in csv.DictReader(file)}
    for item in items:
        # Hostile acts share runs, and whichever comes first waits for its own.
        if item.nodeid.removeprefix("tests/") in slow or item.get_closest_marker("hostile"):
            item.add_marker(pytest.mark.slow)
    if not config.option.slow:
        left = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[CLOCK] = processor_time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    if call.when == "teardown":
        item.user_properties.append(("processor seconds", processor_time() - item.stash[CLOCK]))
    return (yield)


def processor_time() -> float:
    """Seconds that this process and those that it waited for have computed."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Durations:
    """Keeps the durations of tests that took long, and writes them at the end."""

    def __init__(self) -> None:
        self.long: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = dict(report.user_properties).get("processor seconds", 0.0)
        if report.when == "teardown" and float(str(seconds)) >= LONG:
            self.long[report.nodeid.removeprefix("tests/")] = float(str(seconds))

    def pytest_sessionfinish(self) -> None:
        with DURATIONS.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["test", "seconds"])
            lines.writerows((test, f"{seconds:.1f}") for test, seconds in sorted(self.long.items()))
