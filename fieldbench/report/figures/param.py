"""Error against a parameter: what a grid of its values shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fieldbench.records import percent
from fieldbench.report.figures import View
from fieldbench.report.figures.colours import DASHES, MARKERS, Look, luminance
from fieldbench.report.figures.layout import value_ticks
from fieldbench.report.figures.rate import figure_of_panels, rates_of
from fieldbench.report.figures.style import Shown, error_axis, log_axis, logarithmic, mean_band
from fieldbench.report.labels import called
from fieldbench.report.metadata import RunMetadata
from fieldbench.report.stored import Panel, StoredRun
from fieldbench.spec import name_of


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure for each dataset, method and parameter that was run at several values: a line for each rate, with its
    95 % interval as a band; a panel for each noise, sampler, selection and setting of the method's other parameters.
    """
    for (method, parameter), rows in grids(run.methods, run.metadata).items():
        for dataset in dict.fromkeys(str(setting.levels["dataset"]) for setting in run.settings):
            settings = [setting for setting in run.settings if setting.levels["dataset"] == dataset]
            panels = {
                ", ".join(filter(None, [*others, what])): (methods, listed)
                for others, methods in rows.items()
                for what, listed in rates_of(run, settings).items()
                if any(_part(run, setting, methods)["score"].notna().any() for setting in listed)
            }
            if panels:
                what = f"{called(method, run.labels)} on {called(dataset, run.labels)}"
                yield f"{method} {parameter} {dataset}", _figure(run, what, called(parameter, run.labels), panels, view)


def grids(methods: list[str], metadata: RunMetadata) -> dict[tuple[str, str], dict[tuple[str, ...], dict[str, str]]]:
    """What was run at several values of a parameter.

    By method and parameter, and by what else differs between its specs: each spec, and its value of the parameter.
    """
    found: dict[tuple[str, str], dict[tuple[str, ...], dict[str, str]]] = {}
    names = {method: name_of(method) for method in methods}
    for name in dict.fromkeys(names.values()):
        specs = {method: metadata.parameters_of(method) for method in methods if names[method] == name}
        levels = {key: {known.get(key) for known in specs.values()} for known in specs.values() for key in known}
        varied = [key for key, values in levels.items() if len(values) > 1]
        for key in varied:
            for method, known in specs.items():
                others = tuple(
                    f"{_short(other, varied)} {known[other]}" for other in varied if other != key and other in known
                )
                if key in known:
                    found.setdefault((name, _short(key, varied)), {}).setdefault(others, {})[method] = known[key]
    several = {grid: {others: row for others, row in rows.items() if len(row) > 1} for grid, rows in found.items()}
    return {grid: rows for grid, rows in several.items() if rows}


def _short(key: str, others: list[str]) -> str:
    """A parameter without the name of what has it, unless another is called the same."""
    bare = key.partition(".")[2]
    return key if [other.partition(".")[2] for other in others].count(bare) > 1 else bare


def _part(run: StoredRun, setting: Panel, methods: Iterable[str]) -> pd.DataFrame:
    """The records of some methods in a setting."""
    part = run.part(setting)
    return part[part["method"].isin(list(methods))]


def _figure(
    run: StoredRun,
    what: str,
    parameter: str,
    panels: dict[str, tuple[dict[str, str], list[Panel]]],
    view: View,
) -> Figure:
    styles = _looks(sorted({float(setting.levels["rate"]) for _, listed in panels.values() for setting in listed}))
    parts = {
        title: {float(setting.levels["rate"]): _part(run, setting, methods) for setting in listed}
        for title, (methods, listed) in panels.items()
    }

    whole = pd.concat([part for by_rate in parts.values() for part in by_rate.values()])
    drawn = {
        title: partial(_panel, parts[title], methods, styles, (parameter, listed[0].measure))
        for title, (methods, listed) in panels.items()
    }
    return figure_of_panels(f"{what}: {parameter}", drawn, whole, styles.values(), view)


def _looks(rates: list[float]) -> dict[float, Look]:
    """A look for each rate, along a colour map, as far as it can be told from the ground."""
    dark = luminance(matplotlib.rcParams["figure.facecolor"]) < 0.2
    colours = matplotlib.colormaps["viridis"](np.linspace(*((0.95, 0.4) if dark else (0.6, 0.0)), len(rates)))
    return {
        rate: Look(percent(rate), to_hex(colour), MARKERS[number % len(MARKERS)], DASHES[0])
        for number, (rate, colour) in enumerate(zip(rates, colours, strict=True))
    }


def _panel(
    parts: dict[float, pd.DataFrame],
    methods: dict[str, str],
    styles: dict[float, Look],
    names: tuple[str, str],
    ax: Axes,
) -> dict[str, float]:
    """Draw one panel with these names of its axes, and tell where each line ends on the right."""
    positions = _positions(list(methods.values()))
    shown = Shown()
    for rate, part in parts.items():
        samples = {
            positions[value]: part.loc[part["method"] == name, "score"].dropna() for name, value in methods.items()
        }
        shown.add(mean_band(ax, samples, styles[rate], len(parts)))
    error_axis(ax, shown)
    if logarithmic(list(positions.values())):
        log_axis(ax, "x")
    else:
        value_ticks(ax, {position: value for value, position in positions.items()})
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    return shown.last


def _positions(values: list[str]) -> dict[str, float]:
    """Where each value of a parameter stands: numbers at themselves, others one beside the other."""
    try:
        return {value: float(value) for value in values}
    except ValueError:
        return {value: float(position) for position, value in enumerate(dict.fromkeys(values))}
