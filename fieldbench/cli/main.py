"""The command line: commands, and what becomes of errors.

Commands import what they compute with when they run, so that ``fieldbench --help`` starts at once.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperCommand, TyperGroup

from fieldbench.cli.check import check
from fieldbench.cli.complete import complete
from fieldbench.cli.folders import merge, repair, status, verify
from fieldbench.cli.listing import list_
from fieldbench.cli.new_plugin import new_plugin
from fieldbench.cli.pages import report, site, watch
from fieldbench.cli.plot import plot
from fieldbench.cli.plugins import info, plugins
from fieldbench.cli.references import check_results, freeze
from fieldbench.cli.run import reproduce, run
from fieldbench.cli.show import show
from fieldbench.cli.tables import compare, table
from fieldbench.cli.terminal import Output
from fieldbench.cli.train_prior import train_prior
from fieldbench.cli.tune import tune
from fieldbench.errors import FieldbenchError, RequestError

#: Characters of a complaint; one that quotes a longer text leaves out its middle.
LONGEST_COMPLAINT = 2000

ALL_OK, SOME_FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130


class Commands(TyperGroup):
    """Commands whose list is printed plainly: rich would take most of the time of ``fieldbench --help``."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option, off by default: a default of None typer would check by pydantic, whose import takes long."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.rich_markup_mode = None
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Every command with its first sentence, under the heading of its panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, command.get_short_help_str(limit=LONGEST_COMPLAINT)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


class Quick(TyperCommand):
    """A command that takes text alone, which it has as it stands where no option is given.

    To check that text is text typer loads pydantic, which takes longer than all the rest.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = [str(parameter.name) for parameter in self.params if parameter.param_type_name == "argument"]
        if len(args) > len(names) or any(word.startswith("-") for word in args):
            return super().parse_args(ctx, args)
        ctx.params = dict(zip(names, args, strict=False))
        return []


app = typer.Typer(
    name="fieldbench",
    cls=Commands,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Typer carries its own click in newer versions and uses the installed one in older ones.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _version(wanted: bool) -> None:
    if wanted:
        from fieldbench import __version__

        typer.echo(f"fieldbench {__version__}")
        raise typer.Exit


@app.callback()
def fieldbench(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Compare field-completion methods: a few noisy entries of a field go in, all of it comes out, and
    the error over many repetitions goes into a table.

    Start here:

        fieldbench run --methods tap,tnn --datasets radiomap1

    runs two methods on simulated radio maps and prints a table. Each finished trial is kept at once; the
    same command goes on where it stopped. fieldbench list shows what else there is to compare.
    """


#: The commands under their headings, in the order in which they are listed.
PANELS: dict[str, list[Callable[..., int | None]]] = {
    "Compare": [run, table, compare, plot, report, site, watch, reproduce],
    "Keep and check runs": [status, merge, repair, verify, freeze, check_results],
    "Prepare methods": [tune, train_prior],
    "Fill gaps": [complete],
    "Look": [list_, show, plugins, info],
    "Write your own": [new_plugin, check],
}
for panel, commands in PANELS.items():
    for command in commands:
        name = command.__name__.rstrip("_").replace("_", "-")
        app.command(name, cls=Quick if command is list_ else None, rich_help_panel=panel)(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 all trials ok, 1 some failed, 2 wrong request, 130 interrupted."""
    run_app(app, "fieldbench", arguments)


def run_app(app: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a command line called ``name`` and exit as :func:`main` does.

    Args:
        app: the commands.
        name: what the command line is called, for messages.
        arguments: the words after that name; those of this process where None.
    """
    _make_streams_usable()
    out, err = (cast(TextIO, Output(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        _show_what_is_logged()
        code = _code_of(app, name, arguments)
    for stream in (sys.stdout, sys.stderr):
        _empty(stream)
    sys.exit(code)


#: What the system says of a path that no file can be written to or read from, whatever the disk has room for.
_WRONG_PATH = {
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
    *(errno.EACCES, errno.EPERM, errno.EROFS),
}


def _code_of(app: typer.Typer, name: str, arguments: Sequence[str] | None) -> int:
    try:
        outcome = _narrowed(app, arguments)(args=arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except RequestError as error:
        _complain(str(error))
        return WRONG_REQUEST
    except FieldbenchError as error:
        _complain(str(error))
        return SOME_FAILED
    except _UsageError as error:
        _complain(error.format_message())  # type: ignore[attr-defined]
        return WRONG_REQUEST
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OSError as error:  # a folder that is read-only, a disk that is full
        blocked = error.errno in (errno.EEXIST, errno.ENOTDIR)
        why = "a file stands where a folder has to be" if blocked else error.strerror or error
        _complain(f"{error.filename or 'the output'}: {why}")
        return WRONG_REQUEST if error.errno in _WRONG_PATH else SOME_FAILED
    return outcome if isinstance(outcome, int) else ALL_OK


def _narrowed(app: typer.Typer, arguments: Sequence[str] | None) -> typer.Typer:
    """The command line with the command alone that is asked for: to prepare all takes two starts of Python."""
    words = sys.argv[1:] if arguments is None else arguments
    if not (asked := [command for command in app.registered_commands if command.name in words[:1]]):
        return app
    narrowed = copy.copy(app)
    narrowed.registered_commands = asked
    return narrowed


def _complain(message: str) -> None:
    line = " ".join(message.split())
    half = LONGEST_COMPLAINT // 2
    shown = line if len(line) <= LONGEST_COMPLAINT else f"{line[:half]} ... {line[-half:]}"
    with contextlib.suppress(OSError):  # nobody is there to be told
        print(f"fieldbench: {shown}", file=sys.stderr, flush=True)


class _Stderr(logging.Handler):
    """What the library logs is for whoever reads the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        _complain(record.getMessage())


def _show_what_is_logged() -> None:
    log = logging.getLogger("fieldbench")
    if not any(isinstance(handler, _Stderr) for handler in log.handlers):
        log.addHandler(_Stderr())


def _make_streams_usable() -> None:
    """Let closed streams swallow what is written, and encodings without a character show a question mark for it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")


def _empty(stream: TextIO) -> None:
    """Flush a stream or, if it takes nothing any more, let the interpreter's own last flush of it succeed."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
