"""``fieldbench show NAME``: everything about one method, dataset, noise, sampler, metric or selection."""

from __future__ import annotations

import inspect
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console
from fieldbench.errors import RequestError, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldbench.plugin import Plugin
    from fieldbench.registry import Registry


def show(
    name: Annotated[str, typer.Argument(help="A name, or a spec such as 'tap[epochs=500]+tv'.")],
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Show what a method (or dataset, noise, sampler, metric, selection) is, and all its parameters.

    **Examples**

        fieldbench show tap
        fieldbench show 'tap[epochs=500]+tv'
        fieldbench show radiomap1

    Quote a name with brackets, since shells take brackets for patterns of file names.
    """

    from fieldbench.registry import Registry

    registry = Registry(sources(plugin, no_plugin))
    console = plain_console()
    for index, (kind, part, source) in enumerate(_found(name, registry)):
        if index:
            console.print()
        console.print(*pages(kind, part, source), sep="\n")


def _found(text: str, registry: Registry) -> list[tuple[str, Plugin | type[Plugin], str]]:
    """Kind, object (or class, where it cannot be made without parameters) and origin of all that a spec names."""
    from fieldbench.method import Modifier
    from fieldbench.registry import KINDS
    from fieldbench.selection import RULES
    from fieldbench.spec import parse

    parts = parse(text)
    first = parts[0].name
    found: list[tuple[str, Plugin | type[Plugin], str]] = []
    if len(parts) > 1:
        method = registry.method(text)
        for item in (method.bare(), *method.modifiers):
            kind = "modifier" if isinstance(item, Modifier) else "method"
            found.append((kind, item, str(registry.find("method", item.name).source)))
        return found
    for kind in KINDS:
        if first in registry.entries(kind):
            entry = registry.find(kind, first)
            modifies = issubclass(entry.cls, Modifier)
            needy = any(entry.cls.model_fields[name].is_required() for name in entry.cls.parameter_names())
            as_class = modifies or (needy and not parts[0].parameters)
            made = entry.cls if as_class else getattr(registry, kind)(text)
            found.append(("modifier" if modifies else kind, made, str(entry.source)))
    if first in RULES:
        found.append(("selection", registry.selection(text), "fieldbench"))
    if not found:
        if any(item.name == first for item in registry.broken):
            registry.find("method", first)  # says why
        known = [*RULES, *(key for kind in KINDS for key in registry.entries(kind))]
        raise RequestError(f"unknown name {first!r}{nearest(first, known)}")
    return found


def pages(kind: str, item: Plugin | type[Plugin], source: str) -> list[RenderableType]:
    """Title, description, properties and parameters of a plugin, to be printed one below the other.

    Args:
        kind: of plugin, such as ``method``.
        item: an object with parameters of its own, or a class.
        source: where the plugin comes from, for the title.
    """
    from rich.padding import Padding
    from rich.text import Text

    cls = item if isinstance(item, type) else type(item)
    title = cls.name if isinstance(item, type) else str(item)
    pages: list[RenderableType] = [
        Text.assemble((title, "bold cyan"), f"  {kind}", (f"  from {source}", "dim")),
        Padding(Text(_reflowed(inspect.cleandoc(cls.__doc__ or "It has no description."))), (1, 0, 0, 2)),
    ]
    properties = _properties(cls, item)
    if properties:
        lines = Text("\n").join(Text.assemble((f"{name}: ", "bold"), value) for name, value in properties.items())
        pages.append(Padding(lines, (1, 0, 0, 2)))
    names = cls.parameter_names()
    parameters = _parameters(item, names) if names else Text("It has no parameters.", style="dim")
    return [*pages, Padding(parameters, (1, 0, 0, 2))]


def _reflowed(text: str) -> str:
    """The text with the lines of each plain paragraph joined; lists and indented lines stay as they are."""
    return "\n\n".join(
        paragraph if "\n " in paragraph or "\n-" in paragraph else paragraph.replace("\n", " ")
        for paragraph in text.split("\n\n")
    )


def _properties(cls: type[Plugin], item: Plugin | type[Plugin]) -> dict[str, str]:
    """What a class declares about itself, or the object where that depends on its parameters, in words."""
    from fieldbench.dataset import Dataset
    from fieldbench.method import Method
    from fieldbench.metric import Metric

    properties: dict[str, str] = {}
    if issubclass(cls, Method):
        properties["Fields"] = ", ".join(f"{order}-D" for order in cls.orders or ()) or "any order"
        properties["GPU"] = "yes, where there is one" if cls.uses_gpu else "no, the CPU"
        properties["Trained"] = (
            "on data beyond the observation; tables mark it" if cls.trained else "on the observation alone"
        )
        if cls.accepts:
            properties["Takes"] = ", ".join(f"+{name}" for name in sorted(cls.accepts))
    if issubclass(cls, Dataset):
        properties["Sampled by"] = cls.default_sampler
        properties["Rates"] = ", ".join(f"{rate:g}" for rate in cls.default_rates)
        metric = getattr(item, "metric", None)
        properties["Metric"] = metric if isinstance(metric, str) else "depends on its parameters"
        properties |= {name: text for name, text in (("Licence", cls.licence), ("Cite", cls.citation)) if text}
    if issubclass(cls, Metric):
        way = "less" if cls.lower_is_better else "more"
        properties["Better"] = way if cls.target is None else f"nearer to {cls.target:g}"
        properties["Unit"] = "that of the field" if cls.has_unit else "none"
    return properties


def _parameters(item: Plugin | type[Plugin], names: list[str]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from fieldbench.plugin import same_value
    from fieldbench.spec import format_value

    cls = item if isinstance(item, type) else type(item)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("parameter", no_wrap=True, style="cyan")
    table.add_column("type")
    table.add_column("default")
    table.add_column("meaning", ratio=1)
    for name in names:
        info = cls.model_fields[name]
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        default = "required" if info.is_required() else format_value(info.default)
        meaning = Text(info.description or "")
        if extra.get("source"):
            meaning.append(f" ({extra['source']})", style="dim")
        if extra.get("search"):
            meaning.append(f"; tuned over {extra['search']}", style="dim")
        shown = Text(default)
        if not isinstance(item, type) and not same_value(getattr(item, name), info.default):
            shown = Text.assemble((format_value(getattr(item, name)), "bold"), (f" instead of {default}", "dim"))
        if extra.get("unit"):
            shown.append(f" {extra['unit']}")
        table.add_row(name, _type(info.annotation, info.metadata), shown, meaning)
    return table


def _type(annotation: Any, metadata: list[Any]) -> str:
    """A parameter's type and bounds in words: ``number > 0``, ``whole number >= 1``, ``exact or bernoulli``."""
    words = _words(annotation)
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "multiple_of": "a multiple of"}
    bounds = [
        f"{sign} {getattr(item, key):g}"
        for item in metadata
        for key, sign in signs.items()
        if getattr(item, key, None) is not None
    ]
    plain, none = words.removesuffix(" or none"), " or none" * words.endswith(" or none")
    return f"{plain} {', '.join(bounds)}".strip() + none


_NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "none"}


def _words(annotation: Any) -> str:
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0], list(arguments[1:]))
    if origin is typing.Literal:
        return " or ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_words, arguments))
    if origin is tuple:
        inside = ", ".join(_words(item) for item in arguments if item is not Ellipsis)
        return f"several: {inside}" if Ellipsis in arguments else f"({inside})"
    return getattr(annotation, "__name__", str(annotation))
