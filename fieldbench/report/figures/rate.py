"""Error against sampling rate."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldbench.report.figures import NothingToDraw, View, file_name
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import (
    grid,
    heading,
    name_lines,
    panel_width,
    size_of,
    value_ticks,
    wrapped,
)
from fieldbench.report.figures.style import FLOOR, Shown, error_axis, floor_edge, mean_band, not_finite, trials_of
from fieldbench.report.labels import called
from fieldbench.report.settings import title_of
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a dataset, with a panel for each noise, sampler and selection: the mean of each method with its 95 %
    interval (Student's t) as a band, over a hatched floor where the dataset has one.

    Raises:
        NothingToDraw: if no setting was run at more than one rate.
    """
    styles = looks(run.methods, run.labels, view.colours)
    figures: dict[str, Figure] = {}
    for dataset, settings in groupby(run.settings, key=lambda setting: str(setting.levels["dataset"])):
        several = {what: listed for what, listed in rates_of(run, settings).items() if len(listed) > 1}
        if several:
            figure = _figure(run, dataset, several, styles, view)
            figures[file_name("rate", dataset, figures)] = figure
    if not figures:
        raise NothingToDraw("there is nothing to draw against the rate: every setting has one rate only")
    return figures


def rates_of(run: StoredRun, settings: Iterable[Panel]) -> dict[str, list[Panel]]:
    """Settings of one dataset that differ in their rate only, by what else tells them apart, in words."""
    alike: dict[str, list[Panel]] = {}
    for setting in settings:
        levels = {factor: setting.levels[factor] for factor in ("sampler", "noise", "select")}
        alike.setdefault(title_of(levels, run.frame, run.labels), []).append(setting)
    return alike


def _figure(
    run: StoredRun, dataset: str, several: dict[str, list[Panel]], styles: dict[str, Look], view: View
) -> Figure:
    figure, axes = grid(len(several), view.width, 2.2, 2.2)
    for ax, (what, listed) in zip(axes, several.items(), strict=True):
        ends = _panel(ax, run, listed, styles)
        if len(several) > 1:
            ax.set_title(wrapped(what, panel_width(figure), size_of("axes.title")))
    whole = pd.concat([run.part(setting) for listed in several.values() for setting in listed])
    title = ", ".join(filter(None, [called(dataset, run.labels), *(several if len(several) == 1 else ())]))
    heading(figure, title, [trials_of(whole), *not_finite(whole["score"].dropna())])
    name_lines(axes, ends, styles.values())
    return figure


def _panel(ax: Axes, run: StoredRun, settings: list[Panel], styles: dict[str, Look]) -> dict[str, float]:
    """Draw one panel, and tell where each line ends on the right."""
    parts = {100 * float(setting.levels["rate"]): run.part(setting) for setting in settings}
    shown = Shown()
    for method, look in styles.items():
        samples = {rate: part.loc[part["method"] == method, "score"].dropna() for rate, part in parts.items()}
        shown.add(mean_band(ax, samples, look, len(styles)))
    floors = [run.floor(setting) for setting in settings]
    shown.values += floors
    error_axis(ax, shown)
    if np.isfinite(floors).all():
        floor_edge(ax, list(parts), floors)
        shown.last[FLOOR] = floors[-1]
    value_ticks(ax, {rate: f"{rate:g}" for rate in parts})
    ax.set_xlabel("sampling rate (%)")
    ax.set_ylabel(settings[0].measure)
    return shown.last
