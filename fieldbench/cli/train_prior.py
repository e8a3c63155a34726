"""``fieldbench train-prior METHOD``: make what a trained method rests on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldbench.cli.options import assigned
from fieldbench.cli.show import pages
from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console
from fieldbench.errors import RequestError

if TYPE_CHECKING:
    from fieldbench.method import PriorTraining, TrainingProgress
    from fieldbench.registry import Registry

#: Seconds between lines where no terminal shows a bar.
INTERVAL = 60.0


def train_prior(
    method: Annotated[str, typer.Argument(help="The method to train a prior for.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The weights to write (safetensors); a card lies beside them.")
    ] = Path("prior.safetensors"),
    set_: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="SETTING=VALUE",
            help="Change a setting of the training; `--settings` lists them. May be repeated.",
        ),
    ] = [],
    seed: Annotated[int, typer.Option(help="Seed of initial weights, fields and masks.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or a GPU: cuda:0.")] = "cpu",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was cut short.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="List the settings and stop.")] = False,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Train the prior of a trained method, such as the autoencoder of nasdac and dowjons.

    A checkpoint beside the weights is kept up to date; after an interruption the same command with
    `--resume` goes on, and ends with the same weights. A resumed training may be given other `steps`,
    more than it has done, and another `decay`.

    **Examples**

        fieldbench train-prior nasdac --settings
        fieldbench train-prior nasdac --out mine.safetensors --set steps=50000 --set eta=(3,12)
        fieldbench run --methods 'nasdac[weights=mine.safetensors]' --datasets radiomap1
    """
    from fieldbench.registry import Registry

    registry = Registry(sources(plugin, no_plugin))
    training = _training(registry, method, set_)
    if settings:
        plain_console().print(*pages("training", training, str(registry.find("method", method).source)), sep="\n")
        return
    with _progress(method) as progress:
        training.run(out, seed=seed, device=device, progress=progress, resume=resume)
    typer.echo(f"{out} is trained; use it as '{method}[weights={out}]'")


def _training(registry: Registry, method: str, assignments: list[str]) -> PriorTraining:
    """The training of a method's prior with the settings that were given.

    Raises:
        RequestError: if there is no such method, it has no prior, or a setting is wrong.
    """
    from fieldbench.method import Method
    from fieldbench.registry import validated
    from fieldbench.spec import Part, parse_value

    cls = registry.find("method", method).cls
    kind = cls.prior_training if issubclass(cls, Method) else None
    if kind is None:
        able = [
            name
            for name, entry in registry.entries("method").items()
            if issubclass(entry.cls, Method) and entry.cls.prior_training is not None
        ]
        raise RequestError(f"{method} has no prior to train; methods that have one: {', '.join(able) or 'none'}")
    given = assigned("--set", assignments, "setting=value, such as steps=1000")
    values = {name: parse_value(text) for name, text in given}
    return validated(kind, Part(kind.name, values), " ".join(f"--set {text}" for text in assignments))


@contextlib.contextmanager
def _progress(method: str) -> Iterator[TrainingProgress]:
    """What hears of the steps with the latest numbers: a bar on a terminal, a line a minute elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console, spoken = plain_console(), 0.0

    def update(step: int, steps: int, **numbers: float) -> None:
        nonlocal spoken
        shown = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        if console.is_terminal:
            bar.update(task, completed=step, total=steps, numbers=shown)
        elif step == steps or time.monotonic() - spoken > INTERVAL:
            spoken = time.monotonic()
            typer.echo(f"step {step} of {steps}{', ' if shown else ''}{shown}")

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[numbers]}"))
    title = TextColumn(f"prior of {method}")
    with Progress(title, *columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("steps", total=None, numbers="")
        yield update
