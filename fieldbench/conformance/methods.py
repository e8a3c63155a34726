"""Checks of completion methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fieldbench.conformance import examples
from fieldbench.conformance.check import NotChecked, fail, no_error
from fieldbench.conformance.examples import Example
from fieldbench.conformance.general import NamedCheck, named, unmodified, with_global_seed
from fieldbench.errors import one_line
from fieldbench.estimate import Estimate, as_estimate, as_field_array
from fieldbench.field import FloatArray, Observation
from fieldbench.method import Method, NullReport, Report
from fieldbench.spec import format_value

#: As large as the seeds of real trials can be: 32 bits.
SEED = 2**32 - 12345

#: Relative to the largest magnitude of the estimate. Scaling by a power of two rounds nothing, so that only
#: what a method adds on its own scale can differ; a GPU sums in another order, in single precision.
SCALE, SCALING_TOLERANCE, GPU_TOLERANCE = 1024.0, 1e-6, 1e-2

#: Points of a search space that are drawn and tried, beside its corners.
DRAWN_POINTS = 3


class Everything:
    """A report that wants every estimate and keeps them."""

    threads = 1

    def __init__(self) -> None:
        self.received: list[tuple[Any, Any, dict[str, Any]]] = []

    @property
    def steps(self) -> list[Any]:
        """The steps of all reports, in the order in which they came."""
        return [step for step, _, _ in self.received]

    def due(self, step: int) -> bool:
        return True

    def __call__(self, step: int, estimate: ArrayLike | Estimate, **diagnostics: float) -> None:
        self.received.append((step, as_field_array(as_estimate(estimate).mean).copy(), diagnostics))


class MethodUnderCheck:
    """A method with the observations that it is tried on."""

    def __init__(self, method: Method, observation: Observation | None) -> None:
        self.method = method
        self._given = observation

    @cached_property
    def example(self) -> Example:
        """The first ordinary observation that the method is applicable to."""
        if self._given is not None:
            return Example("the given observation", self._given)
        declared = self.method.orders or tuple(examples.SHAPES)
        orders = [order for order in (3, 2, 4) if order in declared]  # most methods are made for 3-D
        reasons = []
        for example in examples.ordinary(orders):
            reason = self.refusal(example)
            if reason is None:
                return example
            reasons.append(f"{example.words}: {reason}")
        fail(
            f"looking for a small observation that {self.method} can complete",
            "; ".join(reasons) or f"there is none of order {self.method.orders}",
            "can complete one of these, or is checked with an observation of its own: checks(method, observation=...)",
        )

    @cached_property
    def estimate(self) -> FloatArray:
        """The estimate for :attr:`example`."""
        return self.complete(self.example)

    def refusal(self, example: Example) -> str | None:
        """Why the method does not take this observation, or None."""
        return self.inapplicable(example) or self.contradiction(example.observation.shape)

    def inapplicable(self, example: Example) -> str | None:
        """What ``applicable`` says to an observation: a reason, or None."""
        done = f"asking applicable() about {example.words}"
        with no_error(done, "returns None or the reason, and raises nothing"):
            reason = self.method.applicable(example.observation)
        if reason is not None and not (isinstance(reason, str) and reason.strip()):
            fail(done, f"the answer is {reason!r}", "returns None if it can work, else a reason in words")
        return reason

    def contradiction(self, shape: tuple[int, ...]) -> str | None:
        """What ``check_shape`` says against a shape, or None."""
        right = "raises ValueError for a shape that contradicts its parameters, and nothing else"
        with no_error(f"calling check_shape({shape})", right):
            try:
                self.method.check_shape(shape)
            except ValueError as error:
                return str(error) or "check_shape() raises ValueError"
        return None

    def complete(self, example: Example, **how: Any) -> FloatArray:
        """Complete a copy of one observation, as told by :meth:`made`, and see that the result is a field."""
        return self.inspected(self.made(example, **how), example)

    def made(
        self, example: Example, *, seed: int = SEED, device: str = "cpu", report: Report | None = None
    ) -> ArrayLike | Estimate:
        """What the method returns for a copy of one observation.

        Args:
            example: the observation, and its description for failures.
            seed: of the method.
            device: as :meth:`fieldbench.Method.complete` gets it.
            report: listener; one that hears nothing where None.
        """
        copy = copied(example.observation)
        with no_error(f"completing {example.words}", "returns an estimate, or says in applicable() why it cannot"):
            return self.method.complete(copy, seed=seed, device=device, report=report or NullReport())

    def inspected(self, made: Any, example: Example) -> FloatArray:
        """The mean of an estimate as an array, which must be real, of the right shape, and finite."""
        done, observation = f"completing {example.words}", example.observation
        estimate = as_estimate(made).mean
        try:
            array = np.asarray(estimate.detach().cpu().numpy() if hasattr(estimate, "detach") else estimate)
        except Exception as error:
            fail(done, f"what complete() returned is not an array ({error})", "returns an array")
        if array.dtype.kind not in "fiu":
            fail(done, f"complete() returned dtype {array.dtype}", "returns real numbers")
        if array.shape != observation.shape:
            fail(
                done,
                f"complete() returned shape {array.shape} for an observation of shape {observation.shape}",
                "returns the whole field, in the shape of the observation",
            )
        valid = observation.valid
        bad = ~np.isfinite(array) & valid
        if bad.any():
            first = tuple(int(index) for index in np.argwhere(bad)[0])
            fail(
                done,
                f"{int(bad.sum())} of {array.size} entries are NaN or infinite, the first at {first}",
                "returns finite numbers everywhere; unobserved entries of observation.values are NaN, not to be used",
            )
        return np.where(valid, array, 0.0).astype(float)  # whatever is said of land, it is not part of the estimate

    def try_on(self, example: Example) -> None:
        """Complete an observation that the method may refuse, with a reason."""
        reason = self.refusal(example)
        if reason is not None:
            raise NotChecked(f"not applicable to {example.words}: {reason}")
        self.complete(example)


def of_method(method: Method, observation: Observation | None = None) -> Iterator[NamedCheck]:
    """The checks that suit what a method declares about itself, each with its name."""
    bench = MethodUnderCheck(method, observation)
    yield from named([_shape_and_finiteness, _deterministic, _global_random_state, _inputs_unmodified, _reports], bench)
    yield from named([_applicable_gives_reasons, _elongated_field], bench)
    for order in examples.SHAPES:
        if method.orders is not None and order not in method.orders:
            yield f"refuses-{order}-d", partial(_refuses, bench, order)
        elif observation is None:
            yield f"works-in-{order}-d", partial(_works_in, bench, order)
    for name, varied in examples.VARIATIONS.items():
        yield name, partial(_variation, bench, varied)
    if method.tunable():
        yield "search-space", partial(search_space, method, observation)
    if method.scale_equivariant:
        yield "scale-equivariant", partial(_scale_equivariant, bench)
    if type(method).complete_batch is not Method.complete_batch or type(method).batch_size is not Method.batch_size:
        yield "batch-equals-single", partial(_batch, bench)
    yield "uncertainty", partial(_uncertainty, bench)
    if method.uses_gpu:
        yield "cpu-and-gpu-agree", partial(_gpu, bench)


def _shape_and_finiteness(bench: MethodUnderCheck) -> None:
    assert bench.estimate.shape == bench.example.observation.shape


def _deterministic(bench: MethodUnderCheck) -> None:
    first = bench.estimate
    bench.complete(_others(bench)[0], seed=SEED + 1)
    _same(
        first,
        bench.complete(bench.example),
        f"completing {bench.example.words} twice with one seed, another observation in between",
        "takes all randomness from the seed and keeps nothing from one call to the next",
    )


def _others(bench: MethodUnderCheck) -> list[Example]:
    """Two observations of the example's shape: other fields, observed elsewhere."""
    others, last = [], min(1, bench.example.observation.ndim - 1)
    for axis, factor in ((0, 0.7), (last, 2.0)):
        scaled = bench.example.times(factor)
        other = Example(f"{scaled.words}, turned round along axis {axis}", examples.turned(scaled.observation, axis))
        others.append(other if bench.refusal(other) is None else scaled)
    return others


def _global_random_state(bench: MethodUnderCheck) -> None:
    expected = bench.estimate  # loads what the method loads, so that torch's generator is watched too
    for seed in (1, 2):
        found = with_global_seed(partial(bench.complete, bench.example), seed, f"completing {bench.example.words}")
        _same(
            expected,
            found,
            f"completing {bench.example.words} with other states of the global random generators",
            "makes its own generator from the seed",
        )


def _inputs_unmodified(bench: MethodUnderCheck) -> None:
    observation = copied(bench.example.observation)
    arrays = {"values": observation.values, "mask": observation.mask, "observed": observation.observed}
    arrays |= {f"covariate {name}": array for name, array in observation.covariates.items()}
    arrays |= {f"axis {axis.name}": axis.coordinates for axis in observation.axes}
    bench.estimate  # noqa: B018 - what fails without any array being changed is no matter of this check
    done = f"comparing the observation before and after completing {bench.example.words}"
    with unmodified(done, arrays, "works on copies; observation.filled() is one"):
        bench.method.complete(observation, seed=SEED, device="cpu", report=NullReport())


def _reports(bench: MethodUnderCheck) -> None:
    report, example = Everything(), bench.example
    found = bench.complete(example, report=report)
    for step, estimate, diagnostics in report.received:
        done = f"receiving the report of step {step!r} while completing {example.words}"
        if isinstance(step, bool) or not isinstance(step, int | np.integer):
            fail(done, f"the step is a {type(step).__name__}", "reports a whole number of steps")
        if estimate.shape != example.observation.shape:
            fail(done, f"the estimate has shape {estimate.shape}", "reports estimates of the shape of the observation")
        for key, value in diagnostics.items():
            if not isinstance(value, float | int | np.floating | np.integer):
                fail(done, f"{key} is a {type(value).__name__}", "reports single numbers as diagnostics")
    if report.steps != sorted(set(report.steps)):
        fail(
            f"reading the steps reported for {example.words}",
            f"they are {report.steps}",
            "reports rising steps, each once",
        )
    _same(
        bench.estimate,
        found,
        f"completing {example.words} with every step reported and with none",
        "gives the same numbers whether or not it is asked for estimates on the way",
    )


def _applicable_gives_reasons(bench: MethodUnderCheck) -> None:
    for order, shape in examples.SHAPES.items():
        for pattern, mask in {"random-mask": examples.random_mask, **examples.PATTERNS}.items():
            words = f"a {order}-D field with {pattern.replace('-', ' ')}"
            bench.inapplicable(Example(words, examples.observed(examples.smooth_field(shape), mask(shape))))
            bench.contradiction(shape)


def _elongated_field(bench: MethodUnderCheck) -> None:
    shape = examples.ELONGATED.get(bench.example.observation.ndim, bench.example.observation.shape)
    mask = examples.fiber_mask(shape) if "fibers" in bench.example.words else examples.random_mask(shape)
    field = examples.observed(examples.smooth_field(shape), mask)
    observation = replace(field, log_floor=bench.example.observation.log_floor)
    bench.try_on(Example(f"a field of shape {shape}", examples.masked(observation, mask)))


def _works_in(bench: MethodUnderCheck, order: int) -> None:
    reasons = []
    for example in examples.ordinary([order]):
        reason = bench.refusal(example)
        if reason is None:
            bench.complete(example)
            return
        reasons.append(reason)
    if bench.method.orders is None:
        raise NotChecked(f"not applicable to small {order}-D fields: {reasons[0]}")
    fail(
        f"asking applicable() about {order}-D fields, which {bench.method.name} declares",
        reasons[0],
        "works on the tensor orders it declares",
    )


def _refuses(bench: MethodUnderCheck, order: int) -> None:
    for example in examples.ordinary([order]):
        if bench.inapplicable(example) is None:
            fail(
                f"asking applicable() about {example.words}",
                f"the answer is None, but {bench.method.name} declares orders {bench.method.orders}",
                "refuses other tensor orders with a reason (super().applicable(observation) does so)",
            )


def _variation(bench: MethodUnderCheck, varied: Callable[[Example], Example]) -> None:
    bench.try_on(varied(bench.example))


def _scale_equivariant(bench: MethodUnderCheck) -> None:
    larger = bench.example.times(SCALE)
    _alike(
        bench.estimate,
        bench.complete(larger) / SCALE,
        SCALING_TOLERANCE,
        f"completing {bench.example.words}, then the same with values times {SCALE:g}",
        "the estimates differ by more than that factor, by",
        "scales its values by what it observes, or declares scale_equivariant = False",
    )


def search_space(method: Method, observation: Observation | None = None, tried: str = "") -> None:
    """Every value that tuning may try can complete the example: the corners of each range, and points drawn within.

    Args:
        method: with its modifiers.
        observation: what it is tried on, in place of small made-up fields.
        tried: the start of the names of the parameters that are tried.

    Raises:
        ConformanceFailure: if one of them cannot.
    """
    example = MethodUnderCheck(method, observation).example
    spaces = {key: space for key, space in method.tunable().items() if key.startswith(tried)}
    points = [{key: corner} for key, space in spaces.items() for corner in space.corners]
    rng = np.random.default_rng(SEED)
    points += [{key: space.draw(rng) for key, space in spaces.items()} for _ in range(DRAWN_POINTS)]
    for point in points:
        words = ", ".join(f"{key}={format_value(value)}" for key, value in point.items())
        done, right = f"trying {words} of {method}", "declares by search what it can work with"
        try:
            bench = MethodUnderCheck(method.with_values(point), example.observation)
        except ValueError as error:
            fail(done, one_line(error), right)
        reason = bench.refusal(example)
        if reason is not None:
            fail(f"{done} on {example.words}", reason, right)
        bench.complete(replace(example, words=f"{example.words} with {words}"))


def _batch(bench: MethodUnderCheck) -> None:
    shape = bench.example.observation.shape
    done, right = f"calling batch_size({shape}, 'cpu')", "returns a whole number of at least 1"
    with no_error(done, right):
        size = bench.method.batch_size(shape, "cpu")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        fail(done, f"it returned {size!r}", right)
    batch = [
        replace(example, words=f"member {number} of a batch")
        for number, example in enumerate([bench.example, *_others(bench)])
    ]
    seeds, reports, heard = [SEED, SEED + 1, SEED + 2], [Everything() for _ in batch], [Everything() for _ in batch]
    alone = [
        bench.complete(example, seed=seed, report=report)
        for example, seed, report in zip(batch, seeds, reports, strict=True)
    ]
    with no_error("completing a batch of 3", "returns a list with one estimate for each"):
        copies = [copied(example.observation) for example in batch]
        estimates = list(bench.method.complete_batch(copies, seeds=seeds, device="cpu", reports=heard))
    if len(estimates) != len(batch):
        fail("completing a batch of 3", f"{len(estimates)} estimates came back", "returns one estimate for each")
    right = "gives each trial the numbers that it has alone, whatever it is batched with"
    for example, expected, estimate, single, batched in zip(batch, alone, estimates, reports, heard, strict=True):
        done = f"completing {example.words} in the batch and alone"
        _same(expected, bench.inspected(estimate, example), done, right)
        if single.steps != batched.steps:
            fail(
                f"reading the steps reported while {done}",
                f"they are {batched.steps} and {single.steps}",
                "reports to each trial of a batch what it reports to it alone",
            )
        for (step, first, _), (_, second, _) in zip(single.received, batched.received, strict=True):
            if not np.array_equal(first, second, equal_nan=True):
                fail(f"{done}, comparing the estimates reported at step {step}", "they differ", right)


def _uncertainty(bench: MethodUnderCheck) -> None:
    example = bench.example
    spread = _spread(bench, example)
    if spread is None:
        return
    done = f"reading the uncertainty that comes with the estimate of {example.words}"
    unobserved = example.observation.valid & ~example.observation.mask
    if not spread[unobserved].any():
        fail(done, "the deviation is 0 at every unobserved entry", "is not sure of what it has not seen")
    _same(spread, np.asarray(_spread(bench, example)), f"{done} twice", "takes all randomness from the seed")
    if not bench.method.scale_equivariant:
        return
    other = _spread(bench, example.times(SCALE))
    ratio = np.nan if other is None else float(np.sum(other) / (SCALE * np.sum(spread)))
    tolerance = GPU_TOLERANCE if example.observation.log_floor is None else 0.05
    if not abs(ratio - 1) <= tolerance:
        fail(
            f"{done}, then with values times {SCALE:g}",
            f"the deviations grow by {ratio * SCALE:.4g}",
            "gives a deviation in the field's unit (of a lognormal, of ln(x + floor)), neither a variance nor one of "
            "scaled values",
        )


def _spread(bench: MethodUnderCheck, example: Example) -> FloatArray | None:
    """The deviation of every valid entry in the field's unit, 0 elsewhere; None if the method has none."""
    made, valid = as_estimate(bench.made(example)), example.observation.valid
    if made.is_sure_of_nothing:
        return None
    try:
        sound = made.checked(valid)
    except ValueError as error:
        fail(
            f"reading the uncertainty that comes with the estimate of {example.words}",
            str(error),
            "returns deviations, members or quantiles of the shape of the observation, finite, and in order",
        )
    ends = sound.interval(0.5)
    spread = sound.spread()
    if spread is None and ends is not None:
        spread = ends[1] - ends[0]
    return None if spread is None else np.where(valid, spread, 0.0)


def _gpu(bench: MethodUnderCheck) -> None:
    import torch

    if not torch.cuda.is_available():
        raise NotChecked("there is no GPU on this machine")
    _alike(
        bench.estimate,
        bench.complete(bench.example, device="cuda:0"),
        GPU_TOLERANCE,
        f"completing {bench.example.words} on the CPU and on the GPU",
        "the estimates differ by",
        "gives the same numbers on both, up to rounding",
    )


def copied(observation: Observation) -> Observation:
    """A copy that shares no array."""
    return replace(observation, axes=deepcopy(observation.axes))


def _same(expected: FloatArray, found: FloatArray, done: str, right: str) -> None:
    if not np.array_equal(expected, found):
        difference = np.abs(expected - found)
        count = int((difference > 0).sum())
        fail(done, f"{count} of {found.size} entries differ, by up to {float(difference.max()):.3g}", right)


def _alike(expected: FloatArray, found: FloatArray, tolerance: float, done: str, differ: str, right: str) -> None:
    """Two estimates are the same but for a share of the largest value."""
    error = float(np.abs(found - expected).max()) / (float(np.abs(expected).max()) or 1.0)
    if not error <= tolerance:
        fail(done, f"{differ} {error:.2g} of the largest value", right)
