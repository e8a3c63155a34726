"""Whether the trials of a run come to the same again, and with which versions they were computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench import datafile
from fieldbench.errors import RequestError
from fieldbench.execution import Options, Stop, execute
from fieldbench.records import OK, cell_of, largest_difference, trial_of
from fieldbench.registry import Sources
from fieldbench.store.manifest import read_manifest
from fieldbench.store.run import read_rows
from fieldbench.store.secret import secrets_of


@dataclass(frozen=True)
class Verification:
    """What came of computing trials again.

    Attributes:
        stored: trials of the run that ended well.
        agreeing: how many of those computed again have the same scores.
        differing: of each that has not, a line that says which and by how much.
        unlike: of each that cannot be computed here as it was, a line that says why.
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
    chosen = [keys[index] for index in rng.choice(len(keys), math.ceil(share * len(keys)), replace=False)]
    options = replace(options, secrets=secrets_of(run))
    here = replace(sources, data=datafile.locations())
    agreeing, differing, unlike = 0, list[str](), list[str]()
    for record in execute([trial_of(good[key]) for key in chosen], here, options, Stop()):
        row = good[record.trial.key]
        name = f"{cell_of(row)}, trial {row['trial']} of seed {row['seed']}"
        if record.status != OK:
            (unlike if "differ from those" in record.error else differing).append(f"{name}: {record.error}")
            continue
        metric, difference = largest_difference(row["metrics"], record.metrics)
        if difference > tolerance:
            scores = f"{record.metrics.get(metric)} here, {row['metrics'].get(metric)} in the run"
            differing.append(f"{name}: {metric} is {scores}")
        else:
            agreeing += 1
    return Verification(len(good), agreeing, tuple(differing), tuple(unlike))


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
    pinned = sorted({**last.libraries, **last.plugins}.items())
    return [f"# Python {last.python}", *(f"{name}=={version.partition('+')[0]}" for name, version in pinned)]
