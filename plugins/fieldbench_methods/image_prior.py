"""A deep image prior: what an untrained convolutional network makes of coordinates when it is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

import fieldbench
from fieldbench import FloatArray, Log, Observation
from fieldbench_methods.scaling import fit_scaling

if TYPE_CHECKING:
    import torch


class DeepImagePrior(fieldbench.Method):
    """An untrained hourglass network from coordinates to the field (Ulyanov, Vedaldi, Lempitsky 2018).

    Latitude and longitude are the image, or the first two axes; all others are its channels. The network halves the
    image ``depth`` times by strided 3 x 3 convolutions and doubles it back, with a skip at each scale. Its input are
    the coordinates, which the paper takes where a smooth image is sought. It is fitted to the observed entries; that it
    fits smooth and repeated structures first is the whole prior, so it is stopped early. Values are divided by three
    observed deviations; power in the log domain.
    """

    name = "deep-image-prior"
    revision = "1"
    uses_gpu = True
    libraries = ("torch",)
    requires = {"torch": "torch"}  # noqa: RUF012
    conformance_parameters = {"steps": 4, "width": 4}  # noqa: RUF012

    width: int = fieldbench.parameter(32, "channels of a layer", ge=1, source="Ulyanov 2018, 128 for photographs")
    depth: int = fieldbench.parameter(2, "scales", ge=1, source="Ulyanov 2018, 5 for photographs")
    steps: int = fieldbench.parameter(600, "updates", ge=1)
    learning_rate: float = fieldbench.parameter(1e-2, "of Adam", gt=0, source="Ulyanov 2018", search=Log(1e-3, 3e-2))

    def applicable(self, observation: Observation) -> str | None:
        return None if observation.ndim > 1 else "deep-image-prior works on fields of at least 2 dimensions"

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        import torch

        scaling, rng = fit_scaling(observation), np.random.default_rng(seed)
        seen = scaling.forward(observation.observed)
        centre, spread = seen.mean(), 3 * seen.std() or 1.0
        plane = image_axes([axis.name for axis in observation.axes])
        image = tuple(observation.shape[index] for index in plane)
        channels = [size for index, size in enumerate(observation.shape) if index not in plane]

        def as_image(array: np.ndarray) -> torch.Tensor:
            found = np.moveaxis(array, plane, (-2, -1)).reshape(1, -1, *image)
            return torch.tensor(np.ascontiguousarray(found), dtype=torch.float32, device=device)

        mask = as_image(observation.mask.astype(float))
        target = as_image((scaling.forward(observation.filled(1.0)) - centre) / spread) * mask
        weights = [torch.tensor(part, device=device, requires_grad=True) for part in self.initial(mask.shape[1], rng)]
        coordinates = np.meshgrid(*(np.linspace(-1, 1, size) for size in image), indexing="ij")
        given = torch.tensor(np.stack(coordinates)[np.newaxis], dtype=torch.float32, device=device)
        optimiser = torch.optim.Adam(weights, self.learning_rate)

        def estimate() -> FloatArray:
            with torch.no_grad():
                made = self.network(weights, given)[0].cpu().numpy().astype(float)
            return scaling.inverse(centre + spread * np.moveaxis(made.reshape(*channels, *image), (-2, -1), plane))

        for step in range(1, self.steps + 1):
            optimiser.zero_grad()
            (((self.network(weights, given) - target) * mask) ** 2).sum().div(mask.sum()).backward()
            optimiser.step()
            if report.due(step):
                report(step, estimate())
        return estimate()

    def initial(self, channels: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Kernels and biases: down and two up for each scale (He's normal), then one to the field's channels."""
        down, up = [2] + [self.width] * (self.depth - 1), [2 * self.width] * (self.depth - 1) + [self.width + 2]
        shapes = [*((self.width, inputs, 3, 3) for inputs in (*down, *up)), (channels, self.width, 1, 1)]
        kernels = [rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32) for shape in shapes]
        return [part for kernel in kernels for part in (kernel, np.zeros(len(kernel), np.float32))]

    def network(self, weights: list[torch.Tensor], given: torch.Tensor) -> torch.Tensor:
        """The field's image, shape (1, channels, rows, columns)."""
        import torch
        from torch.nn import functional

        layers = list(zip(weights[::2], weights[1::2], strict=True))
        finer, now = [], given
        for kernel, bias in layers[: self.depth]:
            finer.append(now)
            now = _active(functional.conv2d(now, kernel, bias, stride=2, padding=1))
        for kernel, bias in layers[self.depth : -1]:
            skipped = finer.pop()
            now = functional.interpolate(now, size=skipped.shape[-2:], mode="bilinear", align_corners=False)
            now = _active(functional.conv2d(torch.cat([now, skipped], dim=1), kernel, bias, padding=1))
        return functional.conv2d(now, *layers[-1])


def image_axes(names: Sequence[str]) -> tuple[int, int]:
    """The axes of latitude and longitude, or else the first two.

    >>> image_axes(["time", "lat", "lon"]), image_axes(["x", "y", "depth"])
    ((1, 2), (0, 1))
    """
    short = [name[:3] for name in names]
    return (short.index("lat"), short.index("lon")) if {"lat", "lon"} <= set(short) else (0, 1)


def _active(image: torch.Tensor) -> torch.Tensor:
    """Each channel normalised over the image, then a leaky rectifier."""
    from torch.nn import functional

    centred = image - image.mean(dim=(-2, -1), keepdim=True)
    scale = (centred**2).mean(dim=(-2, -1), keepdim=True).add(1e-5).sqrt()
    return functional.leaky_relu(centred / scale, 0.2)
