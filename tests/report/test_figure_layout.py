"""What can be measured of how figures look: text inside and apart, contrast, colours, widths."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fieldbench
from fieldbench import Estimate, reconstructions
from fieldbench.errors import RequestError
from fieldbench.report.figures import KINDS, WIDTHS, View, draw
from fieldbench.report.stored import StoredRun

pytest.importorskip("matplotlib", reason="figures come with the extra plots")

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

#: One, some and many methods, a stranger's with a long name and one of several parts among them.
METHODS = {
    1: ["idw[power=2.0]"],
    7: [
        "idw[power=1.0]",
        "idw[power=2.0]",
        "nearest",
        "tap[epochs=200]",
        "tap[epochs=200]+tv[weight=0.1]",
        "mine",
        "rbf",
    ],
    25: [
        *(f"idw[power={power},neighbours={count}]" for power in (1.0, 1.5, 2.0, 3.0) for count in (4, 8, 16, 32, 64)),
        *("nearest", "thin-plate", "tap[epochs=200,window=4x4x4]+tv[weight=0.1]+conformal[folds=5]"),
        *("a-method-of-a-stranger-with-a-long-name", "tnn"),
    ],
}


@pytest.fixture
def many(write_run: Callable[..., StoredRun]) -> Callable[[int], StoredRun]:
    """Writes a run of so many methods that has something to show of every kind but attention."""

    def write(count: int) -> StoredRun:
        rng = np.random.default_rng(count)
        stored = write_run(
            *(
                {
                    "method": method,
                    "noise": noise,
                    "rate": rate,
                    "trial": trial,
                    "seconds": float(rng.lognormal(number % 5)),
                    "machine": "m",
                    "slots": 1,
                    "timed": "alone",
                    "metrics": {"rmse": (error := float((1 + number % 4) * rng.lognormal(0, 0.1) * 0.2 / rate))}
                    | {f"coverage{level}": float(rng.uniform(0.8, 1) * level / 100) for level in (50, 90, 95)},
                    "diagnostics": {
                        "pit": rng.dirichlet(np.ones(10)).tolist(),
                        "curve": {"step": [0, 100], "rmse": [2 * error, error], "support": [1.0, 0.5]},
                    },
                }
                for number, method in enumerate(METHODS[count])
                for noise, rate, trial in itertools.product(("none", "gaussian[sigma=0.1]"), (0.05, 0.2), range(3))
            ),
            order=METHODS[count],
            units={"sea": "m/s"},
            with_unit=["rmse"],
        )
        _keep_fields(stored)
        return stored

    return write


def _keep_fields(stored: StoredRun) -> None:
    values = np.random.default_rng(0).standard_normal((6, 5, 4))
    axes = (
        fieldbench.Axis.regular("x", 6, 80.0, "km"),
        fieldbench.Axis.regular("y", 5, 80.0, "km"),
        fieldbench.Axis.regular("depth", 4, 100.0, "m"),
    )
    truth = fieldbench.Field(values, axes, unit="m/s", quantity="sound speed anomaly")
    mask = np.arange(values.size).reshape(values.shape) % 3 == 0
    observation = fieldbench.Observation(np.where(mask, values, np.nan), mask, axes)
    for row in stored.rows():
        if row["trial"] == 0 and row["rate"] == 0.05:
            made = Estimate(values + 0.25, np.full(values.shape, 0.2))
            kept = reconstructions.Reconstruction(truth, observation, made)
            reconstructions.save(stored.path / "fields", row["key"], kept)


@dataclass
class Line:
    """One line of text as it was drawn, its box in pixels from the lower left."""

    text: str
    left: float
    bottom: float
    right: float
    top: float
    colour: tuple[float, ...]


class Recording(RendererAgg):
    """Draws, and remembers every line of text."""

    def __init__(self, figure: Figure) -> None:
        super().__init__(*(figure.get_size_inches() * figure.dpi), figure.dpi)
        self.lines: list[Line] = []

    def draw_text(
        self, gc: Any, x: Any, y: Any, s: str, prop: Any, angle: Any, ismath: Any = False, mtext: Any = None
    ) -> None:
        width, height, descent = self.get_text_width_height_descent(s, prop, ismath)
        y = self.height - y
        upright = angle == 0
        left, bottom = (x, y - descent) if upright else (x - height + descent, y)
        across, up = (width, height) if upright else (height, width)
        if s.strip():
            self.lines.append(Line(s, left, bottom, left + across, bottom + up, gc.get_rgb()[:3]))
        super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)


def drawn(figure: Figure) -> list[Line]:
    """Every line of text that the figure shows."""
    recording = Recording(figure)
    figure.draw(recording)
    return recording.lines


def contrast(one: Any, other: Any) -> float:
    """As the Web Content Accessibility Guidelines 2.1 define it."""
    light = []
    for colour in (one, other):
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


def faults(figure: Figure) -> list[str]:
    """What a reader could not read."""
    width, height = figure.get_size_inches() * figure.dpi
    lines = drawn(figure)
    found = [
        f"{line.text!r} is outside"
        for line in lines
        if line.left < -1 or line.bottom < -1 or line.right > width + 1 or line.top > height + 1
    ]
    for one, other in itertools.combinations(lines, 2):
        across = min(one.right, other.right) - max(one.left, other.left)
        down = min(one.top, other.top) - max(one.bottom, other.bottom)
        if across > 1 and down > 3:  # the letters' tails may touch
            found.append(f"{one.text!r} lies over {other.text!r}")
    ground = figure.get_facecolor()
    return found + [f"{line.text!r} is pale" for line in lines if contrast(line.colour, ground) < 4.5]


def shown(figure: Figure) -> str:
    """All text of a figure, without breaks."""
    return re.sub(r"\s", "", "".join(line.text for line in drawn(figure)))


@pytest.mark.parametrize("count", METHODS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "attention"])
def test_all_text_is_inside_apart_and_readable(many: Callable[[int], StoredRun], kind: str, count: int) -> None:
    stored = many(count)
    if count == 1 and kind in ("ranks", "param"):
        with pytest.raises(RequestError):
            draw(stored, kind)
        return
    for width, style in (("column", "paper"), ("text", "dark"), *([("column", "talk")] if count == 7 else [])):
        figure = next(iter(draw(stored, kind, View(WIDTHS[width], style, most=1)).values()))
        assert faults(figure) == [], f"{width}, {style}"
        assert figure.get_figwidth() == WIDTHS[width]
        if kind != "param":
            text = shown(figure)
            assert [method for method in METHODS[count] if method not in text] == []
