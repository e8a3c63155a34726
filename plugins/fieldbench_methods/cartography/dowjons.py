"""DowJons: search the prior's latent space for the emitters that explain the measurements best.

From Nasdac's answer it alternates: spectra by non-negative least squares for fixed spatial losses, then
a few gradient steps on the latent vectors of the spatial losses for fixed spectra. The decoder stays as
it is, so every spatial loss remains one that the prior finds plausible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldbench_methods.cartography.autoencoder import Autoencoder
from fieldbench_methods.cartography.nasdac import Separated, latent, radio_map
from fieldbench_methods.cartography.separation import Array


@dataclass(frozen=True)
class CodeSearch:
    """How long and how fast to search; see :class:`fieldbench_methods.cartography.methods.DowJons`."""

    rounds: int
    steps: int
    learning_rate: float
    tolerance: float


@dataclass(frozen=True)
class Round:
    """The state after one round: spatial losses (emitters, 51, 51), spectra (emitters, bins), and the
    Frobenius norm of what they leave unexplained at the sensors."""

    losses: Array
    spectra: Array
    residual: float

    @property
    def estimate(self) -> Array:
        return radio_map(self.losses, self.spectra)


def rounds(network: Autoencoder, separated: Separated, search: CodeSearch) -> Iterator[Round]:
    """The search, round by round, until a round improves the residual by less than the tolerance.

    Args:
        network: the trained prior.
        separated: what the sensors say of each emitter.
        search: number of rounds, and how long each is.
    """
    measured = torch.from_numpy(separated.power.astype(np.float32))
    sensors = torch.from_numpy(separated.sensors)
    with torch.no_grad():
        code = latent(network, separated)
        losses = network.decode(code)
    last = np.inf
    for _ in range(search.rounds):
        spectra = spectra_for(losses.double().numpy()[:, separated.sensors], separated.power)
        code = _improved(network, code, torch.from_numpy(spectra.astype(np.float32)), sensors, measured, search)
        with torch.no_grad():
            losses = network.decode(code)
        complete = losses.double().numpy()
        residual = float(np.linalg.norm(complete[:, separated.sensors].T @ spectra - separated.power))
        yield Round(complete, spectra, residual)
        if last - residual < search.tolerance:
            return
        last = residual


def spectra_for(losses: Array, power: Array) -> Array:
    """Non-negative least squares, bin by bin, of the measured power on the spatial losses.

    Args:
        losses: spatial losses at the sensors, shape (emitters, sensors).
        power: shape (sensors, bins).

    Returns:
        Shape (emitters, bins). The problem is first reduced by a QR factorisation, which does not change
        its solution.
    """
    from scipy.optimize import nnls

    orthogonal, triangular = np.linalg.qr(losses.T)
    projected = orthogonal.T @ power
    return np.stack([nnls(triangular, column)[0] for column in projected.T], axis=1)


def _improved(
    network: Autoencoder, code: Tensor, spectra: Tensor, sensors: Tensor, measured: Tensor, search: CodeSearch
) -> Tensor:
    """Latent vectors after Adam steps, with a fresh optimiser, on the summed squared error at the sensors."""
    code = code.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([code], lr=search.learning_rate)
    for _ in range(search.steps):
        at_sensors = network.decode(code)[:, sensors]
        loss = (at_sensors.T @ spectra - measured).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return code.detach()
