"""What determines a cell's numbers, as one hash: parameters, code and data of every plugin in it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from fieldbench.code import Code, Unidentified
from fieldbench.dataset import Dataset
from fieldbench.errors import one_line
from fieldbench.method import Method
from fieldbench.plugin import Plugin
from fieldbench.records import Cell
from fieldbench.registry import Registry, asked_here
from fieldbench.selection import Selection
from fieldbench.sources import THIS_PROGRAM, travels_by_value

#: Version of how a method's seed follows from the base seed. Another version gives other numbers; 2 has 32 bits.
SEEDS = 2

_LOG = logging.getLogger("fieldbench")
_said: set[str] = set()
_codes: WeakKeyDictionary[Registry, Code] = WeakKeyDictionary()


def cell_identity(registry: Registry, cell: Cell, fingerprint: Callable[[Any], str] = asked_here) -> str:
    """16 hex digits that are equal where all parameters, code and data behind a cell are.

    Args:
        registry: where its specs are looked up.
        cell: what is computed.
        fingerprint: asks a method or dataset for the identity of its data.

    Returns:
        The digits, or "" where they could not be had, which is said once; a row with this never counts as finished.

    Raises:
        RequestError: if a spec is wrong.
    """
    parts = [
        registry.method(cell.method),
        registry.dataset(cell.dataset),
        registry.sampler(cell.sampler),
        registry.noise(cell.noise),
        registry.selection(cell.select),
    ]
    try:
        return _digest(registry, parts, fingerprint)
    except Unidentified as error:
        said = f"{error}; its results do not count as finished"
        if said not in _said:
            _said.add(said)
            _LOG.warning(said)
        return ""


def _digest(registry: Registry, parts: Sequence[Plugin], fingerprint: Callable[[Any], str]) -> str:
    described = json.dumps([SEEDS, *(_described(registry, part, fingerprint) for part in parts)], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def draw_identity(registry: Registry, cell: Cell, fingerprint: Callable[[Any], str]) -> str:
    """As :func:`cell_identity`, of all that a cell observes: its dataset, sampler and noise.

    Args:
        registry, cell, fingerprint: as there.
    """
    parts = [registry.dataset(cell.dataset), registry.sampler(cell.sampler), registry.noise(cell.noise)]
    try:
        return _digest(registry, parts, fingerprint)
    except Unidentified:
        return ""


def version(registry: Registry, cls: type[Plugin]) -> str:
    """What stands for the code of a class: its own revision, or where it is from and what it is made of.

    Raises:
        Unidentified: if that cannot be told.
    """
    source = next((entry.source for entry in registry.every() if entry.cls is cls), THIS_PROGRAM)
    revision = vars(cls).get("revision")  # that of a base class says nothing of what was changed in this one
    if revision is not None:
        return f"{source.identity} revision {revision}"
    digest, distributions = _code(registry).of(cls)
    if not source.is_installed:
        return f"{source.identity} source {digest}"
    own = f"{source.identity} {source.version}"
    return ", ".join([own, *sorted(distributions - {own})])


def _described(registry: Registry, plugin: Plugin, fingerprint: Callable[[Any], str]) -> dict[str, Any]:
    """What determines a plugin's numbers, and those of the plugins that it holds."""

    def plain(value: Any) -> Any:
        if isinstance(value, Plugin):
            return _described(registry, value, fingerprint)
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return [[plain(key), plain(item)] for key, item in value.items()]
        return value if isinstance(value, bool | int | float | str | None) else _code(registry).of_value(value)

    described = {"name": plugin.name, "parameters": {key: plain(value) for key, value in plugin.parameters().items()}}
    private = plugin.__pydantic_private__ or {}
    held = {key: plain(value) for key, value in private.items() if isinstance(value, Plugin | list | tuple | dict)}
    if held:
        described["held"] = held
    if isinstance(plugin, Method) and plugin.modifiers:
        described["modifiers"] = plain(plugin.modifiers)
    if isinstance(plugin, Selection):
        return {**described, "version": plugin.revision}
    try:
        described["version"] = version(registry, type(plugin))
    except Unidentified as error:
        raise Unidentified(f"{plugin} has no identity: {error}") from error
    except Exception as error:  # what an object that it uses does when it is looked at
        raise Unidentified(f"{plugin} has no identity: it uses what cannot be looked at: {one_line(error)}") from error
    try:
        data = fingerprint(plugin) if isinstance(plugin, Method | Dataset) else ""
    except Exception as error:
        raise Unidentified(f"{plugin} has no identity: fingerprint() raised {one_line(error)}") from error
    return {**described, "data": plain(data)} if data else described


def _code(registry: Registry) -> Code:
    """The code behind a registry's classes, as it was when first asked for."""
    if registry not in _codes:
        handed_over = (entry.cls for entry in registry.every() if entry.source == THIS_PROGRAM)
        _codes[registry] = Code(cls.__module__ for cls in handed_over if travels_by_value(cls))
    return _codes[registry]
