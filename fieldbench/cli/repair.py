"""``fieldbench repair``: make the manifest of a run anew."""

from __future__ import annotations

from fieldbench.cli.options import RunFolder


def repair(
    run: RunFolder,
) -> None:
    """Make the manifest of a run anew from its records, where it is damaged or gone.

    The damaged one stays beside it as manifest.json.damaged. Units, headline metrics and the order of the methods
    come back when the run is gone on with: `fieldbench run` with the same --out.

    **Examples**

        fieldbench repair runs/tap-tnn-radiomap1-1a2b3c4d
    """
    from fieldbench.store.run import repair as make_anew

    cells, trials = make_anew(run)
    print(f"{run}: the manifest is made anew from {trials} trials in {cells} cells")
