"""Checks of noises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fieldbench.conformance import examples
from fieldbench.conformance.check import fail, no_error
from fieldbench.conformance.general import NamedCheck, of_draws, same_arrays
from fieldbench.field import FloatArray
from fieldbench.noise import Noise


def of_noise(noise: Noise) -> Iterator[NamedCheck]:
    """The checks of a noise."""
    for order, shape in examples.SHAPES.items():
        yield f"works-in-{order}-d", partial(_works, noise, shape)
    yield from of_draws(f"drawing {noise}", partial(_draw, noise, examples.SHAPES[3]), same_arrays)
    yield "streams-differ", partial(_streams_differ, noise)


def _draw(noise: Noise, shape: Sequence[int], seed: int = 1) -> FloatArray:
    done = f"drawing {noise} of shape {tuple(shape)}"
    with no_error(done, "returns an array"):
        drawn = np.asarray(noise.draw(shape, np.random.default_rng(seed)))
    if drawn.shape != tuple(shape):
        fail(done, f"it has shape {drawn.shape}", "returns noise of the shape it is asked for")
    if drawn.dtype.kind != "f" or not np.isfinite(drawn).all():
        fail(done, f"it is {drawn.dtype} with {int((~np.isfinite(drawn)).sum())} entries not finite",
             "returns finite floating-point numbers")  # fmt: skip
    return drawn


def _works(noise: Noise, shape: Sequence[int]) -> None:
    _draw(noise, shape)


def _streams_differ(noise: Noise) -> None:
    shape = examples.SHAPES[3]
    first, second = _draw(noise, shape), _draw(noise, shape, seed=2)
    if np.array_equal(first, second) and np.ptp(first) > 0:
        fail(f"drawing {noise} from two seeds", "it is the same", "draws anew from the generator it is given")
