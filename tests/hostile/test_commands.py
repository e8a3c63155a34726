"""Requests and terminals that mean harm: codes, one line, and no order to the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.hostile.commands import LIMITS, OUTER_LIMIT, Ran, command
from tests.hostile.plugins import HONEST

pytestmark = pytest.mark.hostile

FLAT = ("run", "--methods", "flat", "--datasets", "calm", "--plugin", "honest_plugins.py", *LIMITS)

#: Arguments after which a run is refused, and words of the line that says so.
REFUSED = {
    "jobs-huge": (("--jobs", "99999999999999999999"), "jobs"),
    "jobs-beyond-reading": (("--jobs", "9" * 5000), "--jobs|jobs"),
    "threads-huge": (("--threads", "99999999999999999999"), "threads"),
    "slots-huge": (("--slots-per-device", "99999999999999999999"), "slots"),
    "timeout-nan": (("--timeout", "nan"), "timeout"),
    "memory-huge": (("--memory-limit", "9" * 400 + "GiB"), "memory"),
    "seed-beyond-reading": (("--seed", "9" * 5000), "seed"),
    "trials-beyond-reading": (("--trials", "9" * 5000), "trials"),
    "rate-beyond-reading": (("--rates", "9" * 5000), "rate"),
    "set-beyond-reading": (("--set", f"honest.which={'9' * 5000}"), "which|digits|honest"),
    "plugin-empty": (("--plugin", ""), "--plugin"),
    "plugin-blank": (("--plugin", " "), "--plugin|plugin"),
    "plugin-nul": (("--plugin", "a\\0b"), "--plugin|plugin"),
    "plugin-device": (("--plugin", "/dev/zero"), "/dev/zero"),
    "plugin-random": (("--plugin", "/dev/urandom"), "/dev/urandom"),
    "plugin-stdin": (("--plugin", "/dev/stdin"), "/dev/"),
    "plugin-with-a-name": (("--plugin", "file:/dev/zero"), "file:/dev/zero"),
    "plugin-fifo": (("--plugin", "fifo"), "fifo"),
    "plugin-name-too-long": (("--plugin", "x" * 5000), "xxx"),
    "no-plugin-empty": (("--no-plugin", ""), "--no-plugin"),
    "out-device": (("--out", "/dev/zero"), "/dev/zero"),
    "out-name-too-long": (("--out", "x" * 5000), "x"),
}

#: Datasets and methods that cannot be had, in place of those of the run.
UNREADABLE = {
    "data-zero": ("--datasets", "file:/dev/zero", "/dev/zero"),
    "data-random": ("--datasets", "file:/dev/urandom", "/dev/urandom"),
    "data-fifo": ("--datasets", "file:fifo", "fifo"),
    "data-folder-of-fifos": ("--datasets", "file:fifos", "fifos"),
    "data-loop": ("--datasets", "file:loop", "loop"),
    "data-name-too-long": ("--datasets", f"file:{'x' * 5000}", "file"),
    "integer-beyond-reading": ("--methods", f"honest[which={'9' * 5000}]", "which|digits|honest"),
    "shape-beyond-reading": ("--methods", f"honest[which={'9' * 5000}x2]", "which|digits|honest"),
    "float-beyond-reading": ("--methods", f"honest[which={'9' * 5000}.0]", "which|honest"),
    "exponent-beyond-reading": ("--methods", "honest[which=1e999999999]", "which|honest"),
    "deeply-nested": ("--methods", f"honest[which={'(' * 3000}{')' * 3000}]", "honest"),
    "escapes": ("--methods", "\x1b[2Jflat", "flat"),
    "very-many-modifiers": ("--methods", "honest" + "+honest" * 5000, "honest"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the honest plugins and with things that are not files."""
    (tmp_path / "honest_plugins.py").write_text(HONEST)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "fifos").mkdir()
    os.mkfifo(tmp_path / "fifos" / "one.npy")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_is_refused_in_one_line(folder: Path, name: str) -> None:
    arguments, words = REFUSED[name]
    arguments = tuple(word.replace("\\0", "\udc80") for word in arguments)
    command(folder, *FLAT, *arguments, limit=20).must_be_refused(*words.split("|"))


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_refused_in_one_line(folder: Path, name: str) -> None:
    option, text, words = UNREADABLE[name]
    arguments = [text if FLAT[index - 1] == option else word for index, word in enumerate(FLAT)]
    done = command(folder, *arguments, limit=20)
    done.must_be_refused(*words.split("|"))
    assert len(done.err) < 2500


@pytest.mark.parametrize("what", ["/dev/zero", "/dev/urandom", "fifo", "loop", "fifos", "x" * 5000])
def test_completing_what_is_no_file_is_refused_in_one_line(folder: Path, what: str) -> None:
    command(folder, "complete", what, limit=20).must_be_refused(what[:20])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("binary", bytes(range(256)) * 9),
        ("utf-16", "x = 1".encode("utf-16")),
        ("nothing", b""),
        ("null", b"\x00" * 99),
        ("other-code", b"# coding: no-such-code\nx = 1"),
    ],
)
def test_a_file_that_is_no_plugin_costs_nobody_anything(folder: Path, name: str, content: bytes) -> None:
    (folder / f"{name}.py").write_bytes(content)
    done = command(folder, *FLAT, "--plugin", f"{name}.py", "--trials", "1", "--out", "kept")
    assert done.code == 0, done
    told = command(folder, "plugins", "--plugin", f"{name}.py")
    told.must_be_printable()
    assert name in told.out


def test_a_folder_may_hold_anything(folder: Path) -> None:
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "folder.py").mkdir()
    os.mkfifo(plugins / "fifo.py")
    (plugins / "nowhere.py").symlink_to("gone")
    (plugins / "loop.py").symlink_to("loop.py")
    (plugins / "zero.py").symlink_to("/dev/zero")
    (plugins / "honest_plugins.py").write_text(HONEST)
    done = command(folder, *FLAT[:5], "--plugin", "plugins", *LIMITS, "--trials", "1", "--out", "kept", limit=60)
    assert done.code == 0, done
    done.must_be_printable()


def read_first_line(folder: Path, *arguments: str) -> int:
    """The exit code of a command whose reader goes after the first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fieldbench", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process.wait(OUTER_LIMIT)


FAILING = """
import fieldbench

class Failing(fieldbench.Method):
    '''Fails.'''
    name = "failing"

    def complete(self, observation, *, seed, device, report):
        raise ValueError("\\x1b[2J\\x1b]0;owned\\x07 first")

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Failing]
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in ``kept`` of which some trials failed."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "honest_plugins.py").write_text(HONEST)
    (folder / "failing.py").write_text(FAILING)
    assert command(folder, *failing(), "--out", "kept").code == 1
    return folder


def failing() -> list[str]:
    return [*FLAT[:2], "flat,failing", *FLAT[3:], "--plugin", "failing.py", "--trials", "2"]


def test_a_reader_that_goes_changes_no_exit_code(failed: Path) -> None:
    assert read_first_line(failed, *failing(), "--out", "other") == 1
    assert read_first_line(failed, *failing(), "--out", "kept") == 1
    assert read_first_line(failed, *FLAT, "--trials", "2", "--out", "third") == 0
    assert read_first_line(failed, "status", "kept") == command(failed, "status", "kept").code
    assert read_first_line(failed, "table", "kept") == 0
    assert read_first_line(failed, "list") == 0
    assert read_first_line(failed, "compare", "kept") == command(failed, "compare", "kept").code


ESCAPING = """
import numpy as np
import fieldbench
from fieldbench.field import Axis, Field

class Loud(fieldbench.Method):
    '''Loud\\x1b[2J\\x1b]0;owned\\x07.'''
    name = "loud"
    level: float = fieldbench.parameter(1.0, "how \\x1b[31mloud", unit="\\x1bdB", source="a\\x9bmanual")

    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, 1.0)

    def applicable(self, observation):
        return "not \\x1b[31m here" if observation.quantity != "" else None

class Sea(fieldbench.Dataset):
    '''Sea \\x1b[2J.'''
    name = "sea"
    default_rates = (0.5,)

    def draw(self, rng):
        return Field(rng.normal(size=(8, 8)), unit="\\x1b[31mm/s")

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Loud]

@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Sea]
"""

LOOKS = [
    ("list",),
    ("list", "methods"),
    ("show", "loud"),
    ("show", "sea"),
    ("plugins",),
    ("plugins", "loud"),
    ("plugins", "bad"),
    ("show", "nothing\x1b[2J"),
    ("run", "--methods", "loud", "--datasets", "sea", "--trials", "1", "--device", "cpu"),
    ("run", "--methods", "bad", "--datasets", "sea"),
    ("check", "loud"),
]


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_what_plugins_say_is_printed_as_text(tmp_path: Path, look: tuple[str, ...]) -> None:
    (tmp_path / "loud.py").write_text(ESCAPING)
    (tmp_path / "bad.py").write_text("raise ValueError('\\x1b[2J\\x1b]0;owned\\x07')")
    command(tmp_path, *look, "--plugin", "loud.py", "--plugin", "bad.py").must_be_printable(
        but=look == ("plugins", "bad")
    )


@pytest.mark.parametrize(
    "look", [("status", "kept"), ("status", "kept", "--failures"), ("table", "kept")], ids=" ".join
)
def test_what_rows_say_is_printed_as_text(failed: Path, look: tuple[str, ...]) -> None:
    done = command(failed, *look)
    assert done.code == 0, done
    done.must_be_printable()


def test_a_terminal_gets_no_orders_of_a_plugin(failed: Path) -> None:
    """A terminal gets colours, but nothing that a plugin wrote to it."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fieldbench", *failing(), "--out", "seen"],
        cwd=failed,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    seen = bytearray()

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:
                return
            if not piece:
                return
            seen.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    assert process.wait(OUTER_LIMIT) == 1
    reader.join(10)
    assert b"first" in seen
    assert b"\x1b]0;" not in seen
    assert b"\x1b[2J" not in seen


PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

FOREIGN = """
import numpy as np
import fieldbench
from fieldbench.field import Field

class Meer(fieldbench.Dataset):
    '''Schwärme über δ.'''
    name = "meer"
    default_rates = (0.5,)

    def draw(self, rng):
        return Field(rng.normal(size=(8, 8)), unit="°C")

class Schlecht(fieldbench.Method):
    '''Schlägt fehl.'''
    name = "schlecht"

    def complete(self, observation, *, seed, device, report):
        raise ValueError("zu groß: δ")

@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Meer]

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Schlecht]
"""


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A folder with a run that was made where the terminal knows ASCII alone."""
    folder = tmp_path_factory.mktemp("fremd-ä")
    (folder / "größe.py").write_text(FOREIGN, encoding="utf-8")
    (folder / "honest_plugins.py").write_text(HONEST)
    what = ["--methods", "flat,schlecht", "--datasets", "meer", "--plugin", "größe.py", "--plugin", "honest_plugins.py"]
    return folder, command(folder, "run", *what, *LIMITS, "--out", "läufe", environment=PLAIN)


@pytest.mark.parametrize(
    "look",
    [
        ("run",),
        ("--help",),
        ("run", "--help"),
        ("list", "--plugin", "größe.py"),
        ("show", "meer", "--plugin", "größe.py"),
        ("plugins", "--plugin", "größe.py"),
        ("show", "tap"),
        ("info",),
        ("status", "läufe", "--failures"),
        ("table", "läufe"),
        ("table", "läufe", "--format", "latex"),
        ("report", "läufe"),
        ("compare", "läufe"),
        ("show", "δ"),
    ],
    ids=" ".join,
)
def test_a_terminal_without_umlauts_is_no_reason_to_fail(foreign: tuple[Path, Ran], look: tuple[str, ...]) -> None:
    folder, made = foreign
    there = made if look == ("run",) else command(folder, *look, environment=PLAIN)
    there.must_be_printable()
    assert there.out.isascii()
    if look != ("run",):
        assert there.code == command(folder, *look).code
    else:
        assert there.code == 1, there
