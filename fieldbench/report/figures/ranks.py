"""Mean ranks over settings with critical differences (Demsar 2006)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldbench.report.comparison import Ranks, compare
from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks, readable
from fieldbench.report.figures.layout import LEADING, POINT, apart, heading, height_of, size_of, width_of, wrapped
from fieldbench.report.figures.style import ink, scale
from fieldbench.report.statistics import CONFIDENCE
from fieldbench.report.stored import StoredRun


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """The critical-difference diagram: methods at their mean rank over all settings, and a bar across those that
    Nemenyi's test at 5 % does not tell apart.
    """
    if len(run.methods) > 2 and (ranks := compare(run.frame, run.metadata).ranks()).settings > 1:
        yield "", _figure(ranks, looks(run.methods, run.labels, view.colours), view)


def critical_difference(methods: int, settings: int) -> float:
    """The least difference of two mean ranks that chance does not explain at 5 % (Nemenyi's test).

    >>> round(critical_difference(4, 14), 2)  # Demsar 2006, section 3.2.2
    1.25
    """
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(CONFIDENCE, methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * settings))


def alike(means: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """The longest stretches of rising means that are no further apart than a difference: first and last of each.

    >>> alike([1.0, 2.0, 2.5, 4.0, 9.0], 1.5)
    [(0, 2), (2, 3)]
    """
    reach = [max(last for last, other in enumerate(means) if other - mean <= difference + 1e-12) for mean in means]
    longest = (first for first in range(len(means)) if first == 0 or reach[first] > reach[first - 1])
    return [(first, reach[first]) for first in longest if reach[first] > first]


def _figure(ranks: Ranks, styles: dict[str, Look], view: View) -> Figure:
    """Draw in inches: the axis at height 0, bars and names below it."""
    points = size_of("legend")
    line, bar = points * POINT * LEADING, 0.085 * scale()
    texts, side = _texts(ranks, styles, points, 0.34 * view.width)
    half = -(-len(texts) // 2)
    columns = texts[:half], texts[half:][::-1]
    difference = critical_difference(len(texts), ranks.settings)
    bars = alike(ranks.means, difference)
    above, crowd = 3.2 * line, bar * (len(bars) + 1) + 0.1 * scale()
    below = crowd + max(height_of("\n".join(column), points) for column in columns) + 0.06
    figure = Figure(figsize=(view.width, above + below))
    heading(figure, f"mean rank over {ranks.settings} settings, 1 is best", _notes(ranks, bool(bars)))
    ax = figure.add_axes(
        (0, 0, 1, (above + below) / figure.get_figheight()), xlim=(0, view.width), ylim=(-below, above)
    )
    ax.set_axis_off()
    left, right, count = side, view.width - side, len(texts)

    def at(rank: float) -> float:
        return left + (rank - 1) / (count - 1) * (right - left)

    _axis(ax, at, count, difference, points)
    apart_by = min(0.05 * scale(), (right - left) / count)
    fanned = apart(list(map(at, ranks.means)), [apart_by] * count, left, right)
    for number, (first, last) in enumerate(bars):
        ends = [fanned[first] - 0.04, fanned[last] + 0.04]
        ax.plot(ends, [-bar * (number + 1)] * 2, color=ink(), linewidth=2 * scale(), solid_capstyle="butt", zorder=4)
    depths = [_depths(column, crowd, points) for column in columns]
    for number, (method, mean) in enumerate(zip(ranks.methods, ranks.means, strict=True)):
        on_left = number < half
        depth = depths[0][number] if on_left else depths[1][count - 1 - number]
        edge = left - 0.1 if on_left else right + 0.1
        across = [at(mean), fanned[number], fanned[number], edge]
        look = styles[method]
        ax.plot(across, [0, -0.06 * scale(), depth, depth], color=look.colour, linewidth=0.7 * scale(), zorder=3)
        where = edge + (-0.04 if on_left else 0.04)
        ax.text(where, depth, texts[number], color=readable(look.colour), fontsize=points, va="center",
                ha="right" if on_left else "left")  # fmt: skip
    return figure


def _texts(ranks: Ranks, styles: dict[str, Look], points: float, room: float) -> tuple[list[str], float]:
    """Names with their ranks, the rank on the side of the axis, and the inches that the widest takes with its line."""
    half = -(-len(ranks.methods) // 2)
    texts = []
    for number, (method, mean) in enumerate(zip(ranks.methods, ranks.means, strict=True)):
        name = styles[method].name
        texts.append(wrapped(f"{name} {mean:.2f}" if number < half else f"{mean:.2f} {name}", room, points))
    return texts, max(width_of(text, points) for text in [*texts, "CD = 00.00"]) + 0.24


def _depths(texts: list[str], start: float, points: float) -> list[float]:
    """Heights of the middles of texts that stand below one another."""
    heights = [height_of(text, points) for text in texts]
    return [-(start + sum(heights[:number]) + height / 2) for number, height in enumerate(heights)]


def _axis(ax: Axes, at: Callable[[float], float], count: int, difference: float, points: float) -> None:
    """The axis of ranks with its ticks, and above it a bar as long as the critical difference."""
    tick, line, left = 0.05 * scale(), points * POINT * LEADING, at(1)
    ax.plot([left, at(count)], [0, 0], color=ink(), linewidth=0.8, solid_capstyle="projecting")
    apart_by = (width_of(str(count), points) + 0.06) / (at(2) - at(1))
    for rank in range(1, count + 1):
        position = at(rank)
        ax.plot([position, position], [0, tick], color=ink(), linewidth=0.6)
        if (rank - 1) % math.ceil(apart_by) == 0:
            ax.text(position, tick + 0.02, str(rank), ha="center", va="bottom", fontsize=points)
    height, end = 2.4 * line, at(min(1 + difference, count))
    ax.plot([left, end], [height, height], color=ink(), linewidth=0.8)
    for position in (left, end):
        if position == left or 1 + difference <= count:  # a bar that is longer than the axis goes on
            ax.plot([position, position], [height - tick / 2, height + tick / 2], color=ink(), linewidth=0.8)
        else:
            ax.plot(position, height, ">", color=ink(), markersize=3 * scale(), clip_on=False)
    ax.text(left - 0.08, height, f"CD = {difference:.2f}", ha="right", va="center", fontsize=points)


def _notes(ranks: Ranks, bars: bool) -> list[str]:
    friedman = ranks.test.removeprefix("; ").replace("= <", "<")
    meaning = "a bar joins methods closer than the critical difference CD (Nemenyi's test at 5 %)"
    return [friedman, meaning if bars else "all are further apart than the critical difference CD (Nemenyi, 5 %)"]
