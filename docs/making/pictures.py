"""A picture of every built-in dataset: the field of one trial, and what of it is observed by default."""

from __future__ import annotations

import io

import numpy as np

import fieldbench
from fieldbench.registry import Registry, Sources

#: Datasets that are drawn from their name alone.
SHOWN = (
    "ssf", "ssf-synthetic", "alboran-sst", "era-winds", "gaussian-field", "fronts", "plume", "seismic", "radiomap1",
    "radiomap-walls",
)  # fmt: skip


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
    place = tuple(slice(None) if index in (rows, columns) else size // 2 for index, size in enumerate(field.shape))
    shown, seen = values[place], mask[place]
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
