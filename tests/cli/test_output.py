"""Standard output and error that cannot be written to, and folders neither: one line and code 1, or no harm at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOYS = Path(__file__).parents[1] / "toys.py"
FULL = Path("/dev/full")
MAIN = "from fieldbench.cli.main import main; main()"
RUN = [
    "run",
    "--methods",
    "mean",
    "--datasets",
    "wave",
    "--trials",
    "3",
    "--device",
    "cpu",
    "--jobs",
    "1",
    "--out",
    "kept",
]

needs_full = pytest.mark.skipif(not FULL.exists(), reason="/dev/full stands for a full disk, and is not there")


def call(folder: Path, shell: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own, with its streams as the shell says."""
    return subprocess.run(
        ["bash", "-c", f'"$@" {shell}', "bash", sys.executable, "-c", MAIN, *arguments],
        cwd=folder, env={**os.environ, "FIELDBENCH_PLUGINS": str(TOYS), **environment}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    assert call(folder, "", *RUN).returncode == 0
    return folder


@pytest.fixture
def kept(one_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(one_run, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize("shell", ["2>&-", pytest.param("2>/dev/full", marks=needs_full)])
def test_a_run_goes_on_without_standard_error(tmp_path: Path, shell: str) -> None:
    """As when the terminal is closed: the state that nobody sees is not worth the trials."""
    assert call(tmp_path, shell, *RUN).returncode == 0
    assert len((tmp_path / "kept/trials.jsonl").read_text().splitlines()) == 3


def test_closed_standard_output_is_no_error(kept: Path) -> None:
    done = call(kept, ">&-", "table", "kept")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_leaves_the_exit_code_as_it_is(kept: Path) -> None:
    """``fieldbench run ... | head -1`` ends as without the pipe."""
    flaky = [word.replace("mean", "mean,flaky") if word == "mean" else word for word in RUN]
    flaky[flaky.index("kept")] = "other"
    for arguments, code in ((flaky, 1), (("status", "kept"), 0), (("show", "nothing"), 2), (("list",), 0)):
        done = call(kept, '| head -1 > first; exit "${PIPESTATUS[0]}"', *arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@needs_full
def test_a_full_disk_behind_standard_output_is_said_in_one_line(kept: Path) -> None:
    done = call(kept, ">/dev/full", "table", "kept")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["fieldbench: the output: No space left on device"]


def test_a_terminal_without_the_characters_shows_the_table(kept: Path) -> None:
    done = call(kept, "", "table", "kept", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert " ? " in done.stdout  # between mean and standard deviation
