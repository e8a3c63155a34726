"""Seismic events: plane waves that cross lines of receivers, too steep for the gaps between them."""

from __future__ import annotations

import numpy as np

import fieldbench
from fieldbench import Axis, FloatArray, parameter


class Seismic(fieldbench.Dataset):
    """Plane waves on a grid of receivers: Ricker wavelets with linear moveout.

    Each event reaches receiver (x, y) at time t0 + (slowness_x x + slowness_y y) steps. By the sampler ``fibers`` whole
    traces are missing. The steepest moveout is ``moveout`` samples a receiver and the wavelet is 1/frequency samples
    long, so that where moveout x gap x frequency exceeds 1/2 the gap aliases it: a method that goes by neighbours alone
    sees the wrong slope. Axes are x, y and time. A rate is the share of traces that is recorded.
    """

    name = "seismic"
    revision = "1"
    default_sampler = "fibers"
    default_rates = (0.2, 0.4)

    receivers: tuple[int, int] = parameter((20, 20), "receivers along x and y")
    samples: int = parameter(64, "samples of a trace", ge=2)
    events: int = parameter(4, "number of plane waves", ge=1)
    moveout: float = parameter(3.0, "largest delay from one receiver to the next", unit="samples", ge=0)
    frequency: float = parameter(0.1, "peak frequency of the wavelet", unit="cycles per sample", gt=0, le=0.5)

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        slowness = rng.uniform(-self.moveout, self.moveout, (self.events, 2))
        middle = rng.uniform(0.25, 0.75, self.events) * self.samples  # at the middle of the receivers
        heights = rng.normal(size=self.events)
        positions = [np.arange(size) - (size - 1) / 2 for size in self.receivers]
        values = np.zeros((*self.receivers, self.samples))
        for (across, along), when, height in zip(slowness, middle, heights, strict=True):
            arrival = when + across * positions[0][:, np.newaxis] + along * positions[1]
            values += height * self.wavelet(np.arange(self.samples) - arrival[..., np.newaxis])
        axes = (
            *(Axis.regular(name, size, 1.0, "receiver") for name, size in zip("xy", self.receivers, strict=True)),
            Axis.regular("time", self.samples, 1.0, "sample"),
        )
        return fieldbench.Field(values, axes, "", "ground motion")

    def wavelet(self, time: FloatArray) -> FloatArray:
        """Ricker's wavelet at times in samples from its peak."""
        square = (np.pi * self.frequency * time) ** 2
        return np.asarray((1 - 2 * square) * np.exp(-square))
