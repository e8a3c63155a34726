"""Finding plugins, keeping account of broken ones, and turning text into objects."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import pluggy
import pydantic

from fieldbench import datafile, hookspecs
from fieldbench.code import imported
from fieldbench.dataset import Dataset
from fieldbench.errors import (
    DataUnavailable,
    FieldbenchError,
    RequestError,
    as_reason,
    complaint,
    how_to_install,
    meant,
    nearest,
    one_line,
)
from fieldbench.hookspecs import DISTRIBUTION
from fieldbench.method import Method, Modifier, OfFits
from fieldbench.metric import Metric
from fieldbench.noise import Noise
from fieldbench.plugin import Plugin
from fieldbench.plugin_code import CtrlC, faults, plugin_code, process_kept
from fieldbench.records import NAMES as RESERVED
from fieldbench.sampler import Sampler
from fieldbench.search import Space
from fieldbench.selection import RULES, Selection
from fieldbench.sources import (
    ENTRY_POINT_GROUP,
    FILE_MODULE,
    THIS_PROGRAM,
    Parcel,
    Source,
    Sources,
    file_version,
    is_editable,
    packed,
    spec_of_file,
)
from fieldbench.spec import Part, is_name, parse

__all__ = ["KINDS", "Broken", "Entry", "PluginError", "Registry", "Source", "Sources"]

HOOK_PREFIX = "fieldbench_register_"

KINDS: dict[str, tuple[type[Plugin], ...]] = {
    "method": (Method, Modifier),
    "dataset": (Dataset,),
    "noise": (Noise,),
    "sampler": (Sampler,),
    "metric": (Metric,),
}

P = TypeVar("P", bound=Plugin)


def make(text: str, kind: str | None = None) -> Plugin:
    """The plugin that a spec describes, of whatever kind has its name.

    >>> str(make("thin-plate")), str(make("gaussian[sigma=0.3]"))
    ('thin-plate', 'gaussian[sigma=0.3]')

    Args:
        text: a spec, as on the command line; methods with their modifiers.
        kind: ``method``, ``dataset``, ``noise``, ``sampler`` or ``metric``, where several have the name.

    Raises:
        RequestError: if there is no plugin of that name, several kinds have one, or a parameter is wrong.
    """
    registry, name = Registry(), parse(text)[0].name
    found = [key for key in KINDS if name in registry.entries(key)] if kind is None else [kind]
    if kind is not None and kind not in KINDS:
        raise RequestError(f"unknown kind {kind!r}{nearest(kind, KINDS)}")
    if len(found) > 1:
        raise RequestError(f"{name!r} is a {' and a '.join(found)}; say which by kind={found[0]!r}")
    if not found:
        names = [entry.cls.name for entry in registry.every()]
        raise RequestError(f"there is no plugin {name!r}{nearest(name, names)}")
    plugin: Plugin = getattr(registry, found[0])(text)
    return plugin


def asked_here(plugin: Plugin) -> str:
    """A plugin's fingerprint, asked for in this process."""
    return plugin.fingerprint() if isinstance(plugin, Method | Dataset) else ""


class PluginError(FieldbenchError):
    """A plugin is broken and strict mode makes that fatal."""


@dataclass(frozen=True)
class Entry:
    """One registered class, where it came from and the name of the plugin that brought it."""

    cls: type[Plugin]
    source: Source
    plugin: str = ""


@dataclass(frozen=True)
class Broken:
    """A plugin that could not be loaded, or one of its classes.

    Attributes:
        name: of the plugin: its entry point, or the file without ``.py``.
        source: where it came from.
        reason: why, in one line.
        details: the traceback, where there is one.
        brings: the name that the class would have had, where that is known.
    """

    name: str
    source: Source
    reason: str
    details: str = ""
    brings: str = ""


class Registry:
    """All plugins that could be found, by kind and name."""

    def __init__(self, sources: Sources | None = None) -> None:
        """Find all plugins.

        Raises:
            PluginError: in strict mode, if any plugin is broken.
            RequestError: if a named file is not there, or nothing has a name that is to be left out.
        """
        self.sources = Sources.from_environment() if sources is None else sources
        datafile.remember(self.sources.data)
        self.broken: list[Broken] = []
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
        self._duplicates: dict[tuple[str, str], tuple[Entry, Entry]] = {}
        self._left_out: set[str] = set()
        self._files: dict[Path, tuple[str, str, str]] = {}
        with process_kept():
            self._load_entry_points()
            for path in self.sources.files:
                self._load_path(Path(path))
        for cls in self.sources.classes:
            self._add_class(cls, THIS_PROGRAM, getattr(cls, "__name__", repr(cls)))
        # Digits are read and written as this program's threads round, which an import may have changed.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).fesetround(0)
        self._metrics = self._made_metrics()
        self._check_blocked()
        if self.sources.strict and self.broken:
            raise PluginError("; ".join(f"plugin {item.name!r} ({item.source}): {item.reason}" for item in self.broken))

    def entries(self, kind: str) -> dict[str, Entry]:
        """The registered classes of one kind (``method``, ``dataset``, ...), by name."""
        return dict(sorted(self._entries[kind].items()))

    def every(self) -> list[Entry]:
        """The registered classes of all kinds."""
        return [entry for kind in self._entries.values() for entry in kind.values()]

    def is_own(self, kind: str, name: str) -> bool:
        """Whether a class comes with fieldbench itself."""
        return self.find(kind, name).source.label == hookspecs.DISTRIBUTION

    def find(self, kind: str, name: str) -> Entry:
        """One registered class.

        Raises:
            RequestError: if there is none of that name, if two plugins claim it, or if its plugin is broken.
        """
        if (kind, name) in self._duplicates:
            first, second = self._duplicates[kind, name]
            raise RequestError(
                f"{kind} {name!r} is claimed by both {first.source} and {second.source}; "
                f"rename one, or leave one out: --no-plugin {first.plugin} or --no-plugin {second.plugin}"
            )
        if name in self._entries[kind]:
            return self._entries[kind][name]
        for item in self.broken:
            if name in (item.brings, item.name, item.source.label):
                raise RequestError(
                    f"{kind} {name!r}: its plugin ({item.source}) is broken: {item.reason}; "
                    f"`fieldbench plugins {item.name}` shows the rest"
                )
        choices = [*self._entries[kind], *(claimed for found, claimed in self._duplicates if found == kind)]
        raise RequestError(f"unknown {kind} {name!r}{self._suspicion() or nearest(name, choices)}")

    def _suspicion(self) -> str:
        """What an unknown name may have to do with plugins that did not load at all, or nothing."""
        unloaded = {item.name: item.reason for item in self.broken if not item.brings}
        if not unloaded:
            return ""
        reasons = "; ".join(f"{name} does not load: {reason}" for name, reason in unloaded.items())
        return f"; {reasons}; `fieldbench plugins {next(iter(unloaded))}` shows the rest"

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
            method = _modified(method, modifier, text)
        return method

    def refits(self, text: str) -> list[OfFits]:
        """The modifiers of a method's spec that have it fitted several times, the innermost first."""
        return [modifier for modifier in self.method(text).modifiers if isinstance(modifier, OfFits)]

    def space(self, text: str) -> Space:
        """What may be tuned of a method."""
        return self.method(text).space()

    def modifier(self, text: str) -> Modifier:
        """The modifier that a spec such as ``tv[weight=0.1]`` describes, by itself."""
        modifier = self._single("method", text)
        if not isinstance(modifier, Modifier):
            raise RequestError(f"{text!r} is a method of its own and modifies none")
        return modifier

    def dataset(self, text: str) -> Dataset:
        return cast(Dataset, self._single("dataset", text))

    def noise(self, text: str) -> Noise:
        return cast(Noise, self._single("noise", text))

    def sampler(self, text: str) -> Sampler:
        return cast(Sampler, self._single("sampler", text))

    def metric(self, text: str) -> Metric:
        return cast(Metric, self._single("metric", text))

    def metrics(self) -> list[Metric]:
        """Every registered metric with its default parameters; one that must be told some is none of them."""
        return list(self._metrics)

    def selection(self, text: str) -> Selection:
        """One of the three selection rules; these belong to the harness and are not plugins."""
        part = _only_part(text)
        if part.name not in RULES:
            raise RequestError(f"unknown selection {part.name!r}{nearest(part.name, RULES)}")
        return validated(RULES[part.name], part, text)

    @cached_property
    def distributions(self) -> dict[str, str]:
        """Distribution (or file) and version of everything that registered a class."""
        return {entry.source.label: entry.source.version for entry in self.every() if entry.source.version}

    def classes(self) -> list[type[Plugin]]:
        """All registered classes but those of the running program."""
        return [entry.cls for entry in self.every() if entry.source != THIS_PROGRAM]

    def parcel(self, objects: Any) -> Parcel:
        """Plugin objects for another process; raises what :func:`fieldbench.sources.packed` does."""
        # The objects may do anything when they are pickled.
        with faults(lambda error: error if isinstance(error, Exception) else ValueError(one_line(error))):
            content = packed(objects, self.sources.classes)
        return Parcel(content, tuple(self._files.values()), datafile.locations())

    def _single(self, kind: str, text: str) -> Plugin:
        return self._instantiate(kind, _only_part(text), text)

    def _instantiate(self, kind: str, part: Part, text: str) -> Plugin:
        return validated(self.find(kind, part.name).cls, part, text, self)

    # Loading. Each plugin is loaded by itself, so that a broken one takes nothing else with it.

    def _load_entry_points(self) -> None:
        seen: dict[str, Source] = {}
        points = [
            (_distribution_source(point), point) for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
        ]
        # The project's own come first, so that no other package can take their place.
        for source, point in sorted(points, key=lambda pair: pair[0].label != hookspecs.DISTRIBUTION):
            if self._is_blocked(point.name, source.label):
                continue
            if point.name in seen:
                reason = f"{source} and {seen[point.name]} both have an entry point {point.name!r}; rename one"
                self._break(point.name, source, reason)
                continue
            seen[point.name] = source
            with faults(self._breaks(point.name, source)):
                self._register(point.load(), point.name, source)

    def _load_path(self, path: Path) -> None:
        if path.is_dir():
            files = sorted(file for file in path.glob("*.py") if file.is_file() and file.name[0] not in "_.")
        elif path.is_file():
            files = [path]
        else:
            raise RequestError(f"plugin file {str(path)!r} is not there; give a Python file or a folder of them")
        for file in files:
            if file.resolve() not in self._files and not self._is_blocked(file.stem, str(file)):
                self._load_file(file)

    def _load_file(self, file: Path) -> None:
        text = file.read_bytes()
        source = Source(str(file), file_version(text), is_file=True)
        # The same file gives the same module name in every process, so its classes can be pickled by name.
        stem = os.fsencode(file.stem).decode(errors="replace")  # names of files are bytes where the locale is C
        name = f"{FILE_MODULE}{stem}_{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}"
        self._files[file.resolve()] = (name, str(file), source.version)
        module, breaks = None, self._breaks(file.stem, source)
        with faults(breaks):
            module = _import_file(name, file)
        # Only now is the path as later imports find it.
        if module is not None and (mistaken := _mistaken(file, text)):
            self._break(file.stem, source, mistaken)
        elif module is not None:
            with faults(breaks):
                self._register(module, file.stem, source)

    def _register(self, module: Any, name: str, source: Source) -> None:
        if not isinstance(module, ModuleType):
            found = f"the class {module.__name__}" if isinstance(module, type) else f"a {type(module).__name__}"
            self._break(name, source, f"its entry point names {found}; it should name the module with the hooks")
            return
        # Only what lies there is looked at: a module may make names up when it is asked for them, or fail to.
        members = vars(module)
        version = members.get("FIELDBENCH_API", hookspecs.API_VERSION)
        if version != hookspecs.API_VERSION:
            reason = f"it is written for plugin API {version}; this fieldbench has {hookspecs.API_VERSION}"
            self._break(name, source, reason)
            return
        hooks = {f"{HOOK_PREFIX}{kind}s": kind for kind in KINDS}
        functions = {key: value for key, value in sorted(members.items()) if inspect.isroutine(value)}
        marked = {key: value for key, value in functions.items() if hasattr(value, f"{hookspecs.PROJECT}_impl")}
        for key in marked:
            if key not in hooks:
                self._break(name, source, f"there is no hook {key!r}{nearest(key, hooks)}")
                return
        for key in members:
            if key.startswith(HOOK_PREFIX) and key not in marked:
                self._break(name, source, f"{key} is not marked; write @fieldbench.hookimpl above it")
                return
        if not marked:
            reason = f"it has no hook; define one of {', '.join(hooks)} and mark it with @fieldbench.hookimpl"
            self._break(name, source, reason)
            return
        plugin = ModuleType(name)
        vars(plugin).update(marked)
        # A manager of its own for each plugin: one that raises in a hook takes no other's classes along.
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        try:
            manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            about, *_, reason = str(error).strip().splitlines()
            self._break(name, source, f"{about}: {reason}", traceback.format_exc())
            return
        for key in marked:
            self._collect(getattr(manager.hook, key), key, hooks[key], source, name)

    def _collect(self, call: Callable[[], list[Any]], hook: str, kind: str, source: Source, plugin: str) -> None:
        breaks = self._breaks(plugin, source, f"{hook}: ")
        with faults(breaks):
            returned = next(iter(call()), None)  # pluggy leaves None out
            if not isinstance(returned, list | tuple):
                self._break(plugin, source, f"{hook} returned {_shown(returned)}; it should return a list of classes")
                return
            for cls in returned:
                with faults(breaks):  # a class whose attributes, or a value whose text, raise
                    self._add_class(cls, source, plugin, kind)

    def _add_class(self, cls: Any, source: Source, plugin: str, expected: str | None = None) -> None:
        kind = next((kind for kind, bases in KINDS.items() if isinstance(cls, type) and issubclass(cls, bases)), None)
        if kind is None or (expected is not None and kind != expected):
            base = KINDS[expected or "method"][0].__name__
            self._break(plugin, source, f"{_shown(cls)} is not a class derived from fieldbench.{base}")
            return
        name = getattr(cls, "name", None)
        if not isinstance(name, str) or not is_name(name):
            reason = f"{_shown(cls)} needs a name of lower case letters, digits and hyphens, not {name!r}"
            self._break(plugin, source, reason)
            return
        if inspect.isabstract(cls):
            missing = ", ".join(sorted(cls.__abstractmethods__))
            self._break(plugin, source, f"{_shown(cls)} does not define {missing}", brings=name)
            return
        if kind == "metric" and name in RESERVED:
            self._break(plugin, source, f"no metric can be called {name}: a record has that name for something else")
            return
        if not self._is_blocked(name):
            self._enter(kind, name, Entry(cls, source, plugin))

    def _enter(self, kind: str, name: str, entry: Entry) -> None:
        known = self._entries[kind]
        if (kind, name) in self._duplicates:
            first, _ = self._duplicates[kind, name]
        elif name not in known or entry.source == THIS_PROGRAM == known[name].source:
            known[name] = entry  # a notebook cell run again replaces its class
            return
        elif known[name].cls is entry.cls:
            return
        else:
            first = known.pop(name)
            self._duplicates[kind, name] = (first, entry)
        reason = f"the {kind} {name!r} is registered by both {first.source} and {entry.source}"
        self._break(entry.plugin, entry.source, reason, brings=name)

    def _made_metrics(self) -> list[Metric]:
        """Every run scores by every metric, so that one which cannot be made must cost nobody else's runs."""
        made = []
        for name, entry in self.entries("metric").items():
            try:
                made.append(self.metric(name))
            except RequestError as error:
                reason = f"no run is scored by the metric {error}; give all its parameters defaults"
                self._break(entry.plugin, entry.source, reason, brings=name)
        return made

    def _is_blocked(self, *names: str) -> bool:
        found = self.sources.blocked.intersection(names)
        self._left_out |= found
        return bool(found)

    def _check_blocked(self) -> None:
        for name in sorted(self.sources.blocked - self._left_out):
            known = {item.name for item in self.broken}
            for entry in self.every():
                known |= {entry.cls.name, entry.plugin, entry.source.label}
            raise RequestError(f"--no-plugin {name}: there is no plugin of that name{nearest(name, known)}")

    def _breaks(self, name: str, source: Source, where: str = "") -> Callable[[BaseException], None]:
        """Breaks a plugin by what its code raised."""
        return lambda error: self._break(name, source, f"{where}{_why(error)}", traceback.format_exc())

    def _break(self, name: str, source: Source, reason: str, details: str = "", brings: str = "") -> None:
        self.broken.append(Broken(name, source, reason, details, brings))


def _only_part(text: str) -> Part:
    parts = parse(text)
    if len(parts) != 1:
        raise RequestError(f"{text!r}: only methods can be composed with +")
    return parts[0]


def validated(cls: type[P], part: Part, text: str, registry: Registry | None = None) -> P:
    """An object of a plugin class with the parameters of a part.

    Args:
        cls: the plugin class.
        part: name and parameters, as parsed.
        text: the whole spec, which errors quote.
        registry: where parameters that are plugins themselves are looked up.

    Raises:
        RequestError: if a parameter is unknown or its value not allowed, or the class cannot be made.
    """
    try:
        with plugin_code():
            names = cls.parameter_names()
            for key in part.parameters:
                if key not in names and key not in {field.alias for field in cls.model_fields.values()}:
                    raise RequestError(f"{text!r}: {part.name} has no parameter {key!r}{nearest(key, names)}")
            check_requirements(cls)
            plugin = cls.model_validate(part.parameters, context=registry)
            for name in _declarations(cls):  # a class that cannot say what it is, is not used
                with contextlib.suppress(DataUnavailable):  # it is missed when a field is drawn
                    getattr(plugin, name)
            tuple(getattr(plugin, "libraries", ()))
            return plugin
    except (RequestError, CtrlC):
        raise
    except pydantic.ValidationError as error:
        path, _, message = complaint(error)
        key = path[0] if path else "its parameters"
        given = f" = {part.parameters[key]!r}" if key in part.parameters else ""
        raise RequestError(f"{text!r}: {key}{given} of {part.name}: {message}") from None
    except BaseException as error:  # what the class itself does when it is made
        raise RequestError(f"{text!r}: {part.name} cannot be made: {one_line(error)}") from error


@cache
def _declarations(cls: type[Plugin]) -> list[str]:
    """Attributes that the harness reads of an object of a class, which may compute them."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("fieldbench.")]
    declared = {name for base in bases for name in getattr(base, "__class_vars__", ())}
    computed = {name for base in bases for name, value in vars(base).items() if isinstance(value, property)}
    return sorted(declared | {name for name in computed if not name.startswith("_")})


def check_requirements(cls: type[Plugin]) -> None:
    """Refuse a plugin where a module is missing that it requires, and say how to install it."""
    missing = [module for module in cls.requires if not _is_installed(module)]
    if missing:
        wanted = [cls.requires[module] for module in missing]
        own = [text[len(DISTRIBUTION) + 1 : -1] for text in wanted if text.startswith(f"{DISTRIBUTION}[")]
        quoted = " ".join(f"'{text}'" for text in wanted)
        command = how_to_install(own[0]) if own else f"run: pip install {quoted}"
        raise RequestError(f"{cls.name} needs {', '.join(missing)}, not installed here; {command}")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def plain_text(plugin: Plugin) -> str:
    """What a plugin calls itself, as a text of no class of its own."""
    return str.__str__(str(plugin))


def text_of(plugin: Plugin, asked: str = "") -> str:
    """The canonical text form of a plugin, by which its trials are known.

    Args:
        asked: the spec that gave it; a wrapper is written as what it wraps.

    Raises:
        RequestError: if the class has a form of its own that cannot be had or names something else.
    """
    with faults(lambda error: RequestError(f"{plugin.name} cannot be written as text: {one_line(error)}")):
        text = plain_text(plugin)
    names = {plugin.name, *(part.name for part in parse(asked)[:1])} if asked else {plugin.name}
    if parse(text)[0].name not in names:
        raise RequestError(f"{plugin.name} is written as {text!r}; its text form should begin with its name")
    return text


def _modified(method: Method, modifier: Modifier, text: str) -> Method:
    around = next((item for item in method.modifiers if isinstance(item, OfFits)), None)
    if around is not None and not isinstance(modifier, OfFits):
        raise RequestError(f"{text!r}: +{around.name} stands behind all others; write +{modifier.name} before it")

    def told(error: BaseException) -> Exception:
        if isinstance(error, RequestError) and modifier.name in str(error):
            return error
        return RequestError(f"{text!r}: modify() of {modifier.name}: {as_reason(error)}")

    with faults(told):
        modified = modifier.modify(method)
        if not isinstance(modified, Method):
            returned = _shown(modified)
            raise RequestError(f"{text!r}: modify() of {modifier.name} returned {returned}; it should be a method")
    return modified


def _why(error: BaseException) -> str:
    """Why a module does not load; of an attribute without a type, which pydantic refuses, in our words."""
    if not isinstance(error, pydantic.PydanticUserError) or error.code != "model-field-missing-annotation":
        return one_line(error)
    written = str(error).split("`")[1]
    name = written.partition(" ")[0]
    known = {key for bases in KINDS.values() for base in bases for key in base.__class_vars__}
    return (
        f"{written}: plugins have no attribute {name}{meant(name, known)}; "
        f"write a parameter as {name}: TYPE = parameter(...), and what is none as {name}: ClassVar[TYPE] = ..."
    )


def _import_file(name: str, file: Path) -> ModuleType:
    spec = spec_of_file(name, file)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _mistaken(file: Path, text: bytes) -> str:
    """Why a single-file plugin has not the module that lies beside it, but one of the same name; or ""."""
    for name in sorted(imported(text)):
        beside = [path for path in (file.with_name(f"{name}.py"), file.parent / name / "__init__.py") if path.is_file()]
        spec = None if name in sys.modules or not beside else importlib.machinery.PathFinder.find_spec(name)
        found: str | None = getattr(sys.modules.get(name), "__file__", None if spec is None else spec.origin)
        installed = found is None or any(Path(found).is_relative_to(part) for part in sysconfig.get_paths().values())
        if beside and found is not None and not installed and Path(found).resolve() != beside[0].resolve():
            return f"it imports {name}, and gets {found} in place of the one beside it; give that a name of its own"
    return ""


def _distribution_source(point: importlib.metadata.EntryPoint) -> Source:
    if point.dist is None:
        return Source("an unnamed distribution", "")
    return Source(point.dist.name, point.dist.version, is_editable(point.dist))


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else f"{value!r:.60}"
