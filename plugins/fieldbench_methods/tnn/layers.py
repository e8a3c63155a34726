"""The tensor neural network in plain torch, for a batch of trials: the definition of what the fast engine computes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fieldbench_methods.fieldformer.tucker import expand


def forward(parameters: Sequence[Tensor]) -> Tensor:
    """Estimates (B, I_1, .., I_L) of weights in the order of :attr:`TensorNetwork.parameter_shapes`."""
    core, *factors = parameters
    order = len(factors) // 2
    hidden = expand(core, factors[:order]).relu()
    return expand(hidden, factors[order:]).tanh()
