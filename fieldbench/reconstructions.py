"""Whole fields of a trial: truth, observation and estimate, kept in a run's ``fields`` folder or recomputed.

One compressed file a trial, named by the trial's key, in single precision: enough for pictures; scores are
in the records. A file holds axes and units too, so that it can be drawn where neither data nor plugins are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fieldbench.errors import RequestError
from fieldbench.estimate import Estimate
from fieldbench.field import Axis, Field, FloatArray, Observation
from fieldbench.store.files import FIELDS, replacing


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What a picture of one trial needs.

    Attributes:
        truth: the field.
        observation: what the method saw of it (entries withheld for ``holdout`` are in it too).
        made: the estimate that counts.
    """

    truth: Field
    observation: Observation
    made: Estimate

    @property
    def estimate(self) -> FloatArray:
        """The mean of the estimate, of the field's shape and in its unit."""
        return np.asarray(self.made.mean)

    @property
    def deviation(self) -> FloatArray | None:
        """A standard deviation of each entry, in the field's unit, or None."""
        return self.made.spread()

    @property
    def error(self) -> FloatArray:
        """Estimate minus truth; NaN where the field does not exist."""
        return np.where(self.truth.valid, self.estimate - self.truth.values, np.nan)


def save(folder: Path, key: str, reconstruction: Reconstruction) -> Path:
    """Write one file as a whole or not at all.

    Args:
        folder: ``fields`` of a run; made if it does not exist.
        key: of the trial.
        reconstruction: its fields.

    Raises:
        OSError: if there is no room.
    """
    truth, made = reconstruction.truth, reconstruction.made
    arrays: dict[str, np.ndarray] = {
        "truth": _single(truth.values),
        "observed": _single(reconstruction.observation.values),
        "estimate": _single(reconstruction.estimate),
        "distribution": np.array(made.distribution),
        "floor": np.array(made.floor),
        "valid": np.packbits(truth.valid),
        "axis_names": np.array([axis.name for axis in truth.axes]),
        "axis_units": np.array([axis.unit for axis in truth.axes]),
        "unit": np.array(truth.unit),
        "quantity": np.array(truth.quantity),
        "log_floor": np.array(np.nan if truth.log_floor is None else truth.log_floor),
    }
    arrays |= {f"axis_{index}": axis.coordinates for index, axis in enumerate(truth.axes)}
    stated = {"deviation": made.deviation, "members": made.members}
    stated |= {f"quantile_{level!r}": part for level, part in (made.quantiles or {}).items()}
    arrays |= {name: _single(part) for name, part in stated.items() if part is not None}
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{key}.npz", folder / f".{key}.{os.getpid()}.npz") as draft:
        np.savez_compressed(draft, allow_pickle=False, **arrays)
    return folder / f"{key}.npz"


def _single(values: FloatArray) -> NDArray[np.float32]:
    """Values in single precision; what is beyond its range becomes its end, so that all stay finite."""
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest).astype(np.float32)


def load(path: Path) -> Reconstruction:
    """Read what :func:`save` wrote.

    Raises:
        RequestError: if the file is of another kind, or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        shape = arrays["truth"].shape
        names, units = arrays["axis_names"].tolist(), arrays["axis_units"].tolist()
        axes = tuple(
            Axis(name, arrays[f"axis_{index}"], unit)
            for index, (name, unit) in enumerate(zip(names, units, strict=True))
        )
        packed = arrays["valid"] if "valid" in arrays else arrays["existing"]  # as 0.1.0 called it
        valid = np.unpackbits(packed, count=int(np.prod(shape))).astype(bool).reshape(shape)
        floor = float(arrays["log_floor"])
        about = (axes, str(arrays["unit"]), str(arrays["quantity"]), valid)
        log_floor = None if np.isnan(floor) else floor
        truth = Field(arrays["truth"], *about, log_floor)
        observation = Observation(arrays["observed"], np.isfinite(arrays["observed"]), *about, log_floor)
        return Reconstruction(truth, observation, _estimate(arrays))
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise RequestError(f"{path} holds no kept fields ({error}); delete it to have them recomputed") from None


def _estimate(arrays: dict[str, NDArray[Any]]) -> Estimate:
    """The estimate among the arrays of a file; what an older fieldbench kept is a mean alone."""
    quantiles = {
        float(name.removeprefix("quantile_")): array for name, array in arrays.items() if name.startswith("quantile_")
    }
    made = Estimate(
        arrays["estimate"],
        arrays.get("deviation"),
        arrays.get("members"),
        quantiles or None,
        "lognormal" if str(arrays.get("distribution")) == "lognormal" else "normal",
        float(arrays.get("floor", 0.0)),
    )
    return made.checked(np.isfinite(arrays["estimate"]))


def find(run_folder: Path, key: str) -> Reconstruction | None:
    """The kept fields of a trial, or None if there are none."""
    path = run_folder / FIELDS / f"{key}.npz"
    return load(path) if path.is_file() else None
