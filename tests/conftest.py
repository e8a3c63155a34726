"""Data that tests may use: what FIELDBENCH_DATA names, or a folder ``shared/data`` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"

if BESIDE.is_dir():
    os.environ.setdefault("FIELDBENCH_DATA", str(BESIDE))
