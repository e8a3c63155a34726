"""Slices of truth, observation, every method's reconstruction, its error, and how large it says that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fieldbench.field import FloatArray
from fieldbench.reconstructions import Reconstruction
from fieldbench.report.figures import View, of_settings
from fieldbench.report.figures.pictures import (
    axis_label,
    cut_axis,
    cut_positions,
    error_colours,
    extent,
    plane,
    plane_axes,
    scale_of,
)
from fieldbench.report.figures.style import looks, wrapped
from fieldbench.report.stored import Panel, StoredRun

#: Share of the errors that the error scale covers, so that one bad entry does not make all others pale.
COVERED = 0.995


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting: rows for each slice of the fields, of their errors, and of the standard deviations of
    methods that have them. All fields share one scale, all errors and deviations another; all are of one draw. Fields
    that were not kept are recomputed.

    Raises:
        RequestError: if no trial ended well, or the view is not part of the field.
    """
    styles = looks(run.methods)

    def drawn(setting: Panel) -> Figure | None:
        title, rows = run.draw(setting, view.trial)
        shown = {method: run.reconstruction(rows[method]) for method in styles if method in rows}
        names = {method: styles[method].name for method in shown}
        return _figure(setting, title, shown, rows, names, view) if shown else None

    return of_settings("slices", run, view, drawn, "no trial that ended well is there to be shown")


def _figure(
    setting: Panel,
    title: str,
    shown: dict[str, Reconstruction],
    rows: dict[str, Any],
    names: dict[str, str],
    view: View,
) -> Figure:
    first = next(iter(shown.values()))
    truth = first.truth
    axis = cut_axis(truth, view.axis)
    positions = [0] if len(truth.shape) == 2 else cut_positions(truth.shape[axis], view.at)
    across, up = plane_axes(truth, axis)
    scale = scale_of(truth)
    errors = {method: scale.shown(item.estimate) - scale.shown(truth.values) for method, item in shown.items()}
    deviations = {method: scale.deviation(item.made) for method, item in shown.items()}
    second: dict[str, Mapping[str, FloatArray | None]] = {"error": errors, "deviation": deviations}
    valid = truth.valid
    largest = error_range([error[valid] for error in errors.values()])
    rows_each = 2 if all(part is None for part in deviations.values()) else 3

    aspect = _aspect(truth, across, up)
    columns = 2 + len(shown)
    width = min(1.45, 10.0 / columns)
    height = width * min(max(aspect, 0.5), 1.6)
    size = (columns * width + 1.1, rows_each * len(positions) * (height + 0.12) + 0.75)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows_each * len(positions), columns, squeeze=False)
    box, downward = extent(across, up), "depth" in up.name
    for number, index in enumerate(positions):
        above, *below = axes[rows_each * number : rows_each * (number + 1)]
        fields = [truth.values, first.observation.values, *(item.estimate for item in shown.values())]
        for ax, values in zip(above, fields, strict=True):
            unobserved = np.isnan(values) | ~valid
            picture = np.where(plane(unobserved, axis, index), np.nan, scale.shown(plane(values, axis, index)))
            fieldlike = _picture(ax, picture, box, scale.colours, scale.low, scale.high, downward)
        for row, (label, parts) in zip(below, second.items(), strict=False):
            for ax, part in zip(row[2:], parts.values(), strict=True):
                if part is None:
                    ax.remove()
                    continue
                picture = plane(np.where(valid, part, np.nan), axis, index)
                errorlike = _picture(ax, picture, box, error_colours(), -largest, largest, downward)
            next(ax for ax in row[2:] if ax.figure).set_ylabel(label)
            for ax in row[:2]:
                ax.remove()
        where = f"{truth.axes[axis].name} {truth.axes[axis].coordinates[index]:g} {truth.axes[axis].unit}".strip()
        above[0].set_ylabel(f"{where}\n{axis_label(up)}" if len(truth.shape) > 2 else axis_label(up))
        above[0].tick_params(labelleft=True)
    for ax, name in zip(axes[0], ["truth", "observation", *names.values()], strict=True):
        ax.set_title(name)
    for ax, row in zip(axes[0][2:], [rows[method] for method in shown], strict=True):
        score = row["metrics"].get(setting.metric)
        if score is not None:
            ax.set_title(f"{ax.get_title()}\n{setting.metric.upper()} {score:.3g} {setting.unit}".strip())
    for ax in (next(ax for ax in column[::-1] if ax.figure) for column in axes.T):
        ax.set_xlabel(axis_label(across))
        ax.tick_params(labelbottom=True)
    top = axes[: max(1, len(axes) // 2)].ravel().tolist()
    bottom = axes[max(1, len(axes) // 2) :].ravel().tolist()
    figure.colorbar(fieldlike, ax=[ax for ax in top if ax.figure], label=scale.label, aspect=15, pad=0.01)
    unit, what = "dB" if scale.decibel else truth.unit, "error" if rows_each == 2 else "error, deviation"
    figure.colorbar(
        errorlike, ax=[ax for ax in bottom if ax.figure], label=f"{what} ({unit})" if unit else what, aspect=15,
        extend="both", pad=0.01,
    )  # fmt: skip
    figure.set_label(title)
    figure.suptitle(wrapped(title, figure.get_figwidth()), fontsize=8)
    return figure


def error_range(errors: list[NDArray[np.float64]]) -> float:
    """Where the common scale of errors ends: at the median over methods of the size that nearly all errors of one have,
    so that neither a bad entry nor a bad method makes all others pale. Errors that are not finite do not count."""
    sizes = [np.abs(error[np.isfinite(error)]) for error in errors]
    ends = [np.quantile(size, COVERED) for size in sizes if len(size)]
    return (float(np.median(ends)) if ends else 0.0) or 1.0


def _picture(
    ax: Axes,
    picture: Any,
    box: tuple[float, float, float, float],
    colours: Any,
    low: float,
    high: float,
    downward: bool,
) -> Any:
    ax.set_facecolor("#e4e4e4")
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)
    ax.tick_params(labelleft=False, labelbottom=False, length=2)
    image = ax.imshow(
        picture, origin="lower", extent=box, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
    )
    if downward:
        ax.invert_yaxis()
    return image


def _aspect(truth: Any, across: Any, up: Any) -> float:
    """Height over width: true to scale where both axes have one unit, square otherwise."""
    if across.unit != up.unit:
        return 1.0
    return float((len(up) * up.spacing) / (len(across) * across.spacing))
