"""The pictures of README and site, each made by a command: the first one, every dataset's, and the gallery's.

``python docs/making/pictures.py`` writes the first one to docs/pictures/, where README shows it.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

import fieldbench
from fieldbench.registry import Registry, Sources

ROOT = Path(__file__).resolve().parents[2]

#: Where runs for the pictures are kept: what a run has, the next build of the site does not compute again.
RUNS = ROOT / "build" / "pictures"

#: README's picture, and the run that it shows.
FIRST = ROOT / "docs" / "pictures" / "first.png"
FIRST_RUN = (
    "fieldbench run --methods nearest,linear,thin-plate,kriging --datasets 'radiomap-walls[bins=16]'"
    " --trials 1 --save-fields --out runs/first"
)

#: Width and gaps of the first picture, in inches.
WIDTH, LEFT, RIGHT, GAP, FOOT = 7.16, 0.42, 0.04, 0.07, 0.1

#: Datasets that are drawn from their name alone.
SHOWN = (
    "ssf", "ssf-synthetic", "alboran-sst", "era-winds", "gaussian-field", "fronts", "plume", "seismic", "radiomap1",
    "radiomap-walls",
)  # fmt: skip


def fieldbench_command(words: list[str]) -> str:
    """Run ``fieldbench`` where pictures have their runs, and give what it prints.

    Raises:
        RuntimeError: if it fails.
    """
    RUNS.mkdir(parents=True, exist_ok=True)
    ended = subprocess.run([sys.executable, "-m", "fieldbench", *words], cwd=RUNS, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"fieldbench {shlex.join(words)}\n{ended.stderr}")
    return ended.stdout


def first() -> bytes:
    """README's picture."""
    words = shlex.split(FIRST_RUN)[1:]
    fieldbench_command(words)
    return first_picture(RUNS / words[-1])


def first_picture(folder: Path) -> bytes:
    """A PNG of truth, observation and every method's estimate of one slice, with the errors below.

    Args:
        folder: of a run of one setting that kept its fields.
    """
    from matplotlib.figure import Figure

    from fieldbench.report.figures import pictures as shown
    from fieldbench.report.figures.layout import inch_axes
    from fieldbench.report.figures.slices import error_range
    from fieldbench.report.figures.style import printing
    from fieldbench.report.numbers import with_unit
    from fieldbench.report.stored import StoredRun

    stored = StoredRun(folder, Sources())
    (setting,) = stored.settings
    rows = stored.draw(setting)[1]
    made = {method: stored.reconstruction(rows[method]) for method in stored.methods}
    one = next(iter(made.values()))
    axis = shown.cut_axis(one.truth, None)
    across, up = shown.plane_axes(one.truth, axis)
    scale = shown.scale_of(one.truth)
    truth = scale.shown(one.truth.values)
    errors = {method: scale.shown(item.estimate) - truth for method, item in made.items()}
    largest = error_range(list(errors.values()))
    middle = one.truth.shape[axis] // 2
    cut = shown.plane(truth, axis, middle)
    fields = (scale.colours, float(np.nanmin(cut)), float(np.nanmax(cut)))
    signed = (shown.error_colours(), -largest, largest)
    columns = [("truth", truth, None), ("observation", scale.shown(one.observation.values), None)]
    for method, item in made.items():
        score = f"{setting.name} {rows[method]['metrics'][setting.metric]:.2f}"
        columns.append((f"{method}\n{score}", scale.shown(item.estimate), errors[method]))
    size = (WIDTH - LEFT - RIGHT + GAP) / len(columns) - GAP
    with printing():
        figure = Figure(figsize=(WIDTH, FOOT + 2 * size + GAP + 0.34))
        for number, (title, field, error) in enumerate(columns):
            left = LEFT + number * (size + GAP)
            for values, limits, bottom in ((field, fields, FOOT + size + GAP), (error, signed, FOOT)):
                if values is None:
                    continue
                ax = inch_axes(figure, left, bottom, size, size)
                shown.show(ax, shown.plane(values, axis, middle), across, up, limits)
                if values is field:
                    ax.set_title(title, loc="center")
                if number == 0:
                    ax.set_xlabel(with_unit(across.name, across.unit))
                    ax.set_ylabel(with_unit(up.name, up.unit))
                    ax.tick_params(labelleft=True, labelbottom=True)
        unit = "dB" if scale.decibel else one.truth.unit
        bars = [(fields, f"{one.truth.quantity} ({unit})", "neither"), (signed, f"error ({unit})", "both")]
        shown.colour_bars(figure, LEFT + 0.05, size - 0.17, bars)
        return _png(figure)


def picture(name: str) -> bytes:
    """A PNG of a dataset's field beside its observation; of a published file that is not here, words alone."""
    from matplotlib.figure import Figure

    registry = Registry(Sources())
    dataset = registry.dataset(name)
    figure = Figure(figsize=(7, 2.8), layout="constrained", dpi=110)
    try:
        dataset.prepare()
    except fieldbench.DataUnavailable:
        figure.text(0.5, 0.5, f"the file of {name} was not there when this page was made", ha="center")
        return _png(figure)
    field = dataset.draw(np.random.default_rng(0))
    mask = registry.sampler(dataset.default_sampler).draw(
        field.valid, field.axes, dataset.default_rates[-1], np.random.default_rng(1)
    )
    values = np.where(field.valid, field.values, np.nan)
    if field.log_floor is not None:
        values = 10 * np.log10(values + field.log_floor)
    rows, columns = _plane(field)
    plane = tuple(slice(None) if index in (rows, columns) else size // 2 for index, size in enumerate(field.shape))
    shown, seen = values[plane], mask[plane]
    if rows > columns:
        shown, seen = shown.T, seen.T
    limits = {"vmin": np.nanmin(shown), "vmax": np.nanmax(shown)}
    for axes, what, title in zip(
        figure.subplots(1, 2), (shown, np.where(seen, shown, np.nan)), ("field", "observed"), strict=True
    ):
        edges = [field.axes[index].coordinates for index in (columns, rows)]
        drawn = axes.pcolormesh(*edges, what, **limits, shading="nearest", rasterized=True)
        axes.set_xlabel(_label(field.axes[columns].name, field.axes[columns].unit))
        axes.set_ylabel(_label(field.axes[rows].name, field.axes[rows].unit))
        axes.set_title(title)
    figure.colorbar(drawn, label="dB" if field.log_floor is not None else _label(field.quantity, field.unit))
    return _png(figure)


def _label(name: str, unit: str) -> str:
    return f"{name}\n({unit})" if unit else name


def _plane(field: fieldbench.Field) -> tuple[int, int]:
    """The dimensions that are shown: latitude and longitude, else the first and, for fibers, the last, else x and y."""
    names = [axis.name[:3] for axis in field.axes]
    if "lat" in names and "lon" in names:
        return names.index("lat"), names.index("lon")
    return (len(names) - 1, 0) if field.quantity == "ground motion" else (1, 0)


def _png(figure: object) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": ""})  # type: ignore[attr-defined]
    return stream.getvalue()


if __name__ == "__main__":
    FIRST.parent.mkdir(exist_ok=True)
    FIRST.write_bytes(first())
    sys.stdout.write(f"{FIRST}\n")
