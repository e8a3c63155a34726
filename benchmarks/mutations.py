"""Plants the faults of ``mutations.toml`` one at a time, and shows which test catches each.

Every fault goes into a copy of the tree, and the quick tests of the files that it names run there, or a slow one that
it names itself. A fault that none of them notices makes the exit code 1, and so does a test that fails without a
fault. Frozen scores take no part.

    python benchmarks/mutations.py
    python benchmarks/mutations.py --only "dropped noise" --only "a changed default"
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("fieldbench", "plugins", "datasets", "tests", "results", "examples", "benchmarks", "pyproject.toml")


@dataclass(frozen=True)
class Fault:
    """One line made wrong.

    Attributes:
        name: what is wrong.
        file, right, wrong: the place, its text, and the text that takes its place.
        tests: files in ``tests`` that should notice.
    """

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """The file's text with the fault in it.

        Raises:
            SystemExit: if the right text does not stand in it exactly once.
        """
        if text.count(self.right) != 1:
            raise SystemExit(f"{self.name}: {self.right!r} is not in {self.file} once; mend the fault")
        return text.replace(self.right, self.wrong)


def faults() -> list[Fault]:
    """Those of ``mutations.toml``, in its order."""
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["fault"]
    return [Fault(**{**fault, "tests": tuple(fault["tests"])}) for fault in found]


def main() -> int:
    """Plant the faults, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="one of the faults; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="faults at once")
    chosen = parser.parse_args()
    known = faults()
    unknown = set(chosen.only or ()) - {fault.name for fault in known}
    if unknown:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    planted = [fault for fault in known if not chosen.only or fault.name in chosen.only]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        sound = pool.submit(without_fault, sorted({test for fault in planted for test in fault.tests}))
        rows = list(pool.map(caught, planted))
    print(tabulate(rows, ["fault", "planted in", "caught by"], tablefmt="github"))
    alarm = sound.result()
    missed = [row[0] for row in rows if row[2] == "-"]
    print(f"{len(rows) - len(missed)} of {len(rows)} faults are caught; without a fault: {alarm or 'none'}")
    return int(bool(missed or alarm))


def caught(fault: Fault) -> list[str]:
    """A row of the table: the fault, where it was planted, and the first test that fails."""
    with tempfile.TemporaryDirectory(prefix="fieldbench-fault-") as folder:
        copy_tree(Path(folder))
        file = Path(folder) / fault.file
        file.write_text(fault.planted(file.read_text(encoding="utf-8")), encoding="utf-8")
        row = [fault.name, fault.file, failing_test(fault.name, fault.tests, Path(folder)) or "-"]
    print(*row, sep=" | ", file=sys.stderr, flush=True)
    return row


def without_fault(tests: Sequence[str]) -> str | None:
    """The first of all these tests that fails in a sound copy."""
    with tempfile.TemporaryDirectory(prefix="fieldbench-sound-") as folder:
        copy_tree(Path(folder))
        return failing_test("no fault", tests, Path(folder))


def copy_tree(folder: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for part in PARTS:
        source = ROOT / part
        (shutil.copytree(source, folder / part, ignore=ignored) if source.is_dir() else shutil.copy(source, folder))


def failing_test(name: str, tests: Sequence[str], folder: Path) -> str | None:
    """The first test that fails in a copy of the tree, of the quick ones of these files and of those named, or None."""
    files, named = [test for test in tests if "::" not in test], [test for test in tests if "::" in test]
    found = _failing(name, ["-m", "not slow", *files], folder) if files else None
    return found or (_failing(name, named, folder) if named else None)


def _failing(name: str, tests: Sequence[str], folder: Path) -> str | None:
    path = os.pathsep.join(str(folder / part) for part in (".", "plugins", "datasets"))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    ended = subprocess.run(
        command, cwd=folder / "tests", env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    if ended.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) \S*?(\w+\.py)::(\w+)", ended.stdout, re.MULTILINE)
    if ended.returncode != 1 or found is None:  # a file that is not there, say: nothing was tested
        raise SystemExit(f"{name}: the tests themselves went wrong:\n{ended.stdout}{ended.stderr}")
    return f"{found[1]}: {found[2]}"


if __name__ == "__main__":
    sys.exit(main())
