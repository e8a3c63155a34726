"""Error against sampling rate."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldbench.errors import RequestError
from fieldbench.report.figures import View, file_name
from fieldbench.report.figures.style import (
    Look,
    error_axis,
    floor_edge,
    grid,
    legend,
    looks,
    mean_band,
    not_finite,
    wrapped,
)
from fieldbench.report.settings import ORDINARY
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a dataset, with a panel for each noise, sampler and selection: the mean of each method
    with its 95 % interval (Student's t) as a band.

    Raises:
        RequestError: if no setting was run at more than one rate.
    """
    styles = looks(run.methods)
    figures: dict[str, Figure] = {}
    for dataset, settings in groupby(run.settings, key=lambda setting: str(setting.levels["dataset"])):
        panels: dict[tuple[str, ...], list[Panel]] = {}
        for setting in settings:
            panels.setdefault(_but_rate(setting), []).append(setting)
        several = {key: listed for key, listed in panels.items() if len(listed) > 1}
        if not several:
            continue
        figure, axes = grid(len(several), width=2.6 if len(several) > 1 else 3.5, height=2.5)
        for ax, (key, listed) in zip(axes, several.items(), strict=True):
            _panel(ax, run, listed, styles)
            scores = np.concatenate([run.part(setting)["score"].dropna() for setting in listed])
            ax.set_title(wrapped(", ".join([dataset, *key]), 2.6) + not_finite(scores))
        legend(figure, axes)
        figure.set_label(dataset)
        figures[file_name("rate", dataset, figures)] = figure
    if not figures:
        raise RequestError("there is nothing to draw against the rate: every setting has one rate only")
    return figures


def _but_rate(setting: Panel) -> tuple[str, ...]:
    return tuple(
        str(setting.levels[factor])
        for factor in ("sampler", "noise", "select")
        if str(setting.levels[factor]) != ORDINARY.get(factor)
    )


def _panel(ax: Axes, run: StoredRun, settings: list[Panel], styles: dict[str, Look]) -> None:
    parts = [(float(setting.levels["rate"]), run.part(setting)) for setting in settings]
    shown: list[float] = []
    for method, look in styles.items():
        scores = {100 * rate: part.loc[part["method"] == method, "score"].dropna().to_numpy() for rate, part in parts}
        scored = {rate: values for rate, values in scores.items() if len(values)}
        if scored:
            shown += mean_band(ax, list(scored), list(scored.values()), look, look.marker)
    floors = [run.floor(setting) for setting in settings]
    error_axis(ax, [*shown, *floors])
    floor_edge(ax, [100 * rate for rate, _ in parts], floors)
    ax.set_xticks([100 * rate for rate, _ in parts], [f"{100 * rate:g}" for rate, _ in parts])
    ax.set_xlabel("sampling rate (%)")
    ax.set_ylabel(settings[0].measure)
