"""Mutation proof: plants known faults one at a time, and shows what catches each.

Every fault goes into a copy of the tree. There the tests that stand nearest to it run, and the regression check
of a method that it touches, on the part of the small matrix in ``mutations.toml``, against
``results/regression/small.csv``. A fault that neither notices makes the exit code 1, and so does an alarm without
a fault.

    python benchmarks/mutations.py
    python benchmarks/mutations.py --only "dropped noise" --only "changed default"
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("fieldbench", "plugins", "datasets", "tests", "results", "pyproject.toml")

TRIAL, SENSING, METRIC = "fieldbench/judging.py", "fieldbench/sampler.py", "fieldbench/metric.py"
FIELDFORMER = "plugins/fieldbench_methods/fieldformer"


@dataclass(frozen=True)
class Fault:
    """One line made wrong.

    Attributes:
        name: what is wrong.
        file, right, wrong: the place, its text, and the text that takes its place.
        tests: those nearest to it.
        methods: what the regression check runs.
    """

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]
    methods: str


FAULTS = (
    Fault("none", TRIAL, "", "", ("test_judging.py", "test_metric.py"), "nearest"),
    Fault(
        "reversed mask", TRIAL,
        "mask = draw_mask(", "mask = ~draw_mask(",
        ("test_judging.py",), "nearest",
    ),
    Fault(
        "leaked truth", TRIAL,
        "recorder.choose(checked(estimate, item.field))",
        "recorder.choose(np.where(item.mask, item.field.values, checked(estimate, item.field)))",
        ("test_judging.py",), "nearest",
    ),
    Fault(
        "dropped noise", TRIAL,
        "observe(truth, mask, noise)", "observe(truth, mask, 0 * noise)",
        ("test_judging.py",), "nearest",
    ),
    Fault(
        "wrong axis order", "plugins/fieldbench_methods/lrtc/solve.py",
        "np.moveaxis(shrunk.reshape(first.shape), 0, mode)", "shrunk.reshape(first.shape).swapaxes(0, mode)",
        ("methods/test_lrtc.py",), "lrtc[variant=silrtc,iterations=40]",
    ),
    Fault(
        "metric over the wrong entries", METRIC,
        '".unobserved": valid & ~mask', '".unobserved": valid & mask',
        ("test_metric.py", "test_judging.py"), "nearest",
    ),
    Fault(
        "dropout left on", f"{FIELDFORMER}/engine.py",
        "training = step is not None and probability > 0", "training = probability > 0",
        ("methods/test_engine.py",), "tap",
    ),
    Fault(
        "off by one in tensorize", f"{FIELDFORMER}/geometry.py",
        "return [digit * count for digit", "return [digit * count - (digit > 0) for digit",
        ("methods/test_fieldformer.py", "methods/test_engine.py"), "tap",
    ),
    Fault(
        "unpaired seed", TRIAL,
        "pattern = (*place, cell.sampler", "pattern = (*place, cell.method, cell.sampler",
        ("test_judging.py",), "nearest",
    ),
    Fault(
        "changed default", f"{FIELDFORMER}/methods.py",
        "\n    dropout: float = parameter(0.3,", "\n    dropout: float = parameter(0.1,",
        ("methods/test_fieldformer.py",), "tap",
    ),
)  # fmt: skip


def main() -> int:
    """Plant the faults, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=[fault.name for fault in FAULTS], help="one of the faults")
    parser.add_argument("--skip-suite", action="store_true", help="the regression check alone")
    chosen = parser.parse_args()
    faults = [fault for fault in FAULTS if not chosen.only or fault.name in chosen.only]
    rows, unnoticed = [], False
    for fault in faults:
        with tempfile.TemporaryDirectory(prefix="fieldbench-fault-") as folder:
            plant(fault, Path(folder))
            suite = None if chosen.skip_suite else failing_test(fault, Path(folder))
            check = alarm(fault, Path(folder))
        rows.append([fault.name, fault.file, suite or "-", check or "-"])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
        noticed = bool(suite or check)
        unnoticed = unnoticed or noticed == (fault.name == "none")
    print(tabulate(rows, ["fault", "planted in", "caught by the test", "caught by the regression check"]))
    return int(unnoticed)


def plant(fault: Fault, folder: Path) -> None:
    """A copy of the tree with the fault in it."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for part in PARTS:
        source = ROOT / part
        (shutil.copytree(source, folder / part, ignore=ignored) if source.is_dir() else shutil.copy(source, folder))
    file = folder / fault.file
    text = file.read_text(encoding="utf-8")
    if fault.right:
        if text.count(fault.right) != 1:
            raise SystemExit(f"{fault.name}: {fault.right!r} is not in {fault.file} once; mend the fault")
        file.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")


def failing_test(fault: Fault, folder: Path) -> str | None:
    """The first test that fails in the copy, or None."""
    tests = [str(folder / "tests" / test) for test in fault.tests]
    ended = call(folder, "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *tests)
    if ended.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) \S*?(\w+\.py)::(\w+)", ended.stdout, re.MULTILINE)
    if ended.returncode != 1 or found is None:  # a file that is not there, say: nothing was tested
        raise SystemExit(f"{fault.name}: the tests themselves went wrong:\n{ended.stdout}{ended.stderr}")
    return f"{found[1]}: {found[2]}"


def alarm(fault: Fault, folder: Path) -> str | None:
    """The first line of the regression check's table, or None."""
    reference = folder / "results" / "regression" / "small.csv"
    suite = Path(__file__).with_suffix(".toml")
    arguments = ["--suite", str(suite), "--methods", fault.methods, "--against", str(reference)]
    arguments += ["--jobs", "1", "--out", str(folder / "run")]
    ended = call(folder, "fieldbench.regression", *arguments)
    if ended.returncode == 0:
        return None
    lines = ended.stdout.splitlines()
    rule = next((number for number, line in enumerate(lines) if line.startswith("---")), None)
    if ended.returncode != 1 or rule is None:
        raise SystemExit(f"{fault.name}: the check itself went wrong:\n{ended.stdout}{ended.stderr}")
    return re.sub(r"\s{2,}", ", ", lines[rule + 1].strip())


def call(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module on the copy's packages."""
    path = os.pathsep.join(str(folder / part) for part in (".", "plugins", "datasets"))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1800
    )


if __name__ == "__main__":
    sys.exit(main())
