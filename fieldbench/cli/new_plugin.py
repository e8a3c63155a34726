"""``fieldbench new-plugin NAME``: write a ready package for a plugin of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new_plugin(
    name: Annotated[str, typer.Argument(help="What people will type to get it, such as my-method.")],
    kind: Annotated[str, typer.Option(help="method, dataset, noise, sampler, metric or modifier.")] = "method",
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the package's folder is made.")] = Path(),
) -> None:
    """Write a ready package for a method (or dataset, noise, sampler, metric, modifier) of your own.

    It works and passes its own tests as written; change what it computes.

    **Examples**

        fieldbench new-plugin my-method
        fieldbench new-plugin my-field --kind dataset
    """

    from fieldbench.registry import Registry
    from fieldbench.scaffold import write_package

    files = write_package(name, kind, into, Registry())
    folder = into / f"fieldbench-{name}"
    print(*files, "", "Install it where fieldbench is, and see that it works:", sep="\n")
    print(f"  pip install -e {folder}", f"  fieldbench check {name}", sep="\n")
    print(f"Its README.md in {folder} says how to go on.")
