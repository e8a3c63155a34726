"""Methods that are easy to tell apart, as a single-file plugin for the tests of completion."""

from __future__ import annotations

import os
import time

import numpy as np

import fieldbench


class Plane(fieldbench.Method):
    """The least-squares plane through the observed entries; it knows its uncertainty."""

    name = "plane"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        grid = np.indices(observation.shape).reshape(observation.ndim, -1).T
        design = np.column_stack([np.ones(len(observation.indices)), observation.indices])
        weights, *_ = np.linalg.lstsq(design, observation.observed, rcond=None)
        plane = (np.column_stack([np.ones(len(grid)), grid]) @ weights).reshape(observation.shape)
        return fieldbench.Estimate(plane, np.where(observation.mask, 0.0, 0.25))


class OddUncertainty(Plane):
    """A plane whose uncertainty is of another shape."""

    name = "odd-uncertainty"

    def complete(self, observation, *, seed, device, report):
        return fieldbench.Estimate(np.zeros(observation.shape), np.zeros(3))


class Zero(fieldbench.Method):
    """Zero everywhere."""

    name = "zero"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        return np.zeros(observation.shape)


class Told(fieldbench.Method):
    """The number of emitters that it was told, everywhere."""

    name = "told"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, float(observation.metadata["emitters"]))


class Noisy(fieldbench.Method):
    """Random numbers from its seed."""

    name = "noisy"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        return np.random.default_rng(seed).normal(size=observation.shape)


class Broken(fieldbench.Method):
    """Raises."""

    name = "broken"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        raise ArithmeticError("it cannot count")


class Deadly(fieldbench.Method):
    """Ends its process."""

    name = "deadly"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        os.abort()


class Sleeper(fieldbench.Method):
    """Never ends."""

    name = "sleeper"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        time.sleep(3600)


class Gaps(fieldbench.Method):
    """Returns NaN."""

    name = "gaps"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        return observation.values


class Picky(fieldbench.Method):
    """Works on 7-D fields only."""

    name = "picky"
    revision = "1"
    orders = (7,)

    def complete(self, observation, *, seed, device, report):
        return observation.filled()


@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Plane, OddUncertainty, Zero, Told, Noisy, Broken, Deadly, Sleeper, Gaps, Picky]
