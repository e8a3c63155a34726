"""What MkDocs asks before it builds the site: the order of the pages, and the pages made from the code."""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from gallery import gallery
from pictures import SHOWN, first, picture
from roles import plain

#: The pages in reading order. A page in docs/ that is not named here stands at the end, so none is hidden.
ORDER: dict[str, list[str]] = {
    "": ["index.md", "install.md", "tutorial.md", "gallery.md", "glossary.md"],
    "Compare": ["cli.md", "selection.md", "tuning.md", "clusters.md"],
    "Read the results": ["reading-tables.md", "uncertainty.md", "tables.md", "figures.md", "page.md"],
    "Methods and data": [
        "methods.md",
        "baselines.md",
        "trained.md",
        "datasets.md",
        "own-data.md",
        "own-dataset.md",
        "speed.md",
    ],
    "Write your own": [
        "add-a-method.md",
        "add-a-dataset.md",
        "plugin-api.md",
        "public-names.md",
        "plugins/*",
        "strangers.md",
        "regression.md",
    ],
    "The paper": ["reproduction.md"],
    "How it is built": [
        "architecture.md",
        "engine.md",
        "security.md",
        "checks.md",
        "decisions/index.md",
        "decisions/*",
    ],
    "Reference": ["reference/commands.md", "reference/python.md", "reference/plugins.md", "reference/built-in.md"],
}

#: The runs behind the results pages.
REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"

COMMANDS, BUILT_IN = "reference/commands.md", "reference/built-in.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that are made from the code and from runs."""
    made = [(path, make()) for path, make in made_files().items()]
    for path, content in [*made, *gallery().items(), *results_site()]:
        if there := files.get_file_from_path(path):
            files.remove(there)
        files.append(File.generated(config, path, content=content))
    return files


def made_files() -> dict[str, Callable[[], str | bytes]]:
    """What makes each page and picture, by its path."""
    pages: dict[str, Callable[[], str | bytes]] = {COMMANDS: commands_page, BUILT_IN: built_in_page}
    datasets = {f"pictures/{name}.png": partial(picture, name) for name in SHOWN}
    return {**pages, "pictures/first.png": first, **datasets}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the menu: the pages that are there, in order."""
    root = Path(config.docs_dir)
    present = sorted(str(path.relative_to(root)) for path in root.rglob("*.md"))
    left = [*present, COMMANDS, BUILT_IN]
    menu: list[Any] = []
    for heading, patterns in ORDER.items():
        chosen = [path for pattern in patterns for path in left if fnmatch(path, pattern)]
        left = [path for path in left if path not in chosen]
        menu += [{heading: chosen}] if heading and chosen else chosen
    config.nav = [*menu, *([{"More": left}] if left else []), {"Results": "results/index.html"}]
    return config


def results_site() -> Iterator[tuple[str, bytes]]:
    """The files of the results pages: what `fieldbench site` makes of the suites' runs."""
    from fieldbench.registry import Sources
    from fieldbench.report.site import write_site

    runs = sorted(path.parent for path in REFERENCE.glob("*/manifest.json"))
    with tempfile.TemporaryDirectory() as folder:
        write_site(runs, Path(folder), Sources())
        for path in sorted(Path(folder).rglob("*.*")):
            yield f"results/{path.relative_to(folder)}", path.read_bytes()


def commands_page() -> str:
    """Every command with its options, from the command line itself."""
    from typer.main import get_command

    from fieldbench.cli.main import app

    group: Any = get_command(app)
    pieces = ["# Commands", _help(group)]
    for name, command in group.commands.items():
        pieces += [f"## fieldbench {name}", _help(command), *_parameters(command)]
    return "\n\n".join(pieces) + "\n"


def built_in_page() -> str:
    """Every plugin that comes with fieldbench, with its parameters, from the classes themselves."""
    from fieldbench.registry import KINDS, Registry, Sources

    registry = Registry(Sources())
    pieces = ["# Built-in plugins", "As `fieldbench show NAME` prints them, with default parameters."]
    for kind in KINDS:
        pieces.append(f"## {kind.capitalize()}s" if not kind.endswith("y") else f"## {kind}")
        for name, entry in registry.entries(kind).items():
            pieces += [f"### {name}", plain(inspect.cleandoc(entry.cls.__doc__ or "")), *_declared(entry.cls)]
    return "\n\n".join(pieces) + "\n"


def _declared(cls: Any) -> Iterator[str]:
    from fieldbench.spec import format_value

    names = cls.parameter_names()
    if not names:
        return
    lines = ["| parameter | default | meaning | source |", "|---|---|---|---|"]
    for name in names:
        field = cls.model_fields[name]
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        default = "must be given" if field.is_required() else f"`{format_value(field.default)}`"
        unit = f" ({extra['unit']})" if extra.get("unit") else ""
        meaning = _cell(f"{field.description or ''}{unit}")
        lines.append(f"| `{name}` | {default} | {meaning} | {_cell(str(extra.get('source', '')))} |")
    yield "\n".join(lines)


def _help(command: Any) -> str:
    """The text of a command; its indented examples become code."""
    text = plain(inspect.cleandoc(command.help or "").replace("\b", ""))
    lines, inside = [], False
    for line in text.splitlines():
        example = line.startswith("    ") or (inside and not line.strip())
        if example and not inside:
            lines += ["", "```text"]
        if inside and not example:
            while lines and not lines[-1].strip():
                lines.pop()
            lines += ["```", ""]
        inside = example
        lines.append(line[4:] if line.startswith("    ") else line)
    if inside:
        while lines and not lines[-1].strip():
            lines.pop()
        lines.append("```")
    return "\n".join(lines)


def _parameters(command: Any) -> Iterator[str]:
    lines = []
    for parameter in command.params:
        if "--help" in parameter.opts:
            continue
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        option = parameter.opts[0].startswith("-")
        if not option:
            names = f"`{(parameter.metavar or parameter.name or '').upper()}`"
        elif parameter.metavar and not getattr(parameter, "is_flag", False):
            names += f" `{parameter.metavar}`"
        shown = getattr(parameter, "show_default", None)
        default = shown if isinstance(shown, str) else parameter.default
        known = shown is not False and default not in (None, [], False, "") and not callable(default)
        lines.append(
            f"| {names} | {_cell(getattr(parameter, 'help', '') or '')} | {_cell(str(default)) if known else ''} |"
        )
    if lines:
        yield "\n".join(["| option | meaning | default |", "|---|---|---|", *lines])


def _cell(text: str) -> str:
    """Text that can stand in a Markdown table."""
    return re.sub(r"\s+", " ", plain(text)).replace("|", "\\|").strip()
