"""Nasdac: separate the emitters at the sensors, complete each with the autoencoder, put them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldbench_methods.cartography.autoencoder import Autoencoder
from fieldbench_methods.cartography.separation import Array, separate


@dataclass(frozen=True)
class Separated:
    """What is known of the emitters before completion.

    Attributes:
        sensors: boolean, (51, 51), True = a sensor stands there.
        power: what the sensors measured, (sensors, bins), sensors in C order.
        losses: spatial losses at the sensors, (emitters, sensors).
        spectra: power spectra of unit norm, (emitters, bins).
    """

    sensors: np.ndarray
    power: Array
    losses: Array
    spectra: Array

    @classmethod
    def of(cls, sensors: np.ndarray, power: Array, emitters: int) -> Separated:
        """Separate what the emitters sum up to.

        Args:
            sensors: where power was measured, boolean array (51, 51).
            power: measured power, shape (sensors, bins).
            emitters: their number.
        """
        return cls(sensors, power, *separate(power, emitters))


def latent(network: Autoencoder, separated: Separated) -> Tensor:
    """The encoder's view of each emitter's incomplete spatial loss, shape (emitters, 256)."""
    emitters = len(separated.losses)
    incomplete = np.zeros((emitters, *separated.sensors.shape), dtype=np.float32)
    incomplete[:, separated.sensors] = separated.losses
    mask = torch.from_numpy(separated.sensors).expand(emitters, -1, -1)
    return network.encode(mask, torch.from_numpy(incomplete))


def radio_map(losses: Array, spectra: Array) -> Array:
    """Sum over emitters of spatial loss (emitters, 51, 51) outer spectrum (emitters, bins)."""
    return np.einsum("rij,rk->ijk", losses, spectra)


def complete(network: Autoencoder, separated: Separated) -> Array:
    """The complete radio map, shape (51, 51, bins)."""
    with torch.no_grad():
        losses = network.decode(latent(network, separated))
    return radio_map(losses.double().numpy(), separated.spectra)
