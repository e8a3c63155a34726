"""Completing a file of one's own with hostile methods among the candidates: the best honest one fills it, as ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.hostile.commands import Ran, command
from tests.hostile.method_acts import ENDINGS, HANGS, PATCHES, PROCESSES, RETURNS
from tests.hostile.plugins import FAILS, Act

pytestmark = pytest.mark.hostile

#: Ends of a fit that leave nothing to write.
ENDS = [act for act in (*ENDINGS, *RETURNS) if act.wants == FAILS]


def complete(folder: Path, acts: Sequence[Act], *arguments: str) -> Ran:
    """``fieldbench complete`` on a wave with gaps, with the plugins of some acts at hand."""
    values = np.sin((np.arange(12)[:, np.newaxis] + np.arange(12)) / 4)  # neighbours know more than the mean
    values[np.random.default_rng(1).random((12, 12)) < 0.3] = np.nan
    np.save(folder / "wave.npy", values)
    files = [word for act in acts for word in ("--plugin", str(act.write(folder)))]
    return command(folder, "complete", "wave.npy", *arguments, *files, "--device", "cpu", "--out", "full.npy")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What the honest candidate makes of the wave."""
    folder = tmp_path_factory.mktemp("filled")
    assert complete(folder, [], "--method", "nearest").code == 0
    return np.load(folder / "full.npy")


@pytest.mark.parametrize(
    "acts", [ENDINGS, RETURNS, PATCHES, PROCESSES], ids=["ends", "returns", "patches", "processes"]
)
def test_hostile_candidates_change_nothing(tmp_path: Path, filled: np.ndarray, acts: Sequence[Act]) -> None:
    candidates = ",".join([*(act.spec for act in acts), "nearest"])
    done = complete(tmp_path, acts, "--among", candidates, "--folds", "1", "--budget", "120")
    assert done.code == 0, done
    done.must_be_printable()
    assert "nearest" in done.out + done.err
    np.testing.assert_array_equal(np.load(tmp_path / "full.npy"), filled)


def test_a_candidate_that_hangs_costs_the_budget_at_most(tmp_path: Path, filled: np.ndarray) -> None:
    acts = [act for act in HANGS if act.name in ("loops", "sleeps-deaf", "writes-to-descriptors-and-sleeps")]
    candidates = ",".join(["nearest", *(act.spec for act in acts)])
    done = complete(tmp_path, acts, "--among", candidates, "--folds", "1", "--budget", "6")
    assert done.code == 0, done
    done.must_be_printable()
    np.testing.assert_array_equal(np.load(tmp_path / "full.npy"), filled)


@pytest.mark.parametrize("act", [pytest.param(act, id=str(act)) for act in ENDS[::4]])
def test_a_hostile_method_writes_nothing(tmp_path: Path, act: Act) -> None:
    done = complete(tmp_path, [act], "--method", act.spec, "--budget", "0")
    assert done.code in (1, 2), done
    done.must_be_printable()
    assert done.err.strip()
    assert not (tmp_path / "full.npy").exists()
