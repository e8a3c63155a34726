"""Error against sampling rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import grid, heading, name_lines, panel_width, size_of, value_ticks, wrapped
from fieldbench.report.figures.style import FLOOR, Shown, error_axis, floor_edge, mean_band, not_finite, trials_of
from fieldbench.report.labels import called
from fieldbench.report.settings import title_of
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a dataset, with a panel for each noise, sampler and selection: the mean of each method with its 95 %
    interval (Student's t) as a band, over a hatched floor where the dataset has one.
    """
    styles = looks(run.methods, run.labels, view.colours)
    for dataset, settings in groupby(run.settings, key=lambda setting: str(setting.levels["dataset"])):
        several = {
            what: listed
            for what, listed in rates_of(run, settings).items()
            if len(listed) > 1 and any(run.part(setting)["score"].notna().any() for setting in listed)
        }
        if several:
            panels = {what: partial(_panel, run, listed, styles) for what, listed in several.items()}
            whole = pd.concat([run.part(setting) for listed in several.values() for setting in listed])
            yield dataset, figure_of_panels(called(dataset, run.labels), panels, whole, styles.values(), view)


def rates_of(run: StoredRun, settings: Iterable[Panel]) -> dict[str, list[Panel]]:
    """Settings of one dataset that differ in their rate only, by what else tells them apart, in words."""
    alike: dict[str, list[Panel]] = {}
    for setting in settings:
        levels = {factor: setting.levels[factor] for factor in ("sampler", "noise", "select")}
        alike.setdefault(title_of(levels, run.frame, run.labels), []).append(setting)
    return alike


def figure_of_panels(
    title: str,
    panels: Mapping[str, Callable[[Axes], dict[str, float]]],
    records: pd.DataFrame,
    looks: Iterable[Look],
    view: View,
) -> Figure:
    """Panels beside one another, each below its own title where there are several.

    Args:
        title: of the figure; that of an only panel follows it.
        panels: by title what draws each, and tells where each of its lines ends on the right.
        records: rows with scores that are shown.
        looks: of the lines.
        view: what is shown.
    """
    figure, axes = grid(len(panels), view.width, 2.2, 2.2)
    for ax, (what, draw_in) in zip(axes, panels.items(), strict=True):
        ends = draw_in(ax)
        if len(panels) > 1:
            ax.set_title(wrapped(what, panel_width(figure), size_of("axes.title")))
    whole = ", ".join(filter(None, [title, *(panels if len(panels) == 1 else ())]))
    heading(figure, whole, [trials_of(records), *not_finite(records["score"].dropna())])
    name_lines(axes, ends, looks)
    return figure


def _panel(run: StoredRun, settings: list[Panel], styles: dict[str, Look], ax: Axes) -> dict[str, float]:
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
