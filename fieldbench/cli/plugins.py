"""What was found here: plugins, those that are broken among them, and what a bug report needs beside them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from fieldbench.cli.listing import LISTING, cache_folder
from fieldbench.cli.options import Device
from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console
from fieldbench.errors import RequestError, nearest


def plugins(
    name: Annotated[str | None, typer.Argument(help="A plugin; of a broken one the whole traceback is shown.")] = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Show where plugins came from and whether they work.

    **Examples**

        fieldbench plugins
        fieldbench plugins mine --plugin mine.py
    """
    from rich.text import Text

    from fieldbench.registry import KINDS, Registry

    registry = Registry(sources(plugin, no_plugin))
    brought: dict[str, list[str]] = {}
    for kind in KINDS:
        for key, entry in registry.entries(kind).items():
            brought.setdefault(str(entry.source), []).append(f"{kind} {key}")
    broken = {item.name for item in registry.broken}
    console = plain_console()
    if name is not None:
        sources_named = [label for label in brought if name in (label, label.partition(" ")[0])]
        if name not in broken and not sources_named:
            known = [*broken, *(label.partition(" ")[0] for label in brought)]
            raise RequestError(f"unknown plugin {name!r}{nearest(name, known)}")
        brought = {label: brought[label] for label in sources_named}
    for label, things in brought.items():
        console.print(Text(label, style="bold"))
        for thing in things:
            console.print(f"  {thing}")
    for item in registry.broken:
        if name in (None, item.name):
            line = Text.assemble((f"{item.name} is broken", "bold red"), f" ({item.source}): {item.reason}")
            console.print(line, soft_wrap=True)
            if name is not None and item.details:
                console.print(item.details, end="", soft_wrap=True)


def info(
    device: Device = "auto",
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Print versions, devices, slots, plugins and the data found: what a bug report needs.

    **Example**

        fieldbench info > report.txt
    """
    from fieldbench.datafile import expanded
    from fieldbench.execution import Options, slots
    from fieldbench.execution.provenance import distribution_version, provenance
    from fieldbench.registry import KINDS, Registry

    found = provenance(slots(Options(device=device)))
    libraries = ", ".join(f"{name} {version}" for name, version in found["libraries"].items())
    _line("fieldbench", found["fieldbench"], _git(found["git"]["fieldbench"]))
    if other := distribution_version("fieldbench"):
        _line(
            "clash",
            f"another project, the distribution fieldbench {other}, is installed into the same folder;",
            "uninstall it, then reinstall fieldbench-completion",
        )
    _line("python", found["python"], "on", found["system"])
    _line("libraries", libraries)
    _line("cpu", found["cpu"], f"({found['cores']} cores usable)")
    gpus = [f"{gpu['name']} ({gpu['memory_mib']} MiB)" for gpu in found["gpus"]]
    _line("gpus", ", ".join(gpus) or "none found", f"driver {found['driver']}" if found["driver"] else "")
    _line("slots", ", ".join(f"{count} x {name}" for name, count in found["slots"].items()))

    registry = Registry(sources(plugin, no_plugin))
    counts: dict[str, list[str]] = {}
    for kind in KINDS:
        for name, entry in registry.entries(kind).items():
            counts.setdefault(str(entry.source), []).append(name)
    for source, names in counts.items():
        _line("plugin", f"{source}:", ", ".join(names))
    for broken in registry.broken:
        _line("broken", f"{broken.name} ({broken.source}): {broken.reason}")

    for variable in ("FIELDBENCH_DATA", "FIELDBENCH_CACHE", "FIELDBENCH_PLUGINS", "CUDA_VISIBLE_DEVICES"):
        if variable in os.environ:
            _line("setting", f"{variable}={os.environ[variable]}")
    cache = cache_folder()
    kept = expanded(cache) / LISTING
    for folder in filter(None, [os.environ.get("FIELDBENCH_DATA"), cache]):
        files = sorted(path for path in expanded(folder).rglob("*") if path.is_file() and path != kept)
        for file in files[:20]:
            _line("data", str(file), f"({file.stat().st_size / 2**20:.1f} MiB)")
        if not files:
            _line("data", f"none in {folder}")


def _line(name: str, *words: str) -> None:
    print(f"{name:<11}", *filter(None, words))


def _git(state: dict[str, object] | None) -> str:
    if state is None:
        return ""
    return f"from git {str(state['commit'])[:12]}{' with changes' if state['dirty'] else ''}"
