"""Error and core sparsity against epoch: how each method learns, and how complex it becomes (paper, figure 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldbench.records import OK
from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import grid, heading, name_lines
from fieldbench.report.figures.style import (
    FLOOR,
    Shown,
    error_axis,
    floor_edge,
    mean_band,
    not_finite,
    some_markers,
    trials_of,
)
from fieldbench.report.numbers import is_number
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a setting: mean error of the reported estimates with its 95 % interval, and beside it the
    share of core entries that are not zero, where a method reports it. A trial that ended before others keeps its last
    estimate, and the figure says so. A method that reports nothing is a level line at its final error.
    """
    styles = looks(run.methods, run.labels, view.colours)
    curves = _curves(run)
    for setting in run.settings:
        here = {method: curves[setting.title, method] for method in styles if (setting.title, method) in curves}
        if here:
            yield setting.title, _figure(run, setting, here, styles, view)


def _curves(run: StoredRun) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The curves of every setting and method, one a trial."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in run.rows():
        curve = (row.get("diagnostics") or {}).get("curve")
        if row["status"] != OK or not curve:
            continue
        setting = run.setting_of(row)
        if len(curve.get("step", ())) != len(curve.get(setting.metric, ())):
            continue
        found.setdefault((setting.title, row["method"]), []).append(curve)
    return found


def _figure(
    run: StoredRun,
    setting: Panel,
    curves: dict[str, list[dict[str, Any]]],
    styles: dict[str, Look],
    view: View,
) -> Figure:
    sparse = {name: told for name, listed in curves.items() if all(told := [_sparsity(curve) for curve in listed])}
    figure, axes = grid(2 if sparse else 1, view.width, 2.2, 2.3)
    part = run.part(setting)
    ends, scores = _errors(axes[0], setting, part, curves, styles, run.floor(setting))
    for number, (method, told) in enumerate(sparse.items()):
        mean_band(axes[1], _samples(told, "support"), styles[method], len(sparse), number)
    if sparse:
        axes[1].set_ylabel("non-zero core entries (%)")
        axes[1].set_ylim(bottom=0)
    for ax in axes:
        ax.set_xlabel("epoch")
    early = any(len({curve["step"][-1] for curve in listed}) > 1 for listed in curves.values())
    ended = ["a trial that ended before others keeps its last error"] if early else []
    heading(figure, setting.title, [trials_of(part), *ended, *not_finite(scores)])
    name_lines(axes, ends, styles.values())
    return figure


def _errors(
    ax: Axes,
    setting: Panel,
    part: pd.DataFrame,
    curves: dict[str, list[dict[str, Any]]],
    styles: dict[str, Look],
    floor: float,
) -> tuple[dict[str, float], list[float]]:
    """Draw the curves and level lines; where each ends on the right, and all scores that they are made of."""
    level = part[~part["method"].isin(list(curves))].dropna(subset="score")
    scores, shown = list(level["score"]), Shown()
    for number, (method, listed) in enumerate(curves.items()):
        samples = _samples(listed, setting.metric)
        shown.add(mean_band(ax, samples, styles[method], len(curves), number))
        scores += [score for sample in samples.values() for score in sample]
    for number, (method, look) in enumerate(styles.items()):
        mean = float(level.loc[level["method"] == method, "score"].mean())
        if math.isfinite(mean):
            shown.add(Shown([mean], last={look.name: mean}))
            every = some_markers(number)
            ax.axhline(mean, **look.points, markevery=every, linestyle=(0, (3, 2)), linewidth=1.0, label=look.name)
    if math.isfinite(floor):
        shown.add(Shown([floor], last={FLOOR: floor}))
    ax.set_ylabel(setting.measure)
    error_axis(ax, shown)
    floor_edge(ax, ax.get_xlim(), [floor, floor])
    return shown.last, scores


def _samples(curves: list[dict[str, Any]], name: str) -> dict[float, list[float]]:
    """The value of every trial by step: at steps that each reported, or before which it had ended."""
    known = [dict(zip(curve["step"], curve[name], strict=True)) for curve in curves]
    ends = [curve["step"][-1] for curve in curves]
    trials = list(zip(known, ends, strict=True))
    told = {step for step in set().union(*known) if all(step in at or step > end for at, end in trials)}
    values = {step: [at[min(step, end)] for at, end in trials] for step in sorted(told)}
    return {step: [math.nan if value is None else float(value) for value in row] for step, row in values.items()}


def _sparsity(curve: dict[str, Any]) -> dict[str, Any]:
    """The steps at which a trial told the share of its core that is not zero, in per cent; empty if at none."""
    support = curve.get("support", ())
    if len(support) != len(curve["step"]):  # runs of older versions do not say at which of the steps
        return {}
    told = {step: 100 * share for step, share in zip(curve["step"], support, strict=True) if is_number(share)}
    return {"step": list(told), "support": list(told.values())} if told else {}
