"""Convolutions of the autoencoder that torch computes slowly on a CPU, rearranged.

Each is one of torch's layers, with its parameters and its result, which the parent's ``forward`` defines;
only the order of computation differs. Together they halve the time of a training step on one core.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class WholeInput(nn.Conv2d):
    """A convolution whose kernel is as large as its input, without bias: a matrix product.

    (fields, in, k, k) becomes (fields, out, 1, 1).
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input.flatten(1), self.weight.flatten(1))[:, :, None, None]


class FromPoint(nn.ConvTranspose2d):
    """A transposed convolution of a single pixel: a matrix product.

    (fields, in, 1, 1) becomes (fields, out, k, k).
    """

    def forward(self, input: Tensor) -> Tensor:
        spread = (input.flatten(1) @ self.weight.flatten(1)).unflatten(1, self.weight.shape[1:])
        return spread + self.bias[:, None, None]


class Doubling(nn.ConvTranspose2d):
    """A transposed convolution with kernel 4 and stride 2, no padding.

    Of the output pixels, those of one parity along each axis depend on 2 x 2 input pixels by 2 x 2 of the
    kernel's weights: an ordinary convolution gives the four kinds as channels, which are then interleaved.
    (fields, in, n, n) becomes (fields, out, 2 n + 2, 2 n + 2).
    """

    def forward(self, input: Tensor) -> Tensor:
        into, out = self.weight.shape[:2]
        by_parity = self.weight.reshape(into, out, 2, 2, 2, 2).flip(2, 4)  # in, out, y step, y parity, x step, x parity
        kernel = by_parity.permute(1, 3, 5, 0, 2, 4).reshape(4 * out, into, 2, 2)
        return functional.pixel_shuffle(functional.conv2d(input, kernel, self.bias.repeat_interleave(4), padding=1), 2)


class FewChannels(nn.Conv2d):
    """A convolution with kernel 4 and one output channel, on inputs of even size, no padding.

    Works on blocks of 2 x 2 pixels as channels, on which the kernel is 3 x 3 blocks with the original
    weights at the block's four offsets. (fields, in, n, n) becomes (fields, 1, n - 3, n - 3).
    """

    def forward(self, input: Tensor) -> Tensor:
        into, size = input.shape[1], input.shape[2]
        offset = [
            functional.pad(self.weight, (right, 2 - right, down, 2 - down)) for down in range(2) for right in range(2)
        ]
        blocks = torch.cat(offset).reshape(4, into, 3, 2, 3, 2)  # offset, in, y block, y inside, x block, x inside
        kernel = blocks.permute(0, 1, 3, 5, 2, 4).reshape(4, 4 * into, 3, 3)
        padded = functional.pixel_unshuffle(functional.pad(input, (0, 2, 0, 2)), 2)
        output = functional.pixel_shuffle(functional.conv2d(padded, kernel, self.bias.expand(4)), 2)
        return output[:, :, : size - 3, : size - 3]
