"""The measured sound speed field of the paper (section V-A)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

import fieldbench
from fieldbench import FloatArray, parameter
from fieldbench_datasets.download import PublishedFile

_FOLDER = (
    "https://raw.githubusercontent.com/OceanSTARLab/FieldFormer/"
    "2437b6178f8ce74f062d38a73b209338612fd4ef/experiment/ssf_data"
)
ANOMALY = PublishedFile(
    "ssf/data.mat", f"{_FOLDER}/data.mat", "bc9a00a05f3ee9228d095d3a4d0578b63082fb119c1813cb3ffbd54f8608708b"
)
MEAN = PublishedFile(
    "ssf/data_mean.mat", f"{_FOLDER}/data_mean.mat", "9973f3e3e3f03c1fc6c6b826759732538eca0d28dc353aa803a1aa42572d7eca"
)


def ocean_axes(shape: tuple[int, int, int], spacing: tuple[float, float, float]) -> tuple[fieldbench.Axis, ...]:
    """Axes x and y in km and depth in m, from 0."""
    names = ("x", "km"), ("y", "km"), ("depth", "m")
    return tuple(
        fieldbench.Axis.regular(name, size, step, unit)
        for (name, unit), size, step in zip(names, shape, spacing, strict=True)
    )


class SoundSpeedField(fieldbench.Dataset):
    """Sound speed in the South China Sea, 20 x 20 x 20 points: the field of the paper's section V-A.

    x, y and depth with 8 km, 8 km and 10 m between points, in m/s. As published it is the anomaly: the mean
    of each depth, taken over the whole field, is removed. The files are downloaded once from the paper's
    repository; FIELDBENCH_DATA may name a folder that has ``ssf/data.mat``, FIELDBENCH_CACHE another folder
    to keep the download. Every trial has the same field, other masks and other noise.
    """

    name = "ssf"
    revision = "1"
    fixed_field = True

    mean: bool = parameter(False, "add the mean profile (1523 to 1534 m/s) back: absolute sound speed")

    def prepare(self) -> None:
        ANOMALY.obtain()
        if self.mean:
            MEAN.obtain()

    def fingerprint(self) -> str:
        return f"{ANOMALY.sha256}{MEAN.sha256}" if self.mean else ANOMALY.sha256

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        values = _read(ANOMALY.obtain(), "data")
        if self.mean:
            values = values + _read(MEAN.obtain(), "data_mean")
        quantity = "sound speed" if self.mean else "sound speed anomaly"
        return fieldbench.Field(values, ocean_axes((20, 20, 20), (8.0, 8.0, 10.0)), "m/s", quantity)


@lru_cache(maxsize=4)
def _read(file: Path, variable: str) -> FloatArray:
    from scipy.io import loadmat

    return np.asarray(loadmat(file, variable_names=[variable])[variable], dtype=float)
