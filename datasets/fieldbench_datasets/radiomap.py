"""Radio maps: the power of several emitters over space and frequency (paper, section V-B)."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import model_validator

import fieldbench
from fieldbench import is_fiber_mask, parameter

_PAPER = "paper, section V-B"
_PROGRAM = "Shrestha, Fu, Hong 2022, released program"

#: Pairs of draws over which a floor is averaged: their chance is far below what is unknown of the field.
_PAIRS = 32


class RadioMap(fieldbench.Dataset):
    """Simulated radio map: emitters with path loss and correlated shadowing, drawn anew each trial.

    The field is the sum over emitters of (spatial loss function) outer (power spectrum), both of unit norm,
    in linear power; typically its maximum is about 0.1 and its median about 1e-3. The number of emitters
    is given to methods (``observation.metadata["emitters"]``), as the paper gives it to Nasdac and DowJons.
    """

    name = "radiomap"
    revision = "1"
    default_sampler = "fibers"
    default_rates = (0.1,)
    metric = "slnre"

    emitters: int = parameter(7, "number of emitters (R)", ge=1, source=_PAPER)
    eta: float = parameter(6.0, "standard deviation of the shadowing", unit="dB", ge=0, source=_PAPER)
    decorrelation: float = parameter(
        50.0, "distance at which the shadowing's correlation is 1/e (d_corr)", unit="grid steps", gt=0, source=_PAPER
    )
    grid: tuple[int, int] = parameter((51, 51), "grid points along x and y", source=_PAPER)
    bins: int = parameter(64, "frequency bins", ge=1, source=_PAPER)
    exponent: tuple[float, float] = parameter(
        (2.0, 2.5), "range of the path loss exponents, drawn uniformly", source=_PROGRAM
    )
    flat_radius: float = parameter(
        2.0, "distance within which there is no path loss", unit="grid steps", gt=0, source=_PROGRAM
    )
    lobes: int = parameter(
        15,
        "lobes of each spectrum at centres that all emitters share; at most as many as fit, every second bin "
        "from 3 R + 3 to two below the last (the paper says 10 bands in all, lobes=9)",
        ge=0,
        source=_PROGRAM,
    )
    private: bool = parameter(True, "whether each emitter also has a lobe nearly to itself", source=_PROGRAM)
    amplitude: tuple[float, float] = parameter(
        (0.5, 2.0), "range of the lobes' amplitudes, drawn uniformly (the paper says 0.5 to 2.5)", source=_PROGRAM
    )
    width: tuple[float, float] = parameter(
        (2.0, 4.0), "range of the half-widths of shared lobes, drawn uniformly", unit="bins", source=_PAPER
    )
    private_width: tuple[float, float] = parameter(
        (2.0, 4.3), "range of the half-widths of private lobes, drawn uniformly", unit="bins", source=_PROGRAM
    )
    log_floor: float = parameter(
        1e-6,
        "power added before taking logarithms, by methods and by slnre, on the unit-norm scale of the maps",
        gt=0,
        source=_PROGRAM,
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if min(self.grid) < 2:
            raise ValueError(f"grid must have at least 2x2 points, not {self.grid[0]}x{self.grid[1]}")
        for key in ("exponent", "amplitude", "width", "private_width"):
            low, high = getattr(self, key)
            if not 0 < low <= high:
                raise ValueError(f"{key} must be a range (low,high) with 0 < low <= high, not ({low:g},{high:g})")
        if self.shared_lobes == 0 and not self.private:
            raise ValueError("without private lobes and with no shared one the spectra are empty; raise lobes or bins")
        last = 2 + 2.2 * (self.emitters - 1)
        if self.private and last > self.bins:
            raise ValueError(f"{self.emitters} private lobes reach bin {last:.3g}; raise bins, or say private=false")
        if self.shared_lobes == 0 and self._narrowest_lobes_miss_every_bin():
            raise ValueError(
                f"private lobes as narrow as {self.private_width[0]:g} fall between the bins, and no shared lobe fills "
                "the empty spectrum; let private_width begin at 0.5 or more"
            )
        return self

    def _narrowest_lobes_miss_every_bin(self) -> bool:
        from fieldbench_datasets.propagation import lobe, private_centres

        lobes = lobe(self.bins, private_centres(self.emitters), self.private_width[0])
        return not lobes.any(axis=-1).all()

    @property
    def shared_lobes(self) -> int:
        """The number of shared lobes of each spectrum: :attr:`lobes`, or as many as fit."""
        from fieldbench_datasets.propagation import shared_centres

        return min(self.lobes, len(shared_centres(self.emitters, self.bins)))

    def factors(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The factors of one map: what :meth:`draw` multiplies, and how they would be without shadowing.

        Returns:
            Spatial loss functions, shape (emitters, *grid), power spectra, shape (emitters, bins), and the path loss
            in the spatial loss functions, of their shape.
        """
        from fieldbench_datasets import propagation

        losses, paths = propagation.losses_and_paths(
            self.emitters,
            rng,
            grid=self.grid,
            eta=self.eta,
            decorrelation=self.decorrelation,
            exponent=self.exponent,
            flat_radius=self.flat_radius,
            blocked=self.blocked,
        )
        spectra = propagation.power_spectra(
            self.emitters,
            rng,
            bins=self.bins,
            lobes=self.shared_lobes,
            private=self.private,
            amplitude=self.amplitude,
            width=self.width,
            private_width=self.private_width,
        )
        return losses, spectra, paths

    def blocked(self, emitters: np.ndarray, rng: np.random.Generator) -> np.ndarray | float:
        """The share of its power that each emitter's path keeps beside path loss and shadowing: all of it.

        Args:
            emitters: positions, shape (emitters, 2), in grid steps.
            rng: the only source of randomness.

        Returns:
            Shape (emitters, *grid), or one number for all.
        """
        return 1.0

    def floor(self, field: fieldbench.Field, observation: fieldbench.Observation) -> fieldbench.Estimate | None:
        """What is known where each emitter's spectrum, path loss and power at the sensors are.

        The shadowing in decibels is Gaussian, so its conditional distribution is exact; the estimate is the mean of
        the logarithm over draws from it, in pairs of opposite sign. Only of fibers without noise.
        """
        mask = observation.mask
        if not is_fiber_mask(mask) or not np.array_equal(observation.observed, field.values[mask]):
            return None
        from scipy.linalg import cho_factor, cho_solve

        from fieldbench_datasets.propagation import shadowing_factor

        losses, spectra, paths = field.latent
        factor, seen = shadowing_factor(self.grid, self.decorrelation), mask[..., 0].ravel()
        towards = factor[seen] @ factor.T
        weights = cho_solve(cho_factor(towards[:, seen]), towards)
        without, decibels = (np.log(item).reshape(self.emitters, -1) for item in (paths, losses / paths))
        mean = without + decibels[:, seen] @ weights
        unknown = np.maximum(1 - np.einsum("nm,nm->m", towards, weights), 0)
        deviation = self.eta * np.log(10) / 10 * np.sqrt(unknown)
        total = np.zeros((mean.shape[1], self.bins))
        rng = np.random.default_rng(0)  # of the integral alone: the same draw has the same floor
        for normals in rng.normal(size=(_PAIRS, self.emitters, 1)):
            for sign in (1, -1):
                power = np.exp(mean + sign * deviation * normals).T @ spectra
                total += np.log(power + self.log_floor)
        logarithm = total.reshape(field.shape) / (2 * _PAIRS)
        return fieldbench.Estimate(np.where(mask, field.values, np.exp(logarithm) - self.log_floor))

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        losses, spectra, paths = self.factors(rng)
        axes = (
            fieldbench.Axis.regular("x", self.grid[0], unit="grid step"),
            fieldbench.Axis.regular("y", self.grid[1], unit="grid step"),
            fieldbench.Axis.regular("frequency", self.bins, unit="bin", origin=1.0),
        )
        return fieldbench.Field(
            np.einsum("rij,rk->ijk", losses, spectra),
            axes,
            quantity="power",
            log_floor=self.log_floor,
            metadata={"emitters": self.emitters},
            latent=(losses, spectra, paths),
        )


class RadioMap1(RadioMap):
    """Radio map 1 of the paper: 7 emitters, shadowing of 6 dB, decorrelation distance 50."""

    name = "radiomap1"
    revision = "1"


class RadioMap2(RadioMap):
    """Radio map 2 of the paper: 10 emitters, shadowing of 9 dB (or eta=10, eta=12), decorrelation distance 50."""

    name = "radiomap2"
    revision = "1"

    emitters: int = parameter(10, "number of emitters (R)", ge=1, source=_PAPER)
    eta: float = parameter(
        9.0, "standard deviation of the shadowing; the paper has 9, 10 and 12", unit="dB", ge=0, source=_PAPER
    )


class RadioMapWalls(RadioMap):
    """A radio map with walls: each wall that a path crosses takes a part of the power, so that shadows have edges.

    Emitters, shadowing and spectra are those of radiomap. Walls are straight, of random position and direction;
    receivers behind one are ``wall_loss`` darker. A rate is the share of positions with a receiver.
    """

    name = "radiomap-walls"
    revision = "1"

    walls: int = parameter(4, "number of walls", ge=0)
    wall_length: tuple[float, float] = parameter((10.0, 30.0), "range of their lengths", unit="grid steps")
    wall_loss: float = parameter(10.0, "loss of a path for each wall that it crosses", unit="dB", ge=0)

    def blocked(self, emitters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        from fieldbench_datasets.propagation import crossings

        middle = rng.uniform(0, 1, (self.walls, 2)) * (np.asarray(self.grid) - 1)
        angle = rng.uniform(0, np.pi, self.walls)
        half = rng.uniform(*self.wall_length, self.walls) / 2 * np.array([np.cos(angle), np.sin(angle)])
        ends = np.stack([middle - half.T, middle + half.T], axis=1)
        return 10 ** (-self.wall_loss / 10 * crossings(emitters, ends, self.grid))
