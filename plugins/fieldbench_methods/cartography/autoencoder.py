"""The completion autoencoder: from a sparsely observed spatial loss field to a complete one.

Architecture of Shrestha, Fu and Hong, "Deep spectrum cartography: completing radio map tensors using
learned neural models", IEEE Transactions on Signal Processing 70, 2022. A spatial loss field (SLF) is how
the power of one emitter spreads over the plane, here a 51 x 51 array of unit Frobenius norm.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fieldbench_methods.cartography.layers import Doubling, FewChannels, FromPoint, WholeInput

SIDE = 51
LATENT = 256


class Autoencoder(nn.Module):
    """936,631 parameters; an encoder to 256 numbers and a decoder from them to 51 x 51 values in (0, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(2, 16, 4, stride=2, padding=1, bias=False),
            nn.SELU(),
            *_normalised(nn.Conv2d(16, 32, 4, stride=2, padding=1, bias=False)),
            *_normalised(nn.Conv2d(32, 64, 4, stride=2, padding=1, bias=False)),
            *_normalised(nn.Conv2d(64, 128, 4, stride=2, padding=1, bias=False)),
            *_normalised(WholeInput(128, LATENT, 3, bias=False)),
            nn.Flatten(),
        )
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (LATENT, 1, 1)),
            *_normalised(FromPoint(LATENT, 128, 3)),
            *_normalised(nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1)),
            *_normalised(nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1)),
            *_normalised(nn.ConvTranspose2d(32, 16, 4, stride=2)),
            *_normalised(Doubling(16, 2, 4, stride=2)),
            FewChannels(2, 1, 4),
            nn.Sigmoid(),
        )

    def encode(self, mask: Tensor, values: Tensor) -> Tensor:
        """Latent vectors, shape (fields, 256), of fields known where ``mask`` is True.

        Args:
            mask: boolean, (fields, 51, 51), True = observed.
            values: (fields, 51, 51), finite at observed pixels; unobserved ones are not looked at.
        """
        seen = torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))
        latent: Tensor = self.encoder(torch.stack([mask.to(values.dtype), seen], dim=1))
        return latent

    def decode(self, latent: Tensor) -> Tensor:
        """Complete fields, shape (fields, 51, 51), of latent vectors (fields, 256)."""
        fields: Tensor = self.decoder(latent)
        return fields.squeeze(1)

    def forward(self, mask: Tensor, values: Tensor) -> Tensor:
        return self.decode(self.encode(mask, values))


def _normalised(convolution: nn.Conv2d | nn.ConvTranspose2d) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(convolution.out_channels), nn.SELU()]


def initialised(seed: int) -> Autoencoder:
    """A network to start training from, the same for the same seed.

    Two departures from torch's defaults save the first thousands of steps. The values of a unit-norm field
    are about 1/51, the mask is 0 or 1: the weights on the values start 51 times larger, so that both
    channels matter from the start. And the output starts near the mean of such fields instead of at 1/2.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Autoencoder()
    first, last = network.encoder[0], network.decoder[-2]
    with torch.no_grad():
        first.weight[:, 1] *= SIDE
        last.bias.fill_(-5.0)
    return network
