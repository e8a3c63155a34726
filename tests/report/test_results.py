"""The results of a run compare, draw and report themselves in a notebook."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldbench.results import Results

pytest.importorskip("matplotlib", reason="figures come with the extra plots")


def test_results_give_what_the_commands_give(run_folder: Path, tmp_path: Path) -> None:
    results = Results(run_folder)
    compared = results.compare(only={"method": ["learner", "flat"], "rate": [0.4]})
    frame = results.frame().query("rate == 0.4").set_index(["method", "trial"])["rmse"]
    gain = frame["learner"] - frame["flat"]
    (pair,) = compared.groups[0].pairs
    assert (pair.better, pair.difference) == ("flat", pytest.approx(gain.mean()))
    (figure,) = results.plot("rate", only={"method": ["flat"]}).values()
    np.testing.assert_allclose(
        figure.axes[0].lines[0].get_ydata(), results.frame().query("method == 'flat'").groupby("rate")["rmse"].mean()
    )
    slices = results.plot("slices", only={"rate": [0.4]}, axis=2, at=[1])
    assert list(slices) == ["slices-sea-rate-40-trial-0"]
    assert results.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")
