"""What the dataset tests share: the real data files, where they are on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def data_folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``ssf/data.mat``, also named by FIELDBENCH_DATA; the test is skipped without one."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    for folder in (os.environ.get("FIELDBENCH_DATA"), beside):
        if folder and (Path(folder) / "ssf" / "data.mat").is_file():
            monkeypatch.setenv("FIELDBENCH_DATA", str(folder))
            return Path(folder)
    pytest.skip("no ssf/data.mat in FIELDBENCH_DATA, nor in a folder `shared/data` beside the repository")
