"""SIREN: the field as a network of sines over its coordinates."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

import fieldbench
from fieldbench import FloatArray, Log, Observation
from fieldbench_methods.scaling import fit_scaling

if TYPE_CHECKING:
    import torch


class Siren(fieldbench.Method):
    """A network with sines between its layers, fitted to the observed entries (Sitzmann and others 2020).

    It maps coordinates, each axis scaled to [-1, 1], to the value there; its initial weights are the paper's, which
    keep the activations' distribution the same through the layers. Adam on random batches of observed entries, with a
    learning rate that falls as a cosine. Values are divided by three observed deviations; power in the log domain.
    """

    name = "siren"
    revision = "1"
    uses_gpu = True
    libraries = ("torch",)
    requires = {"torch": "torch"}  # noqa: RUF012
    conformance_parameters = {"steps": 5, "width": 8}  # noqa: RUF012

    width: int = fieldbench.parameter(64, "neurons of a layer", ge=1, source="Sitzmann 2020, 256 for large images")
    layers: int = fieldbench.parameter(3, "layers of sines", ge=1, source="Sitzmann 2020")
    omega: float = fieldbench.parameter(
        3.0, "frequency of the first layer: larger for rougher fields; 30 for images of 256 x 256", gt=0,
        search=Log(1.0, 30.0),
    )  # fmt: skip
    steps: int = fieldbench.parameter(1000, "updates", ge=1)
    batch: int = fieldbench.parameter(4096, "observed entries of an update, at most", ge=1)
    learning_rate: float = fieldbench.parameter(2e-3, "at the start", gt=0, search=Log(3e-4, 1e-2))

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        import torch

        scaling, rng = fit_scaling(observation), np.random.default_rng(seed)
        values = scaling.forward(observation.observed)
        centre, spread = values.mean(), 3 * values.std() or 1.0
        coordinates = [np.linspace(-1, 1, size) if size > 1 else np.zeros(1) for size in observation.shape]
        grid = np.stack(np.meshgrid(*coordinates, indexing="ij"), axis=-1).reshape(-1, observation.ndim)
        points = torch.tensor(grid, dtype=torch.float32, device=device)
        seen = np.flatnonzero(observation.mask)
        target = torch.tensor((values - centre) / spread, dtype=torch.float32, device=device)
        weights = [torch.tensor(item, device=device, requires_grad=True) for item in self.initial(grid.shape[1], rng)]
        optimiser = torch.optim.Adam(weights, self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)

        def estimate() -> FloatArray:
            with torch.no_grad():
                made = [self.network(weights, part)[..., 0].cpu().numpy() for part in points.split(65536)]
            return scaling.inverse(centre + spread * np.concatenate(made).astype(float).reshape(observation.shape))

        for step in range(1, self.steps + 1):
            few = rng.choice(len(seen), min(self.batch, len(seen)), replace=False)
            error = self.network(weights, points[seen[few]])[..., 0] - target[few]
            optimiser.zero_grad()
            (error**2).mean().backward()
            optimiser.step()
            schedule.step()
            if report.due(step):
                report(step, estimate())
        return estimate()

    def initial(self, inputs: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Weights and biases, layer by layer: uniform so that what a sine is taken of is about standard normal."""
        sizes = [inputs, *[self.width] * self.layers, 1]
        found = []
        for number, (before, after) in enumerate(pairwise(sizes)):
            reach = self.omega / before if number == 0 else np.sqrt(6 / before)
            found.append(rng.uniform(-reach, reach, (before, after)).astype(np.float32))
            found.append(rng.uniform(-np.pi, np.pi, after).astype(np.float32) * (number < self.layers))
        return found

    def network(self, weights: list[torch.Tensor], points: torch.Tensor) -> torch.Tensor:
        """Values at points (n, axes), shape (n, 1)."""
        import torch

        for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            points = torch.sin(points @ weight + bias)
        return points @ weights[-2] + weights[-1]
