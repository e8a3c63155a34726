"""The ways in: a package, a file, a folder named by the environment, a class of the running program."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import fieldbench
from fieldbench.errors import RequestError
from fieldbench.field import Observation
from fieldbench.registry import Registry, Sources


def test_a_package_is_found_by_its_entry_point(install, working) -> None:
    install("my-package", working("average"), version="3.1")
    entry = Registry(Sources()).find("method", "average")
    assert str(entry.source) == "my-package 3.1"
    assert entry.plugin == "my-package"


def test_a_file_is_found_by_its_path(write, working) -> None:
    path = write("mine.py", working("average"))
    registry = Registry(Sources.from_environment(files=[path]))
    assert registry.find("method", "average").source.label == path
    assert registry.method("average[offset=2]").parameters() == {"offset": 2.0}


def test_a_folder_named_by_the_environment(write, working, monkeypatch) -> None:
    for name in ("one", "two"):
        path = write(f"folder/{name}.py", working(name))
    write("folder/_helper.py", "raise RuntimeError")
    write("folder/notes.txt", "no plugin")
    third = write("third.py", working("three"))
    monkeypatch.setenv("FIELDBENCH_PLUGINS", os.pathsep.join([str(Path(path).parent), third]))
    registry = Registry()
    assert registry.broken == []
    assert {"one", "two", "three"} <= set(registry.entries("method"))


def test_a_file_named_twice_is_loaded_once(write, working) -> None:
    path = write("folder/mine.py", working("average"))
    registry = Registry(Sources(files=(path, str(Path(path).parent))))
    assert registry.broken == []
    assert "average" in registry.entries("method")


def test_a_path_that_is_not_there_is_named() -> None:
    with pytest.raises(RequestError, match=r"plugin file '/no/such/mine\.py' is not there"):
        Registry(Sources(files=("/no/such/mine.py",)))


class Double(fieldbench.Method):
    """Twice the mean of the observed entries."""

    name = "double"

    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, 2 * _mean(observation))


def _mean(observation: Observation) -> float:
    return float(observation.observed.mean())


def test_a_class_of_the_program() -> None:
    registry = Registry(Sources(classes=(Double,)))
    assert type(registry.method("double")) is Double
    assert str(registry.find("method", "double").source) == "this program"


def test_a_cell_run_again_replaces_its_class() -> None:
    again = type("Double", (Double,), {"__doc__": "Another.", "__module__": __name__})
    registry = Registry(Sources(classes=(Double, again)))
    assert registry.broken == []
    assert type(registry.method("double")) is again


WORKER = """
import pickle, sys
from fieldbench.registry import Registry
from fieldbench.field import Observation
import numpy as np
registry = Registry(pickle.load(sys.stdin.buffer))
observation = Observation(np.array([1.0, 3.0]), np.array([True, True]))
print([type(item.reason) for item in registry.broken],
      registry.method(sys.argv[1]).complete(observation, seed=0, device="cpu", report=None).tolist())
"""


def _in_a_worker(sources: bytes, method: str) -> str:
    """Build the registry in a fresh process, somewhere else, and complete [1, 3] by ``method``."""
    run = subprocess.run(
        [sys.executable, "-c", WORKER, method], input=sources, capture_output=True, cwd="/", timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode().strip()


def test_a_class_of_a_module_that_workers_cannot_import_travels_with_its_code() -> None:
    assert _in_a_worker(cloudpickle.dumps(Sources(classes=(Double,))), "double") == "[] [4.0, 4.0]"


def test_a_class_of_main_travels_with_its_code() -> None:
    program = """
import functools, sys
import cloudpickle, numpy as np, fieldbench
from fieldbench.registry import Sources
def total(observation): return add(tuple(observation.observed))
@functools.cache
def add(values): return values[0] + add(values[1:]) if values else 0.0
class Base(fieldbench.Method):
    '''Base.'''
    name = "base"
    factor: float = fieldbench.parameter(1.0, "factor")
    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, self.factor * total(observation))
class Derived(Base):
    '''Derived.'''
    name = "derived"
    def complete(self, observation, **rest):
        return -super().complete(observation, **rest)
sys.stdout.buffer.write(cloudpickle.dumps(Sources(classes=(Base, Derived))))
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=120)
    assert _in_a_worker(made.stdout, "derived[factor=2]") == "[] [-8.0, -8.0]"


def test_a_file_plugin_reaches_a_worker_by_its_path(write, working) -> None:
    sources = Sources(files=(write("mine.py", working("average")),))
    assert _in_a_worker(pickle.dumps(sources), "average[offset=1]") == "[] [3.0, 3.0]"
