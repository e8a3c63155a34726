"""The built-in datasets and noises, registered like any other plugin."""

from __future__ import annotations

import fieldbench
from fieldbench_datasets.noise import Gaussian, Laplacian, NoNoise
from fieldbench_datasets.radiomap import RadioMap, RadioMap1, RadioMap2
from fieldbench_datasets.ssf import SoundSpeedField
from fieldbench_datasets.ssf_synthetic import SyntheticSoundSpeedField


@fieldbench.hookimpl
def fieldbench_register_datasets() -> list[type[fieldbench.Dataset]]:
    return [SoundSpeedField, SyntheticSoundSpeedField, RadioMap, RadioMap1, RadioMap2]


@fieldbench.hookimpl
def fieldbench_register_noises() -> list[type[fieldbench.Noise]]:
    return [NoNoise, Gaussian, Laplacian]
