"""The error that is promised for the gaps, and within what it should lie."""

from __future__ import annotations

import numpy as np

from fieldbench import Observation
from fieldbench.completion.validation import Promise, Validation


def promised(field: np.ndarray, mask: np.ndarray, seed: int) -> Promise:
    """What is promised of an estimate of zero."""
    observation = Observation(np.where(mask, field, np.nan), mask)
    validation = Validation(observation, 0.1, 3, np.random.default_rng(seed))
    return validation.promise([validation.residuals(np.zeros(field.shape), fold) ** 2 for fold in validation.folds])


def waves(rng: np.random.Generator) -> np.ndarray:
    """A field of 40 x 40 whose spectrum falls off."""
    wave = np.hypot(np.fft.fftfreq(40)[:, np.newaxis], np.fft.fftfreq(40)) * 40
    return np.real(np.fft.ifft2(np.fft.fft2(rng.normal(size=(40, 40))) * (wave + 1) ** -2.3))


def test_the_interval_holds_the_error_at_the_gaps_of_white_noise() -> None:
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        field, mask = rng.normal(size=(24, 24)), rng.random((24, 24)) < 0.5
        promise, error = promised(field, mask, seed), np.sqrt(np.mean(field[~mask] ** 2))
        inside.append(promise.low <= error <= promise.high)
        # Mean squares of 86 withheld entries and 288 gaps differ by a factor of exp(1.645 sqrt(2 / 86 + 2 / 288)).
        assert promise.high / promise.expected > np.exp(1.645 * np.sqrt(2 / 86 + 2 / 288) / 2)
    assert np.mean(inside) >= 0.8


def test_of_one_block_less_can_be_promised_than_of_as_many_scattered_gaps() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        block = np.ones((40, 40), dtype=bool)
        block[12:22, 14:24] = False
        scattered = rng.permutation(block.ravel()).reshape(block.shape)
        field = waves(rng)
        one, many = promised(field, block, seed), promised(field, scattered, seed)
        assert one.high / one.expected > 1.1 * many.high / many.expected
