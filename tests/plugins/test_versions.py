"""What identifies a plugin's numbers: it changes with the code, and with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from fieldbench.errors import RequestError
from fieldbench.registry import Registry, Sources


def version_of(sources: Sources, name: str = "average") -> str:
    registry = Registry(sources)
    return registry.version(registry.find("method", name).cls)


def test_an_edit_of_a_file_changes_its_version(write, working) -> None:
    before = version_of(Sources(files=(write("mine.py", working("average")),)))
    after = version_of(Sources(files=(write("mine.py", working("average").replace("mean()", "max()")),)))
    assert before != after


def test_a_file_has_the_same_version_wherever_it_lies(write, working) -> None:
    here = version_of(Sources(files=(write("here/mine.py", working("average")),)))
    there = version_of(Sources(files=(write("there/mine.py", working("average")),)))
    assert here == there


def test_a_revision_stands_for_the_code(write, working) -> None:
    source = working("average").replace('name = "average"', 'name = "average"\n    revision = "7"')
    before = version_of(Sources(files=(write("a/mine.py", source),)))
    after = version_of(Sources(files=(write("b/mine.py", source + "\n# a remark\n"),)))
    assert before == after == "mine revision 7"


def test_an_installed_package_is_identified_by_its_version(install, working) -> None:
    install("my-package", working("average"), version="3.1")
    assert version_of(Sources()) == "my-package 3.1"


def test_an_edit_of_a_helper_of_an_editable_package_changes_its_version(install, working) -> None:
    package = install("my-package", working("average"), editable=True)
    helper = package / "deep" / "helper.py"
    helper.parent.mkdir()
    helper.write_text("x = 1\n")
    before = version_of(Sources())
    helper.write_text("x = 2\n")
    after = version_of(Sources())
    assert before != after
    assert "my-package source" in before


PROMPT = """
import dataclasses, enum, functools, re
import numba
import numpy as np
import fieldbench
from fieldbench.registry import Registry, Sources
LIMITS = {1, 2, 3}
TYPES = {int, float, str}
SHARE = 0.5
LEVEL = np.float32(0.25)
COUNT = np.int64(7)
PATTERN = re.compile("a+")
MAXIMUM = np.maximum
TABLE = np.arange(6).reshape(2, 3)
Mode = enum.Enum("Mode", ["slow", "fast"])
@dataclasses.dataclass(frozen=True)
class Settings:
    gain: float = 1.0
    def __len__(self):
        return 4
SETTINGS = Settings()
PARTIAL = functools.partial(np.clip, a_min=-9.0)
@numba.njit(fastmath=False)
def compiled(value):
    return value + 20
@functools.cache
def kept(value):
    return value + 21
def decorated(function):
    def inner(*given):
        return function(*given)
    return inner
@decorated
@functools.lru_cache
def twice(value):
    return value + 22
def helper(values):
    return np.mean(values) * SHARE
class Average(fieldbench.Method):
    '''Average.'''
    name = "average"
    steps: int = fieldbench.parameter(3, "steps")
    def complete(self, observation, *, seed, device, report):
        scale = (lambda x: 2 * x)
        uses = LEVEL, COUNT, PATTERN, MAXIMUM, TABLE, Mode.slow, SETTINGS, PARTIAL, compiled, kept, twice, TYPES
        return np.full(observation.shape, scale(helper(observation.observed))) if LIMITS else None
print(Registry(Sources(classes=(Average,))).version(Average))
"""


def typed_at_a_prompt(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the program prints when it runs in a module that has no file."""
    module = types.ModuleType("prompt")
    monkeypatch.setitem(sys.modules, "prompt", module)
    exec(program, module.__dict__)
    return capsys.readouterr().out


def in_a_process(program: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True).stdout


def test_a_class_without_a_file_has_one_version_in_every_process() -> None:
    first, second = in_a_process(PROMPT, "1"), in_a_process(PROMPT, "2")
    assert first == second
    assert first.startswith("this program source ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * x", "3 * x"),
        ("np.mean", "np.median"),
        ("SHARE = 0.5", "SHARE = 0.6"),
        ("parameter(3,", "parameter(4,"),
        ("{1, 2, 3}", "{1, 2, 4}"),
        ("{int, float, str}", "{int, float}"),
        ("np.float32(0.25)", "np.float32(0.5)"),
        ("np.float32(0.25)", "np.float64(0.25)"),
        ("np.int64(7)", "np.int64(8)"),
        ('"a+"', '"b+"'),
        ("np.maximum", "np.minimum"),
        ("reshape(2, 3)", "reshape(3, 2)"),
        ("Mode.slow", "Mode.fast"),
        ("gain: float = 1.0", "gain: float = 2.0"),
        ("return 4", "return 5"),
        ("Settings()", "Settings(gain=3.0)"),
        ("a_min=-9.0", "a_min=-8.0"),
        ("partial(np.clip, a_min", "partial(np.copy, a_min"),
        ("fastmath=False", "fastmath=True"),
        ("value + 20", "value - 20"),
        ("value + 21", "value - 21"),
        ("value + 22", "value - 22"),
    ],
)
def test_an_edit_of_a_class_without_a_file_is_noticed(old: str, new: str, monkeypatch, capsys) -> None:
    assert old in PROMPT
    edited = typed_at_a_prompt(PROMPT.replace(old, new), monkeypatch, capsys)
    assert edited != typed_at_a_prompt(PROMPT, monkeypatch, capsys)


def test_what_cannot_be_told_apart_is_refused_unless_a_revision_stands_for_it(monkeypatch, capsys) -> None:
    unknown = PROMPT.replace("LEVEL = np.float32(0.25)", "LEVEL = (number for number in (1, 2))")
    with pytest.raises(RequestError, match=r"Average uses a generator whose content cannot be told .* set revision"):
        typed_at_a_prompt(unknown, monkeypatch, capsys)
    revised = unknown.replace('name = "average"', 'name = "average"; revision = "2"')
    assert typed_at_a_prompt(revised, monkeypatch, capsys).strip() == "this program revision 2"


def test_a_program_read_from_a_pipe_has_a_version() -> None:
    """Its file is called <stdin>, and is none."""
    command = [sys.executable, "-"]
    done = subprocess.run(command, input=PROMPT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == in_a_process(PROMPT, "1")


def test_a_remark_at_a_prompt_is_no_edit(monkeypatch, capsys) -> None:
    remarked = typed_at_a_prompt(PROMPT.replace("LIMITS =", "# a remark\nLIMITS ="), monkeypatch, capsys)
    assert remarked == typed_at_a_prompt(PROMPT, monkeypatch, capsys)


def test_the_built_in_methods_have_revisions() -> None:
    registry = Registry(Sources())
    for kind in ("method", "noise", "sampler", "metric"):
        for name, entry in registry.entries(kind).items():
            if entry.source.label == "fieldbench":
                assert entry.cls.revision, f"{kind} {name}"
