"""Checks of samplers and noises."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fieldbench.conformance import examples
from fieldbench.conformance.check import NotChecked, fail, no_error
from fieldbench.conformance.general import NamedCheck, named, of_draws, unmodified
from fieldbench.errors import RequestError, one_line
from fieldbench.field import FloatArray, Mask, Observation
from fieldbench.noise import Noise
from fieldbench.sampler import Sampler

_SHAPES = {2: (20, 16), 3: (12, 10, 8), 4: (8, 7, 6, 5)}
_RATE = 0.5
_TOLERANCE = 0.15

#: Neither is the other's complement, nor near a half: a mask the wrong way round has another share, and so has one
#: that does not look at the rate.
_RATES = (0.3, 0.8)

#: Shares to withhold, and how far off a sampler may be that withholds a whole slice of the few that there are.
_WITHHELD, _COARSENESS = (0.1, 0.5), 0.25


def of_sampler(sampler: Sampler) -> Iterator[NamedCheck]:
    """The checks of a sampler."""
    for order in _SHAPES:
        yield f"works-in-{order}-d", partial(_draws_a_mask, sampler, order)
    yield from named([_keeps_the_rate, _observes_what_exists], sampler)
    draw = partial(_draw, sampler)
    yield from of_draws(f"drawing a mask by {sampler}", lambda seed: draw(_some(sampler), seed=seed))
    yield from named([_inputs_unmodified, _small_rates, _withholds_a_part], sampler)


class Refusal(NotChecked):
    """The sampler says that it cannot draw such a mask, as it may."""


def _draw(sampler: Sampler, valid: Mask, rate: float = _RATE, seed: int = 1) -> Mask:
    done = f"drawing a mask of shape {valid.shape} at rate {rate:g} by {sampler}"
    axes = examples.axes_of(valid.shape)
    try:
        mask = sampler.draw(valid, axes, rate, np.random.default_rng(seed))
    except RequestError as error:
        if not str(error).strip():
            fail(done, "it is refused with an empty error", "says what is wrong and what would be right")
        raise Refusal(f"{done}: {error}") from error
    except Exception as error:
        fail(done, one_line(error), "returns a mask, or raises RequestError with the reason")
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != valid.shape:
        shown = f"{mask.dtype} array of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        fail(done, f"it returned a {shown}", "returns a boolean array of the field's shape, True = observed")
    return mask


def _whole(order: int) -> Mask:
    return np.ones(_SHAPES[order], dtype=bool)


def _some(sampler: Sampler) -> Mask:
    """A field that exists everywhere, of the first tensor order that the sampler takes."""
    for order in (3, 2):
        with contextlib.suppress(Refusal):
            _draw(sampler, _whole(order))
            return _whole(order)
    return _whole(4)


def _draws_a_mask(sampler: Sampler, order: int) -> None:
    if not _draw(sampler, _whole(order)).any():
        fail(f"drawing a {order}-D mask at rate {_RATE:g} by {sampler}", "nothing is observed", "observes something")


def _keeps_the_rate(sampler: Sampler) -> None:
    refusals = []
    for order, rate in itertools.product(_SHAPES, _RATES):
        try:
            share = float(_draw(sampler, _whole(order), rate).mean())
        except Refusal as refusal:
            refusals.append(refusal)
            continue
        if abs(share - rate) > _TOLERANCE:
            fail(
                f"drawing a {order}-D mask at rate {rate:g} by {sampler}",
                f"a share {share:.2f} of the entries is observed",
                "observes about the share it is asked for (True = observed)",
            )
    if len(refusals) == len(_SHAPES) * len(_RATES):
        raise refusals[0]


def _observes_what_exists(sampler: Sampler) -> None:
    valid = _some(sampler)
    valid[:5] = False
    observed = _draw(sampler, valid) & ~valid
    if observed.any():
        fail(
            f"drawing a mask by {sampler} for a field with gaps",
            f"{int(observed.sum())} entries that do not exist are observed",
            "observes only where valid is True",
        )


def _inputs_unmodified(sampler: Sampler) -> None:
    valid = _some(sampler)
    valid[0, 0] = False
    done, right = f"drawing a mask by {sampler}", "returns a new array"
    with unmodified(done, {"valid": valid}, right):
        mask = _draw(sampler, valid)
    if np.shares_memory(mask, valid):
        fail(done, "valid was returned", right)


def _small_rates(sampler: Sampler) -> None:
    with contextlib.suppress(Refusal):
        _draw(sampler, _some(sampler), rate=1e-4)


def _withholds_a_part(sampler: Sampler) -> None:
    mask = _draw(sampler, _some(sampler))
    observation = Observation(np.zeros(mask.shape), mask, examples.axes_of(mask.shape))
    for share in _WITHHELD:
        done = f"withholding a share {share:g} of a mask drawn by {sampler}"
        try:
            withheld, again = (sampler.withhold_from(observation, share, np.random.default_rng(1)) for _ in range(2))
        except RequestError as error:
            raise Refusal(f"{done}: {error}") from error
        if not np.array_equal(withheld, again):
            fail(done, "two draws from one seed differ", "draws from the given generator alone")
        if withheld.dtype != np.bool_ or withheld.shape != mask.shape or (withheld & ~mask).any():
            fail(
                done, "the result is not part of the mask", "withholds observed entries only (boolean, True = withheld)"
            )
        count, total = int(withheld.sum()), int(mask.sum())
        if not 0 < count < total:
            fail(done, f"{count} of {total} are withheld", "withholds some, never all")
        if abs(count / total - share) > _COARSENESS:
            fail(done, f"{count} of {total} are withheld", "withholds about the share it is asked for")


def of_noise(noise: Noise) -> Iterator[NamedCheck]:
    """The checks of a noise."""
    for order, shape in examples.SHAPES.items():
        yield f"works-in-{order}-d", partial(_draw_noise, noise, shape)
    yield from of_draws(f"drawing {noise}", partial(_draw_noise, noise, examples.SHAPES[3]))
    yield from named([_streams_differ], noise)


def _draw_noise(noise: Noise, shape: Sequence[int], seed: int = 1) -> FloatArray:
    done = f"drawing {noise} of shape {tuple(shape)}"
    with no_error(done, "returns an array"):
        drawn = np.asarray(noise.draw(shape, np.random.default_rng(seed)))
    if drawn.shape != tuple(shape):
        fail(done, f"it has shape {drawn.shape}", "returns noise of the shape it is asked for")
    if drawn.dtype.kind != "f" or not np.isfinite(drawn).all():
        fail(done, f"it is {drawn.dtype} with {int((~np.isfinite(drawn)).sum())} entries not finite",
             "returns finite floating-point numbers")  # fmt: skip
    return drawn


def _streams_differ(noise: Noise) -> None:
    shape = examples.SHAPES[3]
    first, second = _draw_noise(noise, shape), _draw_noise(noise, shape, seed=2)
    if np.array_equal(first, second) and np.ptp(first) > 0:
        fail(f"drawing {noise} from two seeds", "it is the same", "draws anew from the generator it is given")
