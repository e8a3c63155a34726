"""What a run shows while it works: a mean a setting, whole numbers, no more lines than the terminal has."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

from fieldbench.cli.display import Lines, LiveDisplay
from fieldbench.cli.terminal import plain_console
from fieldbench.execution import Stop
from fieldbench.plan import Plan, Request
from fieldbench.progress import Progress
from fieldbench.registry import Registry, Sources


def progress(methods: int, rates: list[float]) -> Progress:
    """A run half way, each method at each rate with scores around ten times the rate."""
    specs = [f"idw[neighbours={number + 1},power={number + 2}.5]" for number in range(methods)]
    plan = Plan(Request(methods=specs, datasets="ssf-synthetic", rates=rates, trials=4), Registry(Sources()))
    made = Progress(dict.fromkeys(plan.cells, 4), {"ssf-synthetic": "rmse"})
    rng = np.random.default_rng(0)
    for trial in plan:
        if trial.number < 2:
            score = 10 * trial.cell.rate + rng.normal(0, 0.01)
            made.add(trial.cell, "ok", {"rmse": score}, 0.1)
    return made


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("methods", [1, 20])
def test_the_live_display_fits_and_breaks_no_number(methods: int, width: int) -> None:
    state = progress(methods, [0.1, 0.2, 0.4])
    stream = io.StringIO()
    console = plain_console(file=stream, force_terminal=True, width=width, height=24, color_system=None)
    shown = LiveDisplay(console, Stop())
    shown.start(state)
    shown.close()
    lines = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", stream.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    counted = [line for line in lines if line.rstrip().endswith("2 trials")]
    assert counted
    assert all(re.search(r" \d\.\d+ +2 trials *$", line) for line in counted)
    text = " ".join(lines)
    if methods == 1:
        for rate, cell in zip((0.1, 0.2, 0.4), state.means().values(), strict=True):
            assert f"{100 * rate:g} %" in text
            assert cell.mean == pytest.approx(10 * rate, abs=0.05)
    else:
        assert "more means, which changed before these" in text


def test_plain_lines_name_the_rate_of_each_mean(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(every=0.0)
    state = progress(1, [0.1, 0.4])
    lines.start(state)
    (line,) = capsys.readouterr().err.splitlines()
    found = dict(re.findall(r"on ssf-synthetic, (\d+ %): rmse (\d\.\d+)", line))
    assert {rate: round(float(mean)) for rate, mean in found.items()} == {"10 %": 1, "40 %": 4}
