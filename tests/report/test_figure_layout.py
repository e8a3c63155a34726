"""What can be measured of how figures look: text inside and apart, contrast, colours, widths."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fieldbench
from fieldbench import Estimate, reconstructions
from fieldbench.errors import RequestError
from fieldbench.registry import Registry
from fieldbench.report.figures import KINDS, WIDTHS, View, draw
from fieldbench.report.stored import StoredRun
from tests.report.conftest import written_run

pytest.importorskip("matplotlib", reason="figures come with the extra plots")

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.collections import PolyCollection
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


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], StoredRun]:
    """Writes a run of a number of methods that has something to show of every kind but attention."""

    @functools.cache
    def write(count: int) -> StoredRun:
        rng = np.random.default_rng(count)
        stored = written_run(
            tmp_path_factory.mktemp("many") / "run",
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


def faults(figure: Figure, lines: list[Line] | None = None) -> list[str]:
    """What a reader could not read of the lines that a figure shows."""
    width, height = figure.get_size_inches() * figure.dpi
    lines = drawn(figure) if lines is None else lines
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


def joined(lines: list[Line]) -> str:
    """All text of a figure, without breaks."""
    return re.sub(r"\s", "", "".join(line.text for line in lines))


@pytest.mark.parametrize("count", METHODS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "attention"])
def test_all_text_is_inside_apart_and_readable(many: Callable[[int], StoredRun], kind: str, count: int) -> None:
    stored = many(count)
    if count == 1 and kind in ("ranks", "param"):
        with pytest.raises(RequestError):
            draw(stored, kind)
        return
    column, text = WIDTHS.values()
    others = [(column, "talk"), (2.5, "paper"), (11.0, "paper")]
    for width, style in ((column, "paper"), (text, "dark"), *(others if count == 7 else [])):
        figure = next(iter(draw(stored, kind, View(width, style, most=1)).values()))
        lines = drawn(figure)
        assert faults(figure, lines) == [], f"{width}, {style}"
        assert figure.get_figwidth() == width
        if kind != "param":
            text = joined(lines)
            assert [method for method in METHODS[count] if method not in text] == []


def test_an_attention_map_fits(stored: StoredRun) -> None:
    chosen = StoredRun(stored.path, stored.sources, {"rate": ["0.4"]})
    for width in WIDTHS.values():
        (figure,) = draw(chosen, "attention", View(width)).values()
        assert faults(figure) == []


def test_a_colour_belongs_to_a_name_whatever_else_is_drawn(many: Callable[[int], StoredRun]) -> None:
    from fieldbench.report.figures.colours import looks

    every = [*METHODS[25], *METHODS[7], "yours", "ours[a=1]"]
    alone = {method: looks([method])[method].colour for method in every}
    rng = np.random.default_rng(0)
    for _ in range(20):
        some = [every[index] for index in rng.permutation(len(every))[: rng.integers(2, len(every))]]
        assert {method: look.colour for method, look in looks(some).items()} == {name: alone[name] for name in some}
    stored = many(7)
    part = StoredRun(stored.path, only={"method": ["tap[epochs=200]", "mine"]})
    lines = [
        {line.get_label(): line.get_color() for line in figure.axes[0].lines}
        for run in (stored, part)
        for figure in draw(run, "rate").values()
    ]
    for method in ("tap[epochs=200]", "mine"):
        assert lines[0][method] == lines[1][method] == alone[method]


def test_the_colours_of_families() -> None:
    """Hues in degrees of HSV: what shares a family is close, baselines have none."""
    from matplotlib.colors import rgb_to_hsv

    from fieldbench.report.figures.colours import FAMILIES, looks

    known = [method for _, members in FAMILIES for method in members]
    assert len(set(known)) == len(known)
    assert set(known) <= set(Registry().entries("method"))
    colours = looks([*known, "tap[epochs=200]", "rbf+tuned", "idw[power=2.0]"])
    hsv = {method: rgb_to_hsv(to_rgb(look.colour)) for method, look in colours.items()}
    for method in ("nearest", "linear", "idw", "idw[power=2.0]"):
        assert hsv[method][1] < 0.02, method
    for one, other in (("tap", "tnn"), ("tap", "tap[epochs=200]"), ("thin-plate", "rbf"), ("rbf", "rbf+tuned")):
        apart = abs(hsv[one][0] - hsv[other][0])
        assert min(apart, 1 - apart) < 0.08, (one, other)
    assert len({look.colour for look in colours.values()}) == len(colours)


def test_two_of_one_colour_have_different_markers_or_dashes() -> None:
    from fieldbench.report.figures.colours import looks

    names = [f"method-{number}" for number in range(300)]
    found = looks(names)
    assert len({(look.colour, look.marker, look.filled, look.dash) for look in found.values()}) == len(names)


def test_a_chosen_colour_is_for_a_method_that_is_drawn(many: Callable[[int], StoredRun]) -> None:
    stored = many(7)
    (figure,) = draw(stored, "rate", View(colours={"nearest": "black", "idw": "#d55e00"})).values()
    colours = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
    assert (colours["nearest"], colours["idw[power=1.0]"], colours["idw[power=2.0]"]) == ("#000000", *["#d55e00"] * 2)


def test_a_figure_that_no_page_holds_is_refused(many: Callable[[int], StoredRun]) -> None:
    stored = many(1)
    for width in (0.0, -1.0, 1e9, float("nan")):
        with pytest.raises(RequestError, match=r"inches wide; choose 2\.5 to 40"):
            draw(stored, "rate", View(width))


def test_threads_draw_in_their_own_styles(many: Callable[[int], StoredRun]) -> None:
    """The live page draws while a notebook does."""
    stored = many(1)
    styles = ["paper", "dark", "talk"] * 4
    with ThreadPoolExecutor(3) as threads:
        drawing = threads.map(lambda style: next(iter(draw(stored, "rate", View(style=style)).values())), styles)
        sizes = {"paper": 8, "dark": 8, "talk": pytest.approx(11.2)}
        for style, figure in zip(styles, drawing, strict=True):
            assert figure.axes[0].xaxis.label.get_size() == sizes[style]
            assert (max(figure.get_facecolor()[:3]) < 0.2) == (style == "dark")


@pytest.mark.parametrize("count", METHODS)
def test_bands_leave_the_lines_to_be_seen(many: Callable[[int], StoredRun], count: int) -> None:
    """Where all bands lie over one another, no more than half of what is behind them is hidden, and no line is."""
    (figure,) = draw(many(count), "rate").values()
    for ax in figure.axes:
        fills = [item for item in ax.collections if isinstance(item, PolyCollection)]
        assert len(fills) == count
        assert np.prod([1 - item.get_facecolor()[0][3] for item in fills]) > 0.5
        assert max(item.get_zorder() for item in ax.collections) < min(line.get_zorder() for line in ax.lines)
    assert "mean of 3 trials; band: 95 % interval of the mean" in figure.get_suptitle().replace("\n", " ")


def test_unobserved_entries_have_a_colour_of_no_map() -> None:
    """Distances in CIELAB, of which one that can just be seen is about 2."""
    from fieldbench.report.figures.pictures import UNOBSERVED, deviation_colours, error_colours, scale_of

    values = np.array([[-1.0, 2.0]])
    axes = (fieldbench.Axis.regular("x", 1), fieldbench.Axis.regular("y", 2))
    fields = [
        fieldbench.Field(values, axes),
        fieldbench.Field(values + 5, axes),
        fieldbench.Field(values, axes, quantity="sound speed anomaly"),
        fieldbench.Field(values + 1500, axes, quantity="sound speed"),
        fieldbench.Field(values + 2, axes, quantity="power", log_floor=1e-9),
    ]
    for colours in (error_colours(), deviation_colours(), *(scale_of(field).colours for field in fields)):
        used = lab(colours(np.linspace(0, 1, 512))[:, :3])
        for part in ("facecolor", "edgecolor"):
            assert np.linalg.norm(used - lab(to_rgb(UNOBSERVED[part])), axis=1).min() > 12, (colours.name, part)


def test_heads_of_slices_break_no_word(many: Callable[[int], StoredRun]) -> None:
    stored = many(7)
    for width, style in itertools.product(WIDTHS.values(), ("paper", "talk")):
        figure = next(iter(draw(stored, "slices", View(width, style, most=1)).values()))
        lines = [line for ax in figure.axes for line in ax.get_title().split("\n")]
        assert {"truth", "observation", "nearest", "mine", "rbf"} <= set(lines), (width, style)
        assert any(line.endswith("power=1.0]") for line in lines), (width, style)


def test_pictures_of_slices_have_equal_gaps(many: Callable[[int], StoredRun]) -> None:
    figure = next(iter(draw(many(7), "slices", View(most=1)).values()))
    boxes = [ax.get_position() for ax in figure.axes if ax.images]
    width, height = figure.get_size_inches()
    lefts = np.unique(np.round([box.x0 * width for box in boxes], 6))
    assert len(lefts) > 3
    assert np.ptp(np.diff(lefts)) < 1e-5
    right = max(box.x1 * width for box in boxes)
    assert right < width
    first = sorted({round(box.y0 * height, 6) for box in boxes if round(box.x0 * width, 6) == lefts[2]}, reverse=True)
    assert first[0] - first[1] == pytest.approx((boxes[0].y1 - boxes[0].y0) * height + (lefts[1] - boxes[0].x1 * width))


# How the colours look to readers who lack one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1).
SIGHTS = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}

#: Distance in CIELAB at which two colours are told apart at a glance; about 2 can just be seen side by side.
APART = 12


def linear(rgb: Any) -> np.ndarray:
    """What a screen sends of red, green and blue."""
    rgb = np.asarray(rgb, float)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: Any, sight: str = "all cones") -> np.ndarray:
    """Colours in CIELAB as a reader sees them, shape (..., 3)."""
    seen = np.clip(linear(rgb) @ np.array(SIGHTS[sight]).T, 0, 1)
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = seen @ matrix.T / [0.9505, 1, 1.089]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)


def test_colours_are_seen_as_published() -> None:
    """White, red and blue in CIELAB; pure red and a dark green are alike without the cones for red."""
    expected = [[100, 0, 0], [53.2, 80.1, 67.2], [32.3, 79.2, -107.9]]
    np.testing.assert_allclose(lab([[1, 1, 1], [1, 0, 0], [0, 0, 1]]), expected, atol=0.1)
    for sight in SIGHTS:
        np.testing.assert_allclose(lab([0.5, 0.5, 0.5], sight), lab([0.5, 0.5, 0.5]), atol=0.1)  # grey stays
    red, green = [0.8, 0.2, 0.1], [0.45, 0.42, 0.1]
    assert np.linalg.norm(lab(red) - lab(green)) > 50
    assert np.linalg.norm(lab(red, "deuteranopia") - lab(green, "deuteranopia")) < 25


@pytest.mark.parametrize("count", METHODS)
@pytest.mark.parametrize("style", ["paper", "dark"])
def test_every_reader_tells_methods_apart_by_colour_or_by_marker_and_dash(count: int, style: str) -> None:
    from fieldbench.report.figures.colours import FAMILIES, looks
    from fieldbench.report.figures.style import printing

    built_in = [method for _, members in FAMILIES for method in members]
    with printing(style):
        for names in (METHODS[count], built_in, [f"method-{number}" for number in range(count)]):
            found = list(looks(names).values())
            for sight, (one, other) in itertools.product(SIGHTS, itertools.combinations(found, 2)):
                distance = np.linalg.norm(lab(to_rgb(one.colour), sight) - lab(to_rgb(other.colour), sight))
                alike = (one.marker, one.filled, one.dash) == (other.marker, other.filled, other.dash)
                assert distance > APART or not alike, (sight, one, other)
            forms = {(look.marker, look.filled) for look in found}
            assert len(forms) == min(len(found), 24)  # points have no dash


def test_every_reader_tells_the_hues_of_families_apart() -> None:
    """The first methods of the families, which stand in most figures, by colour alone to readers with all cones."""
    from fieldbench.report.figures.colours import FAMILIES, looks

    firsts = looks([members[0] for _, members in FAMILIES])
    for one, other in itertools.combinations(firsts.values(), 2):
        assert np.linalg.norm(lab(to_rgb(one.colour)) - lab(to_rgb(other.colour))) > APART, (one, other)


@pytest.mark.parametrize("sight", SIGHTS)
def test_every_reader_tells_too_much_from_too_little_in_errors(sight: str) -> None:
    """Errors of one size and either sign, from a quarter of the scale on; and the sizes one from another."""
    from fieldbench.report.figures.pictures import error_colours

    sizes = np.array([0.25, 0.5, 0.75, 1.0])
    above, below = (lab(error_colours()(0.5 + sign * sizes / 2)[:, :3], sight) for sign in (1, -1))
    assert np.linalg.norm(above - below, axis=1).min() > APART
    zero = lab(error_colours()(0.5)[:3], sight)
    for side in (above, below):
        steps = np.linalg.norm(np.diff(np.vstack([zero, side]), axis=0), axis=1)
        assert steps.min() > APART / 2
        assert (np.diff([zero[0], *side[:, 0]]) < 0).all()  # darker, the larger
