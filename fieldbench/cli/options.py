"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fieldbench.errors import RequestError

#: Slots of a machine, or threads of a slot, beyond which a number is a slip of the keyboard.
MOST = 10_000

how = partial(typer.Option, rich_help_panel="How to run it")
where = partial(typer.Option, rich_help_panel="Where to keep it")

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]

RunFolders = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="The folders of one run, or of several taken together.")
]

OutFolder = Annotated[Path | None, where(metavar="FOLDER", help="Folder of the run.", show_default="runs/...")]

Device = Annotated[str, how(help="auto (all GPUs, else the CPU), cpu, cuda, or cuda:0,cuda:2.")]

Jobs = Annotated[int | None, how(max=MOST, help="Trials at once on the CPU.", show_default="one a core")]

RetryFailed = Annotated[bool, how("--retry-failed", help="Run trials that failed again.")]

DryRun = Annotated[
    bool, how("--dry-run", help="Print the plan, what of it is done, and how long the rest should take.")
]

Only = Annotated[
    list[str],
    typer.Option(metavar="FACTOR=LEVEL,...", help="These levels only: method=tap,tnn or rate=0.1. May be repeated."),
]

LabelFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help='A TOML table of what to call methods, datasets, metrics and factors: tap = "Ours".'
    ),
]

TableFormat = Annotated[str, typer.Option(help="text, markdown, csv, latex (booktabs) or html.")]

Width = Annotated[
    int | None,
    typer.Option(
        min=40,
        metavar="CHARACTERS",
        help="Split tables of text or LaTeX that are wider.",
        show_default="the terminal's; 90 in LaTeX",
    ),
]

Label = Annotated[list[str], typer.Option(metavar="NAME=TEXT", help="One such label: tap=Ours. May be repeated.")]


def assigned(
    option: str,
    texts: Iterable[str],
    form: str,
    read: Callable[[str], Any] = str,
    cut: Callable[[str, str], tuple[str, str, str]] = str.partition,
) -> Iterator[tuple[str, Any]]:
    """What an option of the form ``NAME=VALUE`` says: names, each with its value.

    >>> dict(assigned("--known", ["emitters=7"], "NAME=NUMBER", int))
    {'emitters': 7}

    Args:
        option: what the user typed before the texts.
        texts: as they were typed.
        form: what would be right, for the complaint.
        read: makes a value of its text, or raises ValueError.
        cut: ``str.rpartition`` where a name may hold equals signs and a value none.

    Raises:
        RequestError: if a text is not of this form.
    """
    for text in texts:
        name, _, value = (piece.strip() for piece in cut(text, "="))
        try:
            if not name or not value:
                raise ValueError
            yield name, read(value)
        except ValueError:
            raise RequestError(f"{option} {text!r} is not understood; write {form}") from None


def levels(only: Iterable[str], option: str = "--only") -> dict[str, list[str]]:
    """What ``--only FACTOR=LEVEL,...`` asks for, by factor.

    >>> levels(["method=tap,tnn", "rate=0.1"])
    {'method': ['tap', 'tnn'], 'rate': ['0.1']}

    Raises:
        RequestError: if one is not of this form.
    """
    from fieldbench.spec import split

    chosen: dict[str, list[str]] = {}
    for factor, listed in assigned(option, only, f"{option} rate=0.1 or {option} method=tap,tnn"):
        chosen.setdefault(factor, []).extend(split(listed))
    return chosen
