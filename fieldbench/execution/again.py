"""Trials computed again: for their fields, and for the attention map behind an estimate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from fieldbench import reconstructions
from fieldbench.errors import RequestError
from fieldbench.execution.machine import slots
from fieldbench.execution.options import Options
from fieldbench.execution.pool import Pool
from fieldbench.execution.processes import Lost
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import Task, method_seed
from fieldbench.reconstructions import Reconstruction
from fieldbench.records import Trial
from fieldbench.registry import Registry
from fieldbench.store.files import FIELDS
from fieldbench.store.secret import secrets_of


def recompute(
    trial: Trial, registry: Registry, device: str = "cpu", secrets: Mapping[int, int] | None = None
) -> Reconstruction:
    """Run a trial again for its fields.

    Args:
        trial, registry: what is run again, and where its plugins are.
        device, secrets: as in :class:`fieldbench.execution.Options`; one GPU at most.

    Raises:
        RequestError: if plugins or data are no longer those of the trial, or it does not end well.
    """
    options = Options(device=device, jobs=1, save_fields="", secrets=secrets or {})
    with Pool(slots(options), registry, options) as pool:
        outcome = pool.run([trial])
    if trial.key in outcome.kept:
        return outcome.kept[trial.key]
    reason, method = outcome.records[0].error, trial.cell.method
    if "differ from those" in reason:
        changed = "were not kept, and plugins or data have changed since; run it again with --save-fields"
        raise RequestError(f"the fields of {method} {changed}")
    raise RequestError(f"the fields of {method}, trial {trial.number}, cannot be made again: {reason}")


def reconstruction(
    run_folder: Path, trial: Trial, registry: Callable[[], Registry], device: str = "cpu"
) -> Reconstruction:
    """The fields of a trial: as kept, or recomputed and then kept.

    Args:
        run_folder, trial: where the fields are kept, and whose are wanted.
        registry, device: as for :func:`recompute`; the registry is made only where it must be.

    Raises:
        RequestError: if they are not kept and cannot be recomputed.
    """
    kept = reconstructions.find(run_folder, trial.key)
    if kept is None:
        kept = recompute(trial, registry(), device, secrets_of(run_folder))
        reconstructions.save(run_folder / FIELDS, trial.key, kept)
    return kept


def attention(trial: Trial, registry: Registry, secrets: Mapping[int, int]) -> FloatArray:
    """The attention map of a trial's method, after training as for its estimate.

    Args:
        trial, registry, secrets: as for :func:`recompute`.

    Raises:
        RequestError: if the method's process or the judge is lost, or what came is not a map.
    """
    cell, options = trial.cell, Options(device="cpu", jobs=1)
    drawn = replace(trial, seed=secrets.get(trial.seed, trial.seed))
    kinds = [("dataset", cell.dataset), ("sampler", cell.sampler), ("noise", cell.noise)]
    which = {"cell": cell, "seed": drawn.seed, "numbers": [trial.number]}
    try:
        with Pool(slots(options), registry, options) as pool, pool.asking:
            said = pool.questions.ask_judge({"ask": "draw", **which}, "drawing", None, *kinds, observation=Observation)
            question = {"ask": "attention", "tasks": [Task(said["observation"], method_seed(drawn), 0)]}
            found = pool.questions.ask_method(cell.method, question, "attention", math.inf, largest=1 << 33)
    except Lost as lost:
        raise RequestError(f"{cell.method}: no attention map: {lost.message}") from None
    if not isinstance(found.get("map"), np.ndarray):
        raise RequestError(f"{cell.method}: no attention map: {found.get('error')}")
    return np.asarray(found["map"])
