"""Checks of samplers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from fieldbench.conformance import examples, randomness
from fieldbench.conformance.check import fail
from fieldbench.conformance.general import Named
from fieldbench.errors import RequestError, one_line
from fieldbench.field import Mask, Observation
from fieldbench.sensing import Sampler

_SHAPES = {2: (20, 16), 3: (12, 10, 8), 4: (8, 7, 6, 5)}
_RATE = 0.5
_TOLERANCE = 0.15


def of_sampler(sampler: Sampler) -> Iterator[Named]:
    """The checks of a sampler."""
    for order in _SHAPES:
        yield f"works-in-{order}-d", partial(_draws_a_mask, sampler, order)
    yield "keeps-the-rate", partial(_keeps_the_rate, sampler)
    yield "observes-what-exists", partial(_observes_what_exists, sampler)
    yield "deterministic", partial(_deterministic, sampler)
    yield "global-random-state", partial(_global_random_state, sampler)
    yield "inputs-unmodified", partial(_inputs_unmodified, sampler)
    yield "small-rates", partial(_small_rates, sampler)
    yield "withholds-a-part", partial(_withholds_a_part, sampler)


def _draw(sampler: Sampler, existing: Mask, rate: float = _RATE, seed: int = 1) -> Mask:
    done = f"drawing a mask of shape {existing.shape} at rate {rate:g} by {sampler}"
    axes = examples.axes_of(existing.shape)
    try:
        mask = sampler.draw(existing, axes, rate, np.random.default_rng(seed))
    except RequestError:
        raise
    except Exception as error:
        fail(done, one_line(error), "returns a mask, or raises RequestError with the reason")
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != existing.shape:
        shown = f"{mask.dtype} array of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        fail(done, f"it returned a {shown}", "returns a boolean array of the field's shape, True = observed")
    return mask


def _whole(order: int) -> Mask:
    return np.ones(_SHAPES[order], dtype=bool)


def _draws_a_mask(sampler: Sampler, order: int) -> None:
    if not _draw(sampler, _whole(order)).any():
        fail(f"drawing a {order}-D mask at rate {_RATE:g} by {sampler}", "nothing is observed", "observes something")


def _keeps_the_rate(sampler: Sampler) -> None:
    for order in _SHAPES:
        share = float(_draw(sampler, _whole(order)).mean())
        if abs(share - _RATE) > _TOLERANCE:
            fail(
                f"drawing a {order}-D mask at rate {_RATE:g} by {sampler}",
                f"a share {share:.2f} of the entries is observed",
                "observes about the share it is asked for (True = observed)",
            )


def _observes_what_exists(sampler: Sampler) -> None:
    existing = _whole(3)
    existing[:5] = False
    observed = _draw(sampler, existing) & ~existing
    if observed.any():
        fail(
            f"drawing a mask by {sampler} for a field with gaps",
            f"{int(observed.sum())} entries that do not exist are observed",
            "observes only where existing is True",
        )


def _deterministic(sampler: Sampler) -> None:
    first = _draw(sampler, _whole(3))
    _draw(sampler, _whole(3), seed=2)
    if not np.array_equal(first, _draw(sampler, _whole(3))):
        fail(f"drawing a mask by {sampler} twice from one seed", "they differ", "draws from the given generator alone")


def _global_random_state(sampler: Sampler) -> None:
    first = _draw(sampler, _whole(3))
    with randomness.seeded(3):
        before = randomness.snapshot()
        second = _draw(sampler, _whole(3))
        touched = before != randomness.snapshot()
    if touched or not np.array_equal(first, second):
        fail(
            f"drawing a mask by {sampler} with another state of the global random generators",
            "the state changed" if touched else "the mask differs",
            "draws from the given generator and neither uses nor touches the global ones",
        )


def _inputs_unmodified(sampler: Sampler) -> None:
    existing = _whole(3)
    existing[0, 0] = False
    before = existing.copy()
    mask = _draw(sampler, existing)
    if not np.array_equal(existing, before) or np.shares_memory(mask, existing):
        fail(f"drawing a mask by {sampler}", "existing was changed or returned", "returns a new array")


def _small_rates(sampler: Sampler) -> None:
    try:
        _draw(sampler, _whole(3), rate=1e-4)
    except RequestError as error:
        if not str(error).strip():
            fail(f"drawing a mask by {sampler} at rate 0.0001", "the error is empty", "says what rate would be right")


def _withholds_a_part(sampler: Sampler) -> None:
    mask = _draw(sampler, _whole(3))
    done = f"withholding a tenth of a mask drawn by {sampler}"
    observation = Observation(np.zeros(mask.shape), mask, examples.axes_of(mask.shape))
    held, again = (sampler.withhold_from(observation, 0.1, np.random.default_rng(1)) for _ in range(2))
    if not np.array_equal(held, again):
        fail(done, "two draws from one seed differ", "draws from the given generator alone")
    if held.dtype != np.bool_ or held.shape != mask.shape or (held & ~mask).any():
        fail(done, "the result is no part of the mask", "withholds observed entries only (boolean, True = withheld)")
    if not 0 < held.sum() < mask.sum():
        fail(done, f"{int(held.sum())} of {int(mask.sum())} are withheld", "withholds some, never all")
