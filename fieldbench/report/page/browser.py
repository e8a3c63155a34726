"""The fields behind the slice browser, small enough to travel in the page."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldbench import reconstructions
from fieldbench.field import Mask
from fieldbench.reconstructions import Reconstruction
from fieldbench.records import OK
from fieldbench.report.labels import called
from fieldbench.report.numbers import with_unit
from fieldbench.report.stored import Panel, StoredRun

#: The album stops growing at this size in bytes: a page is to fit into a mail.
LARGEST = 8_000_000

#: The level that stands for an entry that is not there.
NOTHING = 255


@dataclass
class Album:
    """Fields as the page's script reads them.

    Attributes:
        entries: one for each setting and draw.
        left_out: draws whose fields would have been too much.
        not_kept: draws whose fields are neither kept nor to be recomputed.
        size: bytes so far.
    """

    entries: list[dict[str, Any]] = field(default_factory=list)
    error_colours: str = ""
    left_out: int = 0
    not_kept: int = 0
    size: int = 0

    @property
    def note(self) -> str:
        """Which draws are not in it and why, or an empty text."""
        missing = []
        if self.left_out:
            missing.append(f"{self.left_out} more draws would have made this page too large")
        if self.not_kept:
            missing.append(f"the fields of {self.not_kept} draws were not kept")
        return "; ".join(missing).capitalize()


def make_album(run: StoredRun, *, recompute: bool = False) -> Album:
    """Kept fields of a run; those of each setting's first draw are computed again if so asked where none are kept."""
    album = Album()
    try:
        from fieldbench.report.figures.pictures import error_colours
    except ImportError:
        return album
    album.error_colours = _palette(error_colours())
    begun: set[str] = set()
    for setting, draw, rows in _draws(run):
        first = setting.title not in begun
        begun.add(setting.title)
        shown: dict[str, Reconstruction] = {}
        for row in rows:
            kept = reconstructions.find(run.path, row["key"])
            if kept is None and recompute and first:
                kept = run.reconstruction(row)
            if kept is not None:
                shown[row["method"]] = kept
        if not shown:
            album.not_kept += 1
            continue
        if album.size > LARGEST:
            album.left_out += 1
            continue
        entry = _entry(run, setting, draw, shown, {row["method"]: row for row in rows})
        album.entries.append(entry)
        album.size += len(json.dumps(entry))
    order = [setting.title for setting in run.settings]
    album.entries.sort(key=lambda entry: order.index(entry["setting"]))
    return album


def _draws(run: StoredRun) -> Iterator[tuple[Panel, str, list[dict[str, Any]]]]:
    """Rows that ended well, by setting and draw, whose name comes with them: first trials of all settings first."""
    groups: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for row in run.rows():
        if row["status"] == OK:
            index = run.settings.index(run.setting_of(row))
            groups.setdefault((row["trial"], row["seed"], index), []).append({**row, "diagnostics": {}})
    for (trial, seed, index), rows in sorted(groups.items(), key=lambda item: item[0]):
        rows.sort(key=lambda row: run.methods.index(row["method"]))
        yield run.settings[index], run.draw_name(trial, seed), rows


def _entry(
    run: StoredRun, setting: Panel, draw: str, shown: dict[str, Reconstruction], rows: dict[str, Any]
) -> dict[str, Any]:
    from fieldbench.report.figures.pictures import scale_of
    from fieldbench.report.figures.slices import error_range

    first = next(iter(shown.values()))
    truth, valid = first.truth, first.truth.valid
    scale = scale_of(truth)
    errors = {name: scale.shown(item.estimate) - scale.shown(truth.values) for name, item in shown.items()}
    largest = error_range([error[valid] for error in errors.values()])
    shades, errors_to = (valid, scale.low, scale.high), (valid, -largest, largest)
    return {
        "setting": setting.title,
        "draw": draw,
        "shape": list(truth.shape),
        "axes": [
            {
                "name": axis.name,
                "unit": axis.unit,
                "at": [f"{value:.6g}" for value in axis.coordinates],
                "down": "depth" in axis.name,
            }
            for axis in truth.axes
        ],
        "label": scale.label,
        "unit": scale.unit,
        "low": float(f"{scale.low:.4g}"),
        "high": float(f"{scale.high:.4g}"),
        "largest": float(f"{largest:.3g}"),
        "errorLabel": with_unit("error", scale.unit),
        "colours": _palette(scale.colours),
        "truth": _packed(scale.shown(truth.values), *shades),
        "observed": _packed(scale.shown(first.observation.values), *shades),
        "methods": [
            {
                "name": called(name, run.labels),
                "score": _score(setting, rows[name]),
                "values": _packed(scale.shown(item.estimate), *shades),
                "error": _packed(errors[name], *errors_to),
                "deviation": _packed(scale.deviation(item.made), *errors_to),
            }
            for name, item in shown.items()
        ],
    }


def _score(setting: Panel, row: dict[str, Any]) -> str:
    score = row["metrics"].get(setting.metric)
    return "" if score is None else f"{setting.name} {score:.4g} {setting.unit}".strip()


def _packed(values: NDArray[Any] | None, valid: Mask, low: float, high: float) -> str | None:
    """Levels 0 to 254 from low to high, deflated, in base 64; NaN and what is not valid are :data:`NOTHING`."""
    if values is None:
        return None
    missing = np.isnan(values) | ~valid
    levels = np.clip(np.round((np.where(missing, low, values) - low) / (high - low) * 254), 0, 254)
    return base64.b64encode(zlib.compress(np.where(missing, NOTHING, levels).astype(np.uint8).tobytes(), 9)).decode()


def _palette(colours: Any) -> str:
    """255 colours as bytes of red, green and blue, in base 64."""
    rgb = np.round(255 * np.asarray(colours(np.linspace(0, 1, 255)))[:, :3]).astype(np.uint8)
    return base64.b64encode(rgb.tobytes()).decode()
