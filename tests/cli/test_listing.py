"""``fieldbench list`` keeps what it read, and never shows what is no more so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import fieldbench
import fieldbench_datasets
import fieldbench_methods

#: Lists, and says by its exit code whether the plugins were read, which takes pydantic.
PROGRAM = """
import sys
from fieldbench.cli.main import main
try:
    main(["list", *sys.argv[1:]])
except SystemExit as end:
    sys.exit(end.code or 100 + ("pydantic" in sys.modules))
"""
KEPT, READ = 100, 101

PLUGIN = """
import fieldbench
from pathlib import Path

class Mean(fieldbench.Method):
    "{summary}"
    name = "mine"

    def complete(self, observation, *, seed, device, report):
        return observation.values

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Mean]
"""

OTHER = "[console_scripts]\nother = other:main\n"

SETTLED = 2.5


@dataclass(frozen=True)
class World:
    """A folder with the built-in methods, a folder for other distributions, and a cache."""

    folder: Path

    def start(self, *arguments: str, flags: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[str]:
        packages = [Path(package.__file__).parents[1] for package in (fieldbench, fieldbench_datasets)]
        path = [self.folder / "site", self.folder / "methods", *packages]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("FIELDBENCH", "PYTEST"))}
        environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "FIELDBENCH_CACHE": str(self.folder / "cache"),
            "COLUMNS": "200",
            **variables,
        }
        return subprocess.Popen(
            [sys.executable, *flags, "-c", PROGRAM, *arguments],
            cwd=self.folder / "here",
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def list(self, *arguments: str, flags: tuple[str, ...] = (), **variables: str) -> tuple[int, str]:
        process = self.start(*arguments, flags=flags, **variables)
        text, _ = process.communicate()
        return process.returncode, text

    def keep(self) -> str:
        """The listing, which is kept from then on."""
        for pause in (0, SETTLED, 0):  # what was just written is not trusted
            code, text = self.list()
            if code == KEPT:
                return text
            time.sleep(pause)
        code, text = self.list()
        assert code == KEPT
        return text

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    @property
    def kept(self) -> Path:
        return self.folder / "cache" / "listing"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    source = Path(fieldbench_methods.__file__).parent
    shutil.copytree(source, folder / "methods" / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "here").mkdir()
    world = World(folder)
    world.write("site/other-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    world.write("site/other-1.0.dist-info/entry_points.txt", OTHER)
    world.write("site/mine.py", PLUGIN.format(summary="Of another distribution."))
    world.list()  # which writes bytecode
    return world


def test_what_is_kept_reads_like_what_was_read(world: World) -> None:
    kept = world.keep()
    world.kept.unlink()
    assert world.list() == (READ, kept)
    assert world.list() == (KEPT, kept)
    code, noises = world.list("noises")
    assert code == KEPT
    assert " ".join(noises.split()) in " ".join(kept.split())


NEAREST = "methods/fieldbench_methods/interpolation.py"


def edit(world: World) -> None:
    module = world.folder / NEAREST
    text = module.read_text()
    assert text.count("Every entry takes the value") == 1
    module.write_text(text.replace("Every entry takes the value", "Every other takes a value"))


def install(world: World) -> None:
    world.write("site/new-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: new\nVersion: 1.0\n")
    world.write("site/new-1.0.dist-info/entry_points.txt", "[fieldbench]\nmine = mine\n")


def remove(world: World) -> None:
    (world.folder / NEAREST).unlink()


def add_entry_point(world: World) -> None:
    world.write("site/other-1.0.dist-info/entry_points.txt", "[fieldbench]\nmine = mine\n")


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (edit, "Every other takes a value"),
        (remove, "Broken plugins"),
        (install, "Methods  from new 1.0"),
        (add_entry_point, "Methods  from other 1.0"),
    ],
)
def test_a_change_of_what_is_installed_is_seen(world: World, change: Callable[[World], None], shown: str) -> None:
    before = world.keep()
    assert shown not in before
    module = (world.folder / NEAREST).read_bytes()
    try:
        change(world)
        code, text = world.list()
        assert code == READ
        assert shown in text
    finally:
        (world.folder / NEAREST).write_bytes(module)
        shutil.rmtree(world.folder / "site" / "new-1.0.dist-info", ignore_errors=True)
        world.write("site/other-1.0.dist-info/entry_points.txt", OTHER)
    assert world.list() == (READ, before)


def test_what_was_just_written_is_not_kept(world: World) -> None:
    """It may be written again within what the file system takes for one moment."""
    world.keep()
    (world.folder / NEAREST).touch()
    assert [world.list()[0] for _ in range(2)] == [READ, READ]


def test_plugins_of_others_are_read_each_time(world: World) -> None:
    """One may look at a file, a clock or the network when it says what it brings."""
    note = world.folder / "note.txt"
    looking = PLUGIN.replace('"{summary}"', f"__doc__ = Path({str(note)!r}).read_text()")
    info = world.folder / "beside" / "looking-1.0.dist-info"
    world.write("beside/looking.py", looking)
    world.write(f"beside/{info.name}/METADATA", "Metadata-Version: 2.1\nName: looking\nVersion: 1.0\n")
    world.write(f"beside/{info.name}/entry_points.txt", "[fieldbench]\nlooking = looking\n")
    path = os.pathsep.join(map(str, (world.folder / "beside", world.folder / "methods", *sys.path)))
    world.list(PYTHONPATH=path)
    time.sleep(SETTLED)
    for text in ("Here today.", "Gone tomorrow.", "Back again."):  # a slow machine settles by the second
        note.write_text(text)
        assert text in world.list(PYTHONPATH=path)[1]


def test_files_on_the_command_line_are_seen(world: World) -> None:
    before, file = world.keep(), world.folder / "own.py"
    for summary, how in (("Mine.", "--plugin"), ("His.", "--plugin"), ("Hers.", "FIELDBENCH_PLUGINS")):
        file.write_text(PLUGIN.format(summary=summary))
        listed = world.list(how, str(file)) if how == "--plugin" else world.list(**{how: str(file)})
        assert summary in listed[1]
    assert " tap " not in world.list("--no-plugin", "tap")[1]
    assert world.list() == (KEPT, before)


@pytest.mark.parametrize("variable", ["FIELDBENCH_DATA", "FIELDBENCH_STRICT_PLUGINS", "ANY_OTHER"])
def test_every_variable_of_the_environment_counts(world: World, variable: str) -> None:
    world.keep()
    assert world.list(**{variable: "0"})[0] == READ


def test_another_python_reads_for_itself(world: World) -> None:
    before = world.keep()
    code, text = world.list(flags=("-OO",))  # without docstrings
    assert code == READ
    assert "Every entry takes the value" in before
    assert "Every entry takes the value" not in text
    assert world.list() == (READ, before)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda kept: kept[: len(kept) // 2],
    "a letter": lambda kept: kept.replace(b"Every entry", b"Every antry"),
    "no text": lambda kept: b"\xff\xfe" + kept[2:],
    "another text": lambda kept: json.dumps({"files": {}, "rows": []}).encode(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_made_anew(world: World, damage: Callable[[bytes], bytes]) -> None:
    before = world.keep()
    world.kept.write_bytes(damage(world.kept.read_bytes()))
    assert world.list() == (READ, before)
    assert world.list() == (KEPT, before)


def test_a_cache_that_cannot_be_written_costs_only_time(world: World) -> None:
    before = world.keep()
    assert world.list(FIELDBENCH_CACHE=os.devnull) == (READ, before)
    world.kept.unlink()
    world.kept.mkdir()
    try:
        assert world.list() == (READ, before)
        assert [file.name for file in world.kept.parent.iterdir()] == ["listing"]
    finally:
        world.kept.rmdir()


def test_several_may_write_at_once(world: World) -> None:
    before = world.keep()
    world.kept.unlink()
    processes = [world.start() for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == [before] * 3
    assert [file.name for file in world.kept.parent.iterdir()] == ["listing"]
    assert world.list() == (KEPT, before)
