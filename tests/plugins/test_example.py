"""The example of a package from elsewhere passes its own tests against this fieldbench."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_party_plugin"


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="the examples lie beside the tests in a checkout only")
def test_the_example_passes_its_own_tests(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "elsewhere", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    info = tmp_path / "site" / "fieldbench_trend-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fieldbench-trend\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[fieldbench]\ntrend = fieldbench_trend\n")
    path = [str(folder / "src"), str(info.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
