"""The built-in datasets, noises and some samplers, registered like any other plugin."""

from __future__ import annotations

import fieldbench
from fieldbench_datasets.clouds import Clouds
from fieldbench_datasets.drifters import Drifters
from fieldbench_datasets.file import FileDataset
from fieldbench_datasets.fronts import Fronts
from fieldbench_datasets.gaussian_field import GaussianField
from fieldbench_datasets.measured import AlboranSST, EraWinds
from fieldbench_datasets.noise import Gaussian, Laplacian, NoNoise
from fieldbench_datasets.platforms import Points, Tracks
from fieldbench_datasets.plume import Plume
from fieldbench_datasets.radiomap import RadioMap, RadioMap1, RadioMap2, RadioMapWalls
from fieldbench_datasets.seismic import Seismic
from fieldbench_datasets.ssf import SoundSpeedField
from fieldbench_datasets.ssf_synthetic import SyntheticSoundSpeedField
from fieldbench_datasets.stations import Stations
from fieldbench_datasets.swaths import Swaths


@fieldbench.hookimpl
def fieldbench_register_datasets() -> list[type[fieldbench.Dataset]]:
    return [
        SoundSpeedField, SyntheticSoundSpeedField, AlboranSST, EraWinds, GaussianField, Fronts, Plume, Seismic,
        RadioMap, RadioMap1, RadioMap2, RadioMapWalls, FileDataset,
    ]  # fmt: skip


@fieldbench.hookimpl
def fieldbench_register_noises() -> list[type[fieldbench.Noise]]:
    return [NoNoise, Gaussian, Laplacian]


@fieldbench.hookimpl
def fieldbench_register_samplers() -> list[type[fieldbench.Sampler]]:
    return [Points, Tracks, Clouds, Stations, Drifters, Swaths]
