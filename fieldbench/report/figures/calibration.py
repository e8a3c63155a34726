"""Whether intervals hold the truth as often as they promise, and where the truth lies in what was predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import grid, heading, legend
from fieldbench.report.figures.style import FAINT, mean_band, trials_of
from fieldbench.report.statistics import interval
from fieldbench.report.stored import Panel, StoredRun
from fieldbench.scores import PIT_BINS

#: Metrics of coverage, by the probability that they are of.
LEVELS = {0.5: "coverage50", 0.9: "coverage90", 0.95: "coverage95"}


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a setting: mean coverage over trials, and beside it the histogram of probability transforms (PIT).

    Entries of one field are correlated, so that bands are 95 % intervals of the spread between trials. The histogram is
    flat where a distribution is right, high at both ends where it is too sure, and in the middle where it is too
    unsure.
    """
    styles = looks(run.methods, run.labels, view.colours)
    shares: dict[tuple[str, str], list[Sequence[float]]] = defaultdict(list)
    for row in run.rows():
        if pit := _known(row):
            shares[run.setting_of(row).title, row["method"]].append(pit)
    for setting in run.settings:
        part = run.part(setting)
        if part[[name for name in LEVELS.values() if name in part]].notna().any(axis=None):
            transforms = {
                method: shares[setting.title, method] for method in styles if (setting.title, method) in shares
            }
            yield setting.title, _figure(setting, part, transforms, styles, view)


def _known(row: Mapping[str, Any]) -> list[float] | None:
    """The shares that a row has of probability transforms; a damaged row has none."""
    pit = (row.get("diagnostics") or {}).get("pit")
    sound = isinstance(pit, list) and len(pit) == PIT_BINS and all(isinstance(share, int | float) for share in pit)
    return pit if sound else None


def _figure(
    setting: Panel,
    part: pd.DataFrame,
    transforms: Mapping[str, list[Sequence[float]]],
    styles: dict[str, Look],
    view: View,
) -> Figure:
    figure, (coverage, *others) = grid(2 if transforms else 1, view.width, 2.2, 2.4)
    _coverage(coverage, part, styles)
    for ax in others:
        _histogram(ax, transforms, styles)
    there = [name for name in LEVELS.values() if name in part]
    heading(figure, setting.title, [trials_of(part.dropna(subset=there, how="all"))])
    legend(figure, [coverage])
    return figure


def _coverage(ax: Axes, part: pd.DataFrame, styles: dict[str, Look]) -> None:
    """Observed against promised coverage."""
    for method, look in styles.items():
        mine = part[part["method"] == method]
        found = {level: mine[name].dropna() for level, name in LEVELS.items() if name in mine}
        mean_band(ax, found, look, len(styles))
    low = min(0.4, *(float(np.min(line.get_ydata())) for line in ax.lines))
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, zorder=1, label="as promised")
    ax.set_xlim(0.4, 1.0)
    ax.set_ylim(max(0.0, low - 0.05), 1.0)
    ax.set_xticks(list(LEVELS), [f"{100 * level:g}" for level in LEVELS])
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}"))
    ax.set_xlabel("probability of the interval (%)")
    ax.set_ylabel("entries within it (%)")


def _histogram(ax: Axes, transforms: Mapping[str, list[Sequence[float]]], styles: dict[str, Look]) -> None:
    """Densities of probability transforms, mean over trials with 95 % intervals."""
    for method, listed in transforms.items():
        densities = np.array(listed) * len(listed[0])
        edges = np.linspace(0, 1, densities.shape[1] + 1)
        means, look = densities.mean(axis=0), styles[method]
        ax.stairs(means, edges, color=look.colour, label=look.name)
        ax.plot((edges[1:] + edges[:-1]) / 2, means, linestyle="", **look.points)
        ends = np.maximum([interval(column) for column in densities.T], 0).T
        lows, highs = (np.append(end, end[-1]) for end in ends)
        ax.fill_between(edges, lows, highs, step="post", color=look.colour, alpha=0.1, linewidth=0)
    ax.axhline(1, color=FAINT, linewidth=0.8, zorder=1)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("probability given to lower values")
    ax.set_ylabel("density of entries")
