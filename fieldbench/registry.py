"""Finding plugins, keeping account of broken ones, and turning text into objects."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pluggy
import pydantic

from fieldbench import hookspecs
from fieldbench.dataset import Dataset
from fieldbench.errors import FieldbenchError, RequestError, nearest
from fieldbench.method import Method, Modifier
from fieldbench.metric import Metric
from fieldbench.noise import Noise
from fieldbench.plugin import Plugin
from fieldbench.selection import RULES, Selection
from fieldbench.sensing import Sampler
from fieldbench.spec import Part, parse

ENTRY_POINT_GROUP = "fieldbench"

KINDS: dict[str, tuple[type[Plugin], ...]] = {
    "method": (Method, Modifier),
    "dataset": (Dataset,),
    "noise": (Noise,),
    "sampler": (Sampler,),
    "metric": (Metric,),
}

P = TypeVar("P", bound=Plugin)


class PluginError(FieldbenchError):
    """A plugin is broken and strict mode makes that fatal."""


@dataclass(frozen=True)
class Source:
    """Where a plugin came from: a distribution, a file, or the running program."""

    label: str
    version: str
    editable: bool = False

    def __str__(self) -> str:
        return f"{self.label} {self.version}".strip()


@dataclass(frozen=True)
class Entry:
    """One registered class."""

    cls: type[Plugin]
    source: Source


@dataclass(frozen=True)
class Broken:
    """A plugin that could not be loaded: its name, where it came from, and why."""

    name: str
    source: Source
    reason: str
    details: str = ""


@dataclass(frozen=True)
class Sources:
    """What, besides installed packages, a registry is made of. Picklable, so that workers build the same.

    Attributes:
        files: single-file plugins, or folders of them.
        classes: plugin classes defined in the running program, such as a notebook cell.
        blocked: names of plugins (entry points or file stems) or classes to leave out.
        strict: whether a broken plugin is fatal.
    """

    files: tuple[str, ...] = ()
    classes: tuple[type[Plugin], ...] = ()
    blocked: frozenset[str] = frozenset()
    strict: bool = False

    @classmethod
    def from_environment(
        cls, files: Iterable[str] = (), classes: Iterable[type[Plugin]] = (), blocked: Iterable[str] = ()
    ) -> Sources:
        """Add what FIELDBENCH_PLUGINS and FIELDBENCH_STRICT_PLUGINS say."""
        listed = [path for path in os.environ.get("FIELDBENCH_PLUGINS", "").split(os.pathsep) if path]
        absolute = dict.fromkeys(str(Path(path).expanduser().resolve()) for path in [*listed, *files])
        strict = os.environ.get("FIELDBENCH_STRICT_PLUGINS", "") not in ("", "0")
        return cls(tuple(absolute), tuple(classes), frozenset(blocked), strict)


class Registry:
    """All plugins that could be found, by kind and name."""

    def __init__(self, sources: Sources | None = None) -> None:
        """Find all plugins.

        Raises:
            PluginError: in strict mode, if any plugin is broken.
            RequestError: if a named file is not there.
        """
        self.sources = Sources.from_environment() if sources is None else sources
        self.broken: list[Broken] = []
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
        self._duplicates: dict[tuple[str, str], tuple[Source, Source]] = {}
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._load_entry_points()
        for path in self.sources.files:
            self._load_path(Path(path))
        for cls in self.sources.classes:
            self._add_class(cls, Source("this program", ""), cls.__name__)
        if self.sources.strict and self.broken:
            raise PluginError("; ".join(f"plugin {item.name!r} ({item.source}): {item.reason}" for item in self.broken))

    def entries(self, kind: str) -> dict[str, Entry]:
        """The registered classes of one kind (``method``, ``dataset``, ...), by name."""
        return dict(sorted(self._entries[kind].items()))

    def find(self, kind: str, name: str) -> Entry:
        """One registered class.

        Raises:
            RequestError: if there is none of that name, if two plugins claim it, or if its plugin is broken.
        """
        if (kind, name) in self._duplicates:
            first, second = self._duplicates[kind, name]
            raise RequestError(
                f"{kind} {name!r} is claimed by both {first} and {second}; leave one out with --no-plugin"
            )
        if name in self._entries[kind]:
            return self._entries[kind][name]
        for item in self.broken:
            if item.name == name or item.source.label == name:
                raise RequestError(
                    f"{kind} {name!r}: its plugin ({item.source}) is broken: {item.reason}; "
                    f"`fieldbench plugins {item.name}` shows the rest"
                )
        suspects = ", ".join(item.name for item in self.broken)
        hint = f" (broken plugins, which might bring it: {suspects})" if suspects else ""
        raise RequestError(f"unknown {kind} {name!r}{nearest(name, self._choices(kind))}{hint}")

    def method(self, text: str) -> Method:
        """The method that a spec such as ``tap[epochs=500]+tv`` describes, modifiers applied."""
        first, *rest = parse(text)
        method = self._instantiate("method", first, text)
        if not isinstance(method, Method):
            raise RequestError(f"{text!r}: {first.name} modifies a method; write METHOD+{first.name}")
        for part in rest:
            modifier = self._instantiate("method", part, text)
            if not isinstance(modifier, Modifier):
                raise RequestError(f"{text!r}: {part.name} is a method of its own; give it by --methods instead of +")
            method = modifier.modify(method)
        return method

    def dataset(self, text: str) -> Dataset:
        plugin: Dataset = self._single("dataset", text)
        return plugin

    def noise(self, text: str) -> Noise:
        plugin: Noise = self._single("noise", text)
        return plugin

    def sampler(self, text: str) -> Sampler:
        plugin: Sampler = self._single("sampler", text)
        return plugin

    def metric(self, text: str) -> Metric:
        plugin: Metric = self._single("metric", text)
        return plugin

    def metrics(self) -> list[Metric]:
        """Every registered metric with its default parameters."""
        return [self.metric(name) for name in self.entries("metric")]

    def selection(self, text: str) -> Selection:
        """One of the three selection rules; these belong to the harness and are no plugins."""
        (part,) = _only_part(text)
        if part.name not in RULES:
            raise RequestError(f"unknown selection {part.name!r}{nearest(part.name, RULES)}")
        return _validated(RULES[part.name], part, text)

    def identity(self, plugin: Plugin) -> dict[str, Any]:
        """What determines a plugin's numbers: class, version or source hash, and all its parameters."""
        if isinstance(plugin, Selection):
            return {"name": plugin.name, "version": plugin.revision, "parameters": plugin.parameters()}
        identity: dict[str, Any] = {
            "name": plugin.name,
            "version": self.version(type(plugin)),
            "parameters": plugin.parameters(),
        }
        if isinstance(plugin, Method) and plugin.modifiers:
            identity["modifiers"] = [self.identity(modifier) for modifier in plugin.modifiers]
        if isinstance(plugin, Dataset) and plugin.fingerprint():
            identity["data"] = plugin.fingerprint()
        return identity

    def version(self, cls: type[Plugin]) -> str:
        """The identity of a class's numbers: distribution, version, and its revision or source hash."""
        source = next(
            (entry.source for kind in self._entries.values() for entry in kind.values() if entry.cls is cls),
            Source("this program", ""),
        )
        if cls.revision is not None:
            return f"{source.label} revision {cls.revision}"
        if source.version and not source.editable:
            return str(source)
        return f"{source} source {_source_hash(cls)}".replace("  ", " ")

    @cached_property
    def distributions(self) -> dict[str, str]:
        """Distribution (or file) and version of everything that registered a class."""
        return {
            entry.source.label: entry.source.version
            for kind in self._entries.values()
            for entry in kind.values()
            if entry.source.version
        }

    def _choices(self, kind: str) -> list[str]:
        return [*self._entries[kind], *(name for found, name in self._duplicates if found == kind)]

    def _single(self, kind: str, text: str) -> Any:
        (part,) = _only_part(text)
        return self._instantiate(kind, part, text)

    def _instantiate(self, kind: str, part: Part, text: str) -> Plugin:
        return _validated(self.find(kind, part.name).cls, part, text)

    # Loading. Each plugin is loaded by itself, so that a broken one takes nothing else with it.

    def _load_entry_points(self) -> None:
        seen: dict[str, Source] = {}
        for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            source = _distribution_source(point)
            if point.name in self.sources.blocked or source.label in self.sources.blocked:
                continue
            if point.name in seen:
                self._break(point.name, source, f"the entry point {point.name!r} is also one of {seen[point.name]}")
                continue
            seen[point.name] = source
            try:
                module = point.load()
            except BaseException as error:  # a plugin may even call sys.exit while it is imported
                if isinstance(error, KeyboardInterrupt):
                    raise
                self._break(point.name, source, _last_line(error), traceback.format_exc())
                continue
            self._register(module, point.name, source)

    def _load_path(self, path: Path) -> None:
        if path.is_dir():
            files = sorted(file for file in path.glob("*.py") if not file.name.startswith(("_", ".")))
        elif path.is_file():
            files = [path]
        else:
            raise RequestError(f"plugin file {str(path)!r} is not there; give a Python file or a folder of them")
        for file in files:
            if file.stem not in self.sources.blocked:
                self._load_file(file)

    def _load_file(self, file: Path) -> None:
        text = file.read_bytes()
        source = Source(str(file), hashlib.sha256(text).hexdigest()[:12])
        # The same file gives the same module name in every process, so its classes can be pickled by name.
        name = f"fieldbench_file_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
        try:
            module = _import_file(name, file)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._break(file.stem, source, _last_line(error), traceback.format_exc())
            return
        self._register(module, file.stem, source)

    def _register(self, module: Any, name: str, source: Source) -> None:
        version = getattr(module, "FIELDBENCH_API", hookspecs.API_VERSION)
        if version != hookspecs.API_VERSION:
            reason = f"it is written for plugin API {version}; this fieldbench has {hookspecs.API_VERSION}"
            self._break(name, source, reason)
            return
        hooks = {f"fieldbench_register_{kind}s": kind for kind in KINDS}
        marked = [key for key in dir(module) if hasattr(getattr(module, key, None), f"{hookspecs.PROJECT}_impl")]
        misspelt = [key for key in marked if key not in hooks]
        if misspelt:
            self._break(name, source, f"there is no hook {misspelt[0]!r}{nearest(misspelt[0], hooks)}")
            return
        if not marked:
            self._break(name, source, "it has no hook; define fieldbench_register_methods and mark it @hookimpl")
            return
        try:
            self._manager.register(module, name=f"{name} ({source.label})")
        except Exception as error:
            self._manager.unregister(module)
            self._break(name, source, _last_line(error), traceback.format_exc())
            return
        for implementation in self._implementations(module, marked):
            try:
                classes = list(implementation())
            except Exception as error:
                self._break(name, source, f"{implementation.__name__}: {_last_line(error)}", traceback.format_exc())
                continue
            for cls in classes:
                self._add_class(cls, source, name, hooks[implementation.__name__])

    def _implementations(self, module: Any, marked: list[str]) -> Iterator[Any]:
        for key in marked:
            yield getattr(module, key)

    def _add_class(self, cls: Any, source: Source, plugin: str, expected: str | None = None) -> None:
        kind = next((kind for kind, bases in KINDS.items() if _is_subclass(cls, bases)), None)
        shown = getattr(cls, "__name__", repr(cls))
        if kind is None or (expected is not None and kind != expected):
            base = KINDS[expected or "method"][0].__name__
            self._break(plugin, source, f"{shown} is no class derived from fieldbench.{base}")
            return
        name = getattr(cls, "name", None)
        try:
            valid = isinstance(name, str) and parse(name) == (Part(name),)
        except RequestError:
            valid = False
        if not valid or not isinstance(name, str):
            self._break(plugin, source, f"{shown} needs a name of lower case letters, digits and hyphens, not {name!r}")
            return
        if inspect.isabstract(cls):
            missing = ", ".join(sorted(cls.__abstractmethods__))
            self._break(plugin, source, f"{shown} does not define {missing}")
            return
        if name in self.sources.blocked:
            return
        if name in self._entries[kind]:
            first = self._entries[kind][name].source
            if self._entries[kind][name].cls is cls:
                return
            if source.label == "this program":  # a notebook cell run again replaces its class
                self._entries[kind][name] = Entry(cls, source)
                return
            self._duplicates[kind, name] = (first, source)
            del self._entries[kind][name]
            self._break(plugin, source, f"the {kind} {name!r} is also registered by {first}")
            return
        self._entries[kind][name] = Entry(cls, source)

    def _break(self, name: str, source: Source, reason: str, details: str = "") -> None:
        self.broken.append(Broken(name, source, reason, details))


def _only_part(text: str) -> Sequence[Part]:
    parts = parse(text)
    if len(parts) != 1:
        raise RequestError(f"{text!r}: only methods can be composed with +")
    return parts


def _validated(cls: type[P], part: Part, text: str) -> P:
    names = cls.parameter_names()
    for key in part.parameters:
        if key not in names:
            raise RequestError(f"{text!r}: {part.name} has no parameter {key!r}{nearest(key, names)}")
    try:
        return cls(**part.parameters)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(item) for item in first["loc"][:1]) or "its parameters"
        given = f" = {part.parameters[key]!r}" if key in part.parameters else ""
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"{text!r}: {key}{given} of {part.name}: {message[0].lower()}{message[1:]}") from None


def _is_subclass(cls: Any, bases: tuple[type[Plugin], ...]) -> bool:
    return isinstance(cls, type) and issubclass(cls, bases)


def _import_file(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _distribution_source(point: importlib.metadata.EntryPoint) -> Source:
    if point.dist is None:
        return Source("an unnamed distribution", "")
    return Source(point.dist.name, point.dist.version, _is_editable(point.dist))


def _is_editable(distribution: importlib.metadata.Distribution) -> bool:
    text = distribution.read_text("direct_url.json")
    return bool(text and json.loads(text).get("dir_info", {}).get("editable"))


def _source_hash(cls: type) -> str:
    """Hash of the whole top-level package or file that defines a class, so that no helper is missed."""
    module = sys.modules.get(cls.__module__)
    top = sys.modules.get(cls.__module__.partition(".")[0])
    digest = hashlib.sha256()
    if top is not None and getattr(top, "__path__", None):
        for folder in sorted(top.__path__):
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(file.read_bytes())
    elif module is not None and getattr(module, "__file__", None):
        digest.update(Path(str(module.__file__)).read_bytes())
    else:
        try:
            digest.update(inspect.getsource(cls).encode())
        except (OSError, TypeError):  # a class typed at a prompt has no source to read; its code stands in
            for key, value in sorted(vars(cls).items()):
                code = getattr(value, "__code__", None)
                digest.update(repr((key, code.co_code, code.co_consts) if code else key).encode())
    return digest.hexdigest()[:12]


def _last_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()
