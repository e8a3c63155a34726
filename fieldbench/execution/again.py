"""Trials computed again: for their fields, for the attention map behind an estimate, and to see whether they agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench import datafile, reconstructions
from fieldbench.errors import RequestError
from fieldbench.execution.machine import slots
from fieldbench.execution.options import Options, Stop
from fieldbench.execution.pool import Pool
from fieldbench.execution.processes import Lost
from fieldbench.execution.run import execute
from fieldbench.execution.trial_queue import Group
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import Task, method_seed
from fieldbench.reconstructions import Reconstruction
from fieldbench.records import OK, Record, Trial, cell_of, trial_of
from fieldbench.registry import Registry, Sources
from fieldbench.store.files import FIELDS
from fieldbench.store.manifest import read_manifest
from fieldbench.store.run import read_rows
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
        outcome = pool.run(Group((trial,), "cpu" if device == "cpu" else "gpu"))
    if outcome.kept:
        return outcome.kept[0][1]
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
            method = registry.method(cell.method)
            found = pool.questions.ask_method(method, question, "attention", math.inf, largest=1 << 33)
    except Lost as lost:
        raise RequestError(f"{cell.method}: no attention map: {lost.message}") from None
    if not isinstance(found.get("map"), np.ndarray):
        raise RequestError(f"{cell.method}: no attention map: {found.get('error')}")
    return np.asarray(found["map"])


@dataclass(frozen=True)
class Verification:
    """How many trials of a run ended well, how many of those computed again have the same scores, and a line about each
    that has not, or that cannot be computed here as it was.
    """

    stored: int
    agreeing: int
    differing: tuple[str, ...]
    unlike: tuple[str, ...]


def verify(
    run: Path, sources: Sources, options: Options, *, share: float, tolerance: float, rng: np.random.Generator
) -> Verification:
    """Compute a random share of a run's trials again, at least one.

    Args:
        run: the folder, which is only read.
        sources, options: as for :func:`fieldbench.execution.execute`.
        share, rng: of the trials that ended well, in (0, 1], and what chooses them.
        tolerance: relative difference of a score that counts as none.

    Raises:
        RequestError: if there is no run, or nothing in it ended well.
    """
    good = {row["key"]: row for row in read_rows(run, diagnostics=False) if row["status"] == OK and row["identity"]}
    if not good:
        raise RequestError(f"{run} has no trial that ended well; there is nothing to verify")
    keys = sorted(good)
    chosen = [keys[place] for place in rng.choice(len(keys), math.ceil(share * len(keys)), replace=False)]
    options = replace(options, secrets=secrets_of(run))
    here = replace(sources, data=datafile.locations())
    agreeing, differing, unlike = 0, list[str](), list[str]()
    for record in execute([trial_of(good[key]) for key in chosen], here, options, Stop()):
        row = good[record.trial.key]
        name = f"{cell_of(row)}, trial {row['trial']} of seed {row['seed']}"
        if record.status != OK:
            (unlike if "differ from those" in record.error else differing).append(f"{name}: {record.error}")
        elif said := _difference(row["metrics"], record, tolerance):
            differing.append(f"{name}: {said}")
        else:
            agreeing += 1
    return Verification(len(good), agreeing, tuple(differing), tuple(unlike))


def _difference(stored: Mapping[str, float], record: Record, tolerance: float) -> str:
    """The score that differs most, in words; nothing where all agree."""
    apart = {name: _apart(stored.get(name), record.metrics.get(name)) for name in {*stored, *record.metrics}}
    name = max(apart, key=lambda name: (apart[name], name), default="")
    if not name or apart[name] <= tolerance:
        return ""
    return f"{name} is {record.metrics.get(name)} here, {stored.get(name)} in the run"


def _apart(first: float | None, other: float | None) -> float:
    if first is None or other is None or not (math.isfinite(first) and math.isfinite(other)):
        return 0.0 if repr(first) == repr(other) else math.inf
    return abs(first - other) / max(abs(first), abs(other), 1e-300)


def environment(run: Path) -> list[str]:
    """The versions that a run was made with, one a line as pip reads them; those of its last session.

    Raises:
        RequestError: if there is no run, or it does not say.
    """
    sessions = [session for session in read_manifest(run).sessions if session.libraries or session.plugins]
    if not sessions:
        raise RequestError(f"{run} does not say which versions it was made with")
    last: Any = sessions[-1]
    # What stands behind a plus is a build for one kind of machine, which no index has under that name.
    pinned = {**last.libraries, **last.plugins}
    return [
        f"# Python {last.python}",
        *(f"{name}=={version.partition('+')[0]}" for name, version in sorted(pinned.items())),
    ]
