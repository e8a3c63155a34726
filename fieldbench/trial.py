"""One trial: draw a field, observe it, complete it, score it. No scheduling, no files."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from fieldbench.errors import as_reason, one_line
from fieldbench.field import Field, FloatArray, Mask, Observation
from fieldbench.method import Method, as_field_array
from fieldbench.metric import score_all
from fieldbench.records import FAILED, NOT_APPLICABLE, OK, OUT_OF_MEMORY, Record, Trial, canonical
from fieldbench.registry import Registry
from fieldbench.selection import Recorder, Selection
from fieldbench.sensing import Sampler, observe

#: Characters of a traceback that are kept: its end, which says where and why.
LONGEST_TRACEBACK = 20_000


@dataclass(frozen=True)
class Draw:
    """The truth and the observation of one trial, the same for every method."""

    field: Field
    mask: Mask
    observation: Observation
    measured: FloatArray


#: Receives a trial, its draw and the estimate that counts.
Records: TypeAlias = Generator[Record, None, None]
"""Records as they come; closing it ends the work."""

Keep: TypeAlias = Callable[[Trial, Draw, FloatArray], None]


def draw(trial: Trial, registry: Registry) -> Draw:
    """Draw field, mask and noise of a trial.

    Each has its own stream, and a stream depends only on what it draws: the field on the dataset and the
    trial number, the mask also on sampler and rate, the noise on all of these and itself. So all methods
    meet the same observations, all rates the same fields, all noise levels the same masks.

    Raises:
        RequestError: if the sampler observes nothing.
        ValueError: if the dataset's field has NaN or infinite entries.
    """
    place = (trial.seed, trial.number, trial.cell.dataset)
    truth = _cached_dataset(registry, trial.cell.dataset).draw(stream("field", *place))
    sampler, noise = registry.sampler(trial.cell.sampler), registry.noise(trial.cell.noise)
    pattern = (*place, trial.cell.sampler, trial.cell.rate)
    mask = sampler.draw(truth.existing, truth.axes, trial.cell.rate, stream("mask", *pattern)) & truth.existing
    disturbance = noise.draw(truth.shape, stream("noise", *pattern, trial.cell.noise))
    observation = observe(truth, mask, disturbance)
    return Draw(truth, mask, observation, np.asarray(observation.values, dtype=float))


def stream(*what: object) -> np.random.Generator:
    """An independent generator for each different tuple of texts and numbers."""
    return np.random.default_rng(int(_digest(what)[:32], 16))


def method_seed(trial: Trial) -> int:
    """The seed of the method's own stream: a 63-bit number independent of the draw."""
    name = trial.cell.method.partition("[")[0].partition("+")[0]
    place = (trial.seed, trial.number, trial.cell.dataset, trial.cell.sampler, trial.cell.rate, trial.cell.noise)
    return int(_digest(("method", name, *place))[:16], 16) >> 1


def run(
    trials: Sequence[Trial],
    registry: Registry,
    device: str = "cpu",
    keep: Keep | None = None,
    threads: Callable[[], int] = lambda: 1,
) -> list[Record]:
    """Run trials of one cell together; each record is what running its trial alone would give.

    A trial that raises becomes a record with status ``failed`` (``out-of-memory`` for a MemoryError or its
    GPU kin). If a batch raises, its trials are run one by one, so that one bad trial costs only itself.
    ``keep`` is shown the draw and the estimate of each trial that ends well. ``threads`` tells how many CPU
    threads a method may use now; it changes no number.
    """
    if len(trials) > 1:
        try:
            return _run_batch(trials, registry, device, keep, threads)
        except Exception:
            return [record for trial in trials for record in run([trial], registry, device, keep, threads)]
    try:
        return _run_batch(trials, registry, device, keep, threads)
    except Exception as error:
        return [_failure(trials[0], error, device)]


def _run_batch(
    trials: Sequence[Trial], registry: Registry, device: str, keep: Keep | None, threads: Callable[[], int]
) -> list[Record]:
    first = trials[0]
    method, rule = registry.method(first.cell.method), registry.selection(first.cell.select)
    sampler, metrics = registry.sampler(first.cell.sampler), registry.metrics()
    headline = registry.metric(_cached_dataset(registry, first.cell.dataset).metric)
    place = device if method.uses_gpu else "cpu"

    draws = [draw(trial, registry) for trial in trials]
    reasons = [method.applicable(item.observation) for item in draws]
    if any(reasons):
        if len(trials) > 1:
            raise ValueError("some trials of the batch are not applicable")
        return [Record(first, NOT_APPLICABLE, str(reasons[0]), device=place)]
    method.check_shape(draws[0].field.shape)

    withheld = [_withhold(trial, rule, sampler, item) for trial, item in zip(trials, draws, strict=True)]
    observations = [
        item.observation if held is None else item.observation.without(held)
        for item, held in zip(draws, withheld, strict=True)
    ]
    recorders = [
        Recorder(rule, headline, item.field, item.mask, held, item.measured, threads)
        for item, held in zip(draws, withheld, strict=True)
    ]
    estimates, seconds = _timed(method, observations, [method_seed(trial) for trial in trials], place, recorders)

    records = []
    for trial, item, recorder, estimate in zip(trials, draws, recorders, estimates, strict=True):
        chosen, diagnostics = recorder.choose(_checked(estimate, item.field))
        scores, errors = score_all(metrics, chosen, item.field, item.mask)
        if headline.name in errors:
            raise errors[headline.name]
        if keep is not None:
            keep(trial, item, chosen)
        diagnostics |= {"observed": int(item.mask.sum()), "shape": list(item.field.shape), "batch": len(trials)}
        diagnostics["threads"] = recorder.most_threads
        if errors:
            diagnostics["not_scored"] = {name: one_line(error) for name, error in errors.items()}
        records.append(
            Record(trial, OK, "", scores, seconds / len(trials), place, diagnostics=_with_gpu(diagnostics, place))
        )
    return records


def _withhold(trial: Trial, rule: Selection, sampler: Sampler, item: Draw) -> Mask | None:
    if not rule.withholds:
        return None
    share = float(rule.parameters()["share"])  # type: ignore[arg-type]
    rng = stream(
        "withhold", trial.seed, trial.number, trial.cell.dataset, trial.cell.sampler, trial.cell.rate, trial.cell.select
    )
    return sampler.withhold_from(item.observation, share, rng)


def _timed(
    method: Method, observations: list[Observation], seeds: list[int], device: str, recorders: list[Recorder]
) -> tuple[list[Any], float]:
    _synchronise(device)
    start = time.perf_counter()
    if len(observations) == 1:
        estimates = [method.complete(observations[0], seed=seeds[0], device=device, report=recorders[0])]
    else:
        estimates = list(method.complete_batch(observations, seeds=seeds, device=device, reports=recorders))
    _synchronise(device)
    return estimates, time.perf_counter() - start


def _checked(estimate: Any, truth: Field) -> FloatArray:
    array = as_field_array(estimate)
    if array.shape != truth.shape:
        raise ValueError(f"the method returned shape {array.shape}; the field has {truth.shape}")
    if not np.isfinite(array[truth.existing]).all():
        raise ValueError("the method returned NaN or infinite entries")
    return array


def _failure(trial: Trial, error: Exception, device: str) -> Record:
    exhausted = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    status = OUT_OF_MEMORY if exhausted else FAILED
    diagnostics = {"traceback": "".join(traceback.format_exception(error))[-LONGEST_TRACEBACK:]}
    return Record(trial, status, as_reason(error), device=device, diagnostics=diagnostics)


def _synchronise(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)


def _with_gpu(diagnostics: dict[str, Any], device: str) -> dict[str, Any]:
    if device.startswith("cuda"):
        import torch

        diagnostics["peak_gpu_memory"] = int(torch.cuda.max_memory_allocated(device))
    return diagnostics


@lru_cache(maxsize=16)
def _cached_dataset(registry: Registry, text: str) -> Any:
    """A dataset object kept between trials, with whatever it computes once (a Cholesky factor)."""
    return registry.dataset(text)


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()
