"""``fieldbench list``: read from the plugins, or from the file that an earlier listing left in the cache.

To import the plugins takes some fifty starts of a bare Python. Their listing is kept where it depends on nothing but
what can be looked at: the interpreter, the environment, the folders in which Python finds modules and distributions,
and the file of each module that was loaded. If one of these differs, the plugins are read anew. What the plugins of
others depend on, only they know, so where there is one, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import bold
from fieldbench.errors import RequestError, nearest

if TYPE_CHECKING:
    from fieldbench.registry import Broken, Registry

PLURALS = {"method": "Methods", "dataset": "Datasets", "noise": "Noises", "sampler": "Samplers", "metric": "Metrics"}

#: The name of the file that keeps the listing.
LISTING = "listing"

#: What a shell notes of itself, and no plugin that is kept looks at.
_OF_THE_SHELL = {"_", "PWD", "OLDPWD", "SHLVL"}

#: Seconds in which a file system may give a file that is written twice the same time.
_SAME_TIME = 2.0


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(help="methods, datasets, noises, samplers, metrics or modifiers; all of them by default."),
    ] = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """List methods, datasets, noises, samplers and metrics, and where each came from.

    **Examples**

        fieldbench list
        fieldbench list methods
        fieldbench list --plugin mine.py
    """
    groups = [PLURALS["method"], "Modifiers", *list(PLURALS.values())[1:]]
    if kind is not None:
        known = {group.lower(): group for group in groups}
        if kind.lower() not in known:
            raise RequestError(f"unknown kind {kind!r}{nearest(kind, known)}")
        groups = [known[kind.lower()]]

    rows, broken = listing(plugin, no_plugin)
    rows = [row for row in rows if row.group in groups]
    width = max((len(row.name) for row in rows), default=0) + 4
    room = max(shutil.get_terminal_size().columns - width, 20)
    for group in groups:
        origins = Counter(row.source for row in rows if row.group == group)
        for origin, _ in origins.most_common():
            print(f"{bold(group)}  from {origin}")
            for row in rows:
                if (row.group, row.source) == (group, origin):
                    lines = textwrap.wrap(row.summary, room, break_on_hyphens=False)
                    print(f"  {row.name}".ljust(width) + ("\n" + " " * width).join(lines))
            print()
    if broken:
        print(bold("Broken plugins"))
        for item in broken:
            print(f"  {item.name} ({item.source}): {item.reason}")
        print("`fieldbench plugins NAME` shows where it broke.")


class Listed(NamedTuple):
    """One plugin: under which heading, by what name, what it is, where it came from."""

    group: str
    name: str
    summary: str
    source: str


def listing(files: list[str], blocked: list[str]) -> tuple[list[Listed], list[Broken]]:
    """All plugins in the order of kinds and names, and those that are broken.

    Args:
        files: of single-file plugins.
        blocked: names of plugins to leave out.

    Raises:
        RequestError: if a file is not there, or nothing has a name that is to be left out.
        PluginError: in strict mode, if a plugin is broken.
    """
    as_installed = not (files or blocked or os.environ.get("FIELDBENCH_PLUGINS"))
    setting = _setting()
    if as_installed and (kept := _read(setting)) is not None:
        return kept, []

    from fieldbench.registry import Registry

    registry = Registry(sources(files, blocked))
    rows = list(_rows(registry))
    if as_installed and not registry.broken and _only_own():
        _write(setting, rows)
    return rows, registry.broken


def _rows(registry: Registry) -> Iterator[Listed]:
    from fieldbench.method import Modifier

    for kind, plural in PLURALS.items():
        for name, entry in registry.entries(kind).items():
            group, shown = ("Modifiers", f"+{name}") if issubclass(entry.cls, Modifier) else (plural, name)
            yield Listed(group, shown, entry.cls.summary(), str(entry.source))


def _only_own() -> bool:
    from importlib.metadata import entry_points

    from fieldbench.hookspecs import DISTRIBUTION
    from fieldbench.sources import ENTRY_POINT_GROUP

    points = entry_points(group=ENTRY_POINT_GROUP)
    return all(point.dist is not None and point.dist.name == DISTRIBUTION for point in points)


def _read(setting: str) -> list[Listed] | None:
    """The rows that were kept in this setting, if each file that they rest on is as it was."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        digest, _, text = _file().read_text(encoding="utf-8").partition("\n")
        if digest == _digest(setting, text):
            kept = json.loads(text)
            if all(_stamp(path) == stamp for path, stamp in kept["files"].items()):
                return [Listed(*row) for row in kept["rows"]]
    return None


def _write(setting: str, rows: list[Listed]) -> None:
    import psutil

    from fieldbench.store.files import replacing

    stamps = {path: _stamp(path) for path in _rests_on()}
    settled = (psutil.Process().create_time() - _SAME_TIME) * 1e9
    if any(changed > settled for stamp in stamps.values() for changed in stamp[:2]):
        return  # a module may have been loaded before its file was last written
    text = json.dumps({"files": stamps, "rows": rows})
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # no listing is kept there; the next is read anew
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, file.with_name(f"{file.name}.{os.getpid()}.{time.time_ns()}")) as draft:
            draft.write_text(f"{_digest(setting, text)}\n{text}", encoding="utf-8")


def cache_folder() -> str:
    """Where downloads are kept, and the listing; as it is written, perhaps with ``~``."""
    import platformdirs

    return os.environ.get("FIELDBENCH_CACHE") or platformdirs.user_cache_dir("fieldbench")


def _file() -> Path:
    return Path(cache_folder()).expanduser() / LISTING


def _setting() -> str:
    """What decides, besides files, which plugins Python finds and how it loads them; and the form of what is kept."""
    environment = sorted(item for item in os.environ.items() if item[0] not in _OF_THE_SHELL)
    folders = [(folder, _stamp(folder)) for folder in sys.path]
    return repr((_stamp(__file__), sys.executable, sys.version, sys.flags, folders, environment))


def _digest(setting: str, text: str) -> str:
    return hashlib.sha256(f"{setting}\n{text}".encode(errors="surrogateescape")).hexdigest()


def _rests_on() -> Iterable[str]:
    """Files of loaded modules, and the folders in which Python looks for modules and distributions."""
    modules = {file for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))}
    folders = {*sys.path, *(os.path.dirname(file) for file in modules)}
    metadata = (found for folder in folders for found in Path(folder).glob("*-info"))
    return sorted(modules | folders | {str(path) for info in metadata for path in (info, info / "entry_points.txt")})


def _stamp(path: str) -> list[int]:
    """When a file or folder was last changed, as its writer and as the system say, and what else tells it apart."""
    try:
        found = os.stat(path or os.curdir)
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]
