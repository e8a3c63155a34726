"""Nominal against observed coverage: whether intervals hold the truth as often as they promise."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from fieldbench.report.figures import View, of_settings
from fieldbench.report.figures.style import COLUMN, Look, legend, looks, mean_band, wrapped
from fieldbench.report.stored import Panel, StoredRun

#: Metrics of coverage, by the probability that they are of.
LEVELS = {0.5: "coverage50", 0.9: "coverage90", 0.95: "coverage95"}


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting: the mean coverage of each method over trials, with its 95 % interval as a band.

    Entries of one field are correlated, so that the band is made of the spread between trials.

    Raises:
        RequestError: if no method says how sure it is.
    """
    styles = looks(run.methods)
    nothing = "no method of this run says how sure it is; add +conformal to one"
    return of_settings("calibration", run, view, lambda setting: _figure(run, setting, styles), nothing)


def _figure(run: StoredRun, setting: Panel, styles: dict[str, Look]) -> Figure | None:
    part = run.part(setting)
    figure = Figure(figsize=(COLUMN, 3.0), layout="constrained")
    ax = figure.subplots()
    drawn = False
    for method, look in styles.items():
        mine = part[part["method"] == method]
        shares = {level: mine[name].dropna() for level, name in LEVELS.items() if name in mine}
        shares = {level: found for level, found in shares.items() if len(found)}
        if shares:
            mean_band(ax, list(shares), [found.to_numpy() for found in shares.values()], look, look.marker)
            drawn = True
    if not drawn:
        return None
    ax.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, zorder=0, label="as promised")
    low = min(0.4, *(float(np.min(line.get_ydata())) for line in ax.lines[:-1]))
    ax.set_xlim(0.4, 1.0)
    ax.set_ylim(max(0.0, low - 0.05), 1.0)
    ax.set_xticks(list(LEVELS), ["0.5", "0.9", "0.95"])
    ax.set_xlabel("probability of the interval")
    ax.set_ylabel("unobserved entries within it")
    ax.set_title(wrapped(setting.title, COLUMN))
    legend(figure, [ax])
    figure.set_label(setting.title)
    return figure
