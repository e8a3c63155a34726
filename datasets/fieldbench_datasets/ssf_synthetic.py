"""A simulated sound speed field of the kind and size of the measured one; needs no download."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import model_validator

import fieldbench
from fieldbench import parameter
from fieldbench_datasets.ssf import ocean_axes

_SIZE = "as the measured field `ssf`"


class SyntheticSoundSpeedField(fieldbench.Dataset):
    """Simulated ocean sound speed: canonical profile, mesoscale eddies, internal waves; drawn anew each trial.

    Water of a Munk profile under a mixed layer is displaced by Gaussian eddies in the first baroclinic mode
    and by a Garrett-Munk field of internal waves; the mixed layer has warm and cold patches. Shape, spacing
    and standard deviation (2.9 m/s over many draws, from about 1.8 near the surface to 4.4 at 190 m) are
    those of `ssf`; as there, the mean of each depth is removed. The sea floor is at 4000 m.
    """

    name = "ssf-synthetic"
    revision = "1"

    shape: tuple[int, int, int] = parameter((20, 20, 20), "points along x, y and depth", source=_SIZE)
    spacing: tuple[float, float, float] = parameter(
        (8.0, 8.0, 10.0), "distance between points along x, y (km) and depth (m)", unit="km, km, m", source=_SIZE
    )
    mean: bool = parameter(False, "keep the mean profile: absolute sound speed")
    latitude: float = parameter(18.0, "sets the inertial frequency", unit="degrees", gt=0, le=90)
    mixed_layer: float = parameter(60.0, "depth of the mixed layer", unit="m", gt=0)
    eddies: int = parameter(12, "number of eddies in the area and a margin around it", ge=0)
    eddy_radius: tuple[float, float] = parameter(
        (30.0, 80.0), "range of the eddies' radii (standard deviation of the bell), drawn uniformly", unit="km"
    )
    eddy_displacement: float = parameter(
        160.0, "standard deviation of an eddy's displacement where its mode is strongest", unit="m", ge=0
    )
    internal_waves: float = parameter(1.0, "displacement by internal waves, as a multiple of Garrett-Munk", ge=0)
    modes: int = parameter(20, "vertical modes of the internal waves", ge=1)
    surface_anomaly: float = parameter(
        1.1, "standard deviation of temperature in the mixed layer", unit="degrees", ge=0
    )
    surface_length: float = parameter(70.0, "correlation length of that temperature", unit="km", gt=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        from fieldbench_datasets.ocean import SEA_FLOOR

        if min(self.shape) < 1 or min(self.spacing) <= 0:
            raise ValueError("shape and spacing must be positive")
        deepest = (self.shape[2] - 1) * self.spacing[2]
        if deepest > SEA_FLOOR:
            raise ValueError(
                f"{self.shape[2]} points {self.spacing[2]:g} m apart reach {deepest:g} m, below the sea floor at "
                f"{SEA_FLOOR:g} m; lower shape or spacing along depth"
            )
        if not 0 < self.eddy_radius[0] <= self.eddy_radius[1]:
            low, high = self.eddy_radius
            raise ValueError(f"eddy_radius must be a range (low,high) with 0 < low <= high, not ({low:g},{high:g})")
        return self

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        from fieldbench_datasets import ocean

        axes = ocean_axes(self.shape, self.spacing)
        x, y, depth = (np.asarray(axis.coordinates, dtype=np.float64) for axis in axes)
        eddies = self.eddy_displacement * ocean.eddy_pattern(x, y, self.eddies, self.eddy_radius, rng)
        displacement = eddies[:, :, np.newaxis] * ocean.mode_shapes(depth, 1)[0]
        shortest = 2 * max(self.spacing[:2])
        displacement += self.internal_waves * ocean.internal_waves(
            x, y, depth, self.latitude, self.modes, shortest, rng
        )
        origin = depth - displacement  # the depth that the water now at `depth` rests at
        warmth = self.surface_anomaly * ocean.gaussian_pattern(x, y, self.surface_length, rng)
        speed = (
            ocean.potential_speed(origin, self.mixed_layer)
            + ocean.ADIABATIC_GRADIENT * depth
            + ocean.temperature_sensitivity(25.0)
            * warmth[:, :, np.newaxis]
            * ocean.mixed_layer_share(origin, self.mixed_layer)
        )
        if self.mean:
            return fieldbench.Field(speed, axes, "m/s", "sound speed")
        anomaly = speed - speed.mean(axis=(0, 1), keepdims=True)
        return fieldbench.Field(anomaly, axes, "m/s", "sound speed anomaly")
