"""What the tests of the trained cartography methods share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Rounding depends on the number of threads, and so small a network is no faster with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def released() -> Path:
    """The file that the methods' authors released; the test is skipped where it is not."""
    file = Path(os.environ.get("FIELDBENCH_DATA", SHARED)) / "deep-sc" / "slf_network.pt"
    if not file.is_file():
        pytest.skip("the released Deep-SC weights are not on this machine")
    return file
