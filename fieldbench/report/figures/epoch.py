"""Error and core sparsity against epoch: how each method learns, and how complex it becomes (paper, figure 4)."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from fieldbench.records import OK
from fieldbench.report.figures import View, of_settings
from fieldbench.report.figures.style import PAGE, Look, error_axis, legend, looks, mean_band, not_finite, wrapped
from fieldbench.report.numbers import is_number
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting: mean error of the reported estimates with its 95 % interval, and beside it the
    share of core entries that are not zero, where a method reports it. A method that reports nothing is a
    level line at its final error.

    Raises:
        RequestError: if no method reported estimates while it worked.
    """
    styles = looks(run.methods)
    curves = _curves(run)

    def drawn(setting: Panel) -> Figure | None:
        here = {method: curves[setting.title, method] for method in styles if (setting.title, method) in curves}
        return _figure(run, setting, here, styles) if here else None

    nothing = "no method of this run reports estimates while it works, so there is no curve to draw"
    return of_settings("epoch", run, view, drawn, nothing)


def _curves(run: StoredRun) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The curves of every setting and method, one a trial."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in run.rows():
        curve = (row.get("diagnostics") or {}).get("curve")
        if row["status"] != OK or not curve:
            continue
        setting = next(setting for setting in run.settings if setting.holds(row))
        if len(curve.get("step", ())) != len(curve.get(setting.metric, ())):
            continue
        found.setdefault((setting.title, row["method"]), []).append(curve)
    return found


def _figure(run: StoredRun, setting: Panel, curves: dict[str, list[dict[str, Any]]], styles: dict[str, Look]) -> Figure:
    sparse = {name: told for name, listed in curves.items() if all(told := [_sparsity(curve) for curve in listed])}
    figure = Figure(figsize=(PAGE if sparse else 0.6 * PAGE, 2.6), layout="constrained")
    axes = list(figure.subplots(1, 2 if sparse else 1, squeeze=False).flat)
    level = run.part(setting)
    level = level[~level["method"].isin(list(curves))].dropna(subset="score")
    scores, shown = list(level["score"]), []
    for method, listed in curves.items():
        steps, samples = _samples(listed, setting.metric)
        shown += mean_band(axes[0], steps, samples, styles[method])
        scores += [score for sample in samples for score in sample]
    for method, look in styles.items():
        mean = float(level.loc[level["method"] == method, "score"].mean())
        if math.isfinite(mean):
            axes[0].axhline(mean, color=look.colour, linestyle=(0, (3, 2)), linewidth=1.2, label=look.name)
            shown.append(mean)
    axes[0].set_ylabel(setting.measure)
    error_axis(axes[0], shown)
    for method, told in sparse.items():
        mean_band(axes[1], *_samples(told, "support"), styles[method])
    if sparse:
        axes[1].set_ylabel("non-zero core entries (%)")
        axes[1].set_ylim(bottom=0)
    for ax in axes:
        ax.set_xlabel("epoch")
    figure.suptitle(wrapped(setting.title, figure.get_figwidth()) + not_finite(scores), fontsize=8)
    legend(figure, axes[:1])
    figure.set_label(setting.title)
    return figure


def _samples(curves: list[dict[str, Any]], name: str) -> tuple[list[int], list[list[float]]]:
    """The steps that all trials reported, and at each the value of every trial."""
    known = [dict(zip(curve["step"], curve[name], strict=True)) for curve in curves]
    steps = sorted(set.intersection(*map(set, known)))
    return steps, [[math.nan if at[step] is None else float(at[step]) for at in known] for step in steps]


def _sparsity(curve: dict[str, Any]) -> dict[str, Any]:
    """The steps at which a trial told the share of its core that is not zero, in per cent; empty if at none."""
    support = curve.get("support", ())
    if len(support) != len(curve["step"]):  # runs of older versions do not say at which of the steps
        return {}
    told = {step: 100 * share for step, share in zip(curve["step"], support, strict=True) if is_number(share)}
    return {"step": list(told), "support": list(told.values())} if told else {}
