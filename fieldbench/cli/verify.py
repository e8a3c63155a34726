"""``fieldbench verify RUN``: do the numbers come out again?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fieldbench.cli.options import Device, Jobs, RunFolder
from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.errors import RequestError


def verify(
    run: RunFolder,
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of its trials to compute again.")] = 0.05,
    tolerance: Annotated[float, typer.Option(min=0.0, help="Relative difference of a score that counts as none.")] = (
        1e-6
    ),
    seed: Annotated[
        int | None, typer.Option(help="Chooses the trials.", show_default="another each time", min=0)
    ] = None,
    environment: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the versions that the run was made with, as pip reads them, and compute nothing.",
        ),
    ] = None,
    device: Device = "auto",
    jobs: Jobs = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> int:
    """Compute a random share of a run's trials again, and say whether they agree. The run is only read.

    Trials whose plugins or data differ here from those of the run cannot be verified, and are counted apart.
    The exit code is 1 if a score differs or nothing could be verified.

    **Examples**

        fieldbench verify runs/theirs --share 0.05
        fieldbench verify runs/theirs --environment requirements.txt
    """
    import numpy as np

    from fieldbench import verification
    from fieldbench.execution import Options
    from fieldbench.store.files import write_whole

    if environment is not None:
        write_whole(environment, "\n".join(verification.environment(run)) + "\n")
        print(f"{environment} has the versions that {run} was made with")
        return 0
    if share <= 0:
        raise RequestError(f"--share {share:g}: a share is above 0 and at most 1")
    options, rng = Options(device=device, jobs=jobs), np.random.default_rng(seed)
    found = verification.verify(run, sources(plugin, no_plugin), options, share=share, tolerance=tolerance, rng=rng)
    count = found.agreeing + len(found.differing) + len(found.unlike)
    print(f"{found.agreeing} of {count} trials agree, chosen at random from the {found.stored} of {run}")
    for title, lines in (("differ", found.differing), ("cannot be verified here", found.unlike)):
        if lines:
            print(f"{len(lines)} {title}:", *lines, sep="\n  ", file=sys.stderr)
    return 0 if found.agreeing and not found.differing else 1
