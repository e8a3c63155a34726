"""``fieldbench train-prior METHOD``: make what a trained method rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console

if TYPE_CHECKING:
    from fieldbench.method import PriorTraining
    from fieldbench.registry import Registry


def train_prior(
    method: Annotated[str, typer.Argument(help="The method to train a prior for.", show_default=False)],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The weights to write (safetensors); a card lies beside them.")
    ] = Path("prior.safetensors"),
    set_: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="SETTING=VALUE",
            help="Change a setting of the training; `--settings` lists them. May be repeated.",
            show_default=False,
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
        _show(training, str(registry.find("method", method).source))
        return
    with _Display(method) as display:
        training.run(out, seed=seed, device=device, progress=display.update, resume=resume)
    typer.echo(f"{out} is trained; use it as '{method}[weights={out}]'")


def _training(registry: Registry, method: str, assignments: list[str]) -> PriorTraining:
    """The training of a method's prior with the settings that were given.

    Raises:
        RequestError: if there is no such method, it has no prior, or a setting is wrong.
    """
    from fieldbench.errors import RequestError
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
    values = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise RequestError(f"--set {text!r}: write setting=value, such as steps=1000")
        values[name.strip()] = parse_value(value)
    return validated(kind, Part(kind.name, values), " ".join(f"--set {text}" for text in assignments))


def _show(training: PriorTraining, source: str) -> None:

    from fieldbench.cli.show import pages

    console = plain_console(highlight=False)
    for piece in pages("training", training, source):
        console.print(piece)


class _Display:
    """A bar of steps with the latest numbers: live on a terminal, a line a minute elsewhere."""

    INTERVAL = 60.0

    def __init__(self, method: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = plain_console()
        self._bar = Progress(
            TextColumn(f"prior of {method}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("steps", total=None, numbers="")
        self._spoken = 0.0

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, step: int, steps: int, **numbers: float) -> None:
        import time

        shown = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        if self._console.is_terminal:
            self._bar.update(self._task, completed=step, total=steps, numbers=shown)
        elif step == steps or time.monotonic() - self._spoken > self.INTERVAL:
            self._spoken = time.monotonic()
            typer.echo(f"step {step} of {steps}{', ' if shown else ''}{shown}")
