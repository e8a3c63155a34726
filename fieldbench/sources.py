"""Where plugins come from: installed packages, single files, and classes of the running program."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import cloudpickle

from fieldbench import datafile
from fieldbench.datafile import expanded
from fieldbench.plugin import Plugin

ENTRY_POINT_GROUP = "fieldbench"

#: How the modules of single files are named, which have no name by which they could be imported.
FILE_MODULE = "fieldbench_file_"


@dataclass(frozen=True)
class Source:
    """Where a plugin came from: a distribution, a file, or the running program.

    Attributes:
        label: name of the distribution, or path of the file.
        version: of the distribution; of a file, the hash of its text.
        editable: whether the distribution's source may change under the same version.
        is_file: whether it is a single file.
    """

    label: str
    version: str
    editable: bool = False
    is_file: bool = False

    @property
    def identity(self) -> str:
        """The label without the folder: results do not depend on where a file lies."""
        return Path(self.label).stem if self.is_file else self.label

    @property
    def is_installed(self) -> bool:
        """Whether its version says what its code is."""
        return bool(self.version) and not self.editable and not self.is_file

    def __str__(self) -> str:
        return f"{self.label} {self.version}".strip()


#: Where classes come from that were handed over by the running program, such as a notebook.
THIS_PROGRAM = Source("this program", "")


@dataclass(frozen=True)
class Sources:
    """What, besides installed packages, a registry is made of. Picklable, so that workers build the same.

    Attributes:
        files: single-file plugins, or folders of them.
        classes: plugin classes defined in the running program, such as a notebook cell.
        blocked: names of plugins (entry points or file stems), distributions or classes to leave out.
        strict: whether a broken plugin is fatal.
        data: where files lie that specs name by their content (:mod:`fieldbench.datafile`).
    """

    files: tuple[str, ...] = ()
    classes: tuple[type[Plugin], ...] = ()
    blocked: frozenset[str] = frozenset()
    strict: bool = False
    data: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_environment(
        cls, files: Iterable[str] = (), classes: Iterable[type[Plugin]] = (), blocked: Iterable[str] = ()
    ) -> Sources:
        """Add what FIELDBENCH_PLUGINS and FIELDBENCH_STRICT_PLUGINS say.

        Args:
            files: paths of single-file plugins.
            classes: plugin classes given as such.
            blocked: names of plugins to be left out.
        """
        listed = [path for path in os.environ.get("FIELDBENCH_PLUGINS", "").split(os.pathsep) if path]
        absolute = dict.fromkeys(str(expanded(path).resolve()) for path in [*listed, *files])
        strict = os.environ.get("FIELDBENCH_STRICT_PLUGINS", "") not in ("", "0")
        return cls(tuple(absolute), tuple(classes), frozenset(blocked), strict)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to a worker: classes that it could not import there travel with their code."""
        return {**self.__dict__, "classes": packed(self.classes, self.classes)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, classes=pickle.loads(state["classes"]))


@dataclass(frozen=True)
class Parcel:
    """Plugin objects on their way to another process, with the code of those that it cannot import there.

    Attributes:
        content: the objects, pickled; whoever opens it imports the modules of their classes, and no other plugin.
        files: module name, path and version of each single-file plugin that they may come from.
        data: where files lie that their parameters name by content.
    """

    content: bytes
    files: tuple[tuple[str, str, str], ...] = ()
    data: tuple[tuple[str, str], ...] = ()

    def open(self) -> Any:
        """The objects.

        Raises:
            Exception: whatever the import of their modules raises.
        """
        datafile.remember(self.data)
        known = {finder.files for finder in sys.meta_path if isinstance(finder, _PluginFiles)}
        if self.files and self.files not in known:
            sys.meta_path.append(_PluginFiles(self.files))
        return pickle.loads(self.content)


class _PluginFiles(MetaPathFinder):
    """Imports single-file plugins under the names that the registry gave them."""

    def __init__(self, files: tuple[tuple[str, str, str], ...]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        for module, file, version in self.files:
            if module == name:
                if file_version(Path(file).read_bytes()) != version:
                    raise ImportError(f"{file} has changed since the run began; start the run again")
                return spec_of_file(name, Path(file))
        return None


class _FromSource(SourceFileLoader):
    """Compiles a file each time: cached bytecode of a file that was edited within a second may be the old one."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def spec_of_file(name: str, file: Path) -> ModuleSpec:
    """How a single-file plugin is imported under a name.

    Raises:
        ImportError: if the file is not a Python file.
    """
    if file.suffix != ".py":
        raise ImportError(f"{file.name} is not a Python file")
    spec = importlib.util.spec_from_file_location(name, file, loader=_FromSource(name, str(file)))
    assert spec is not None
    return spec


def file_version(content: bytes) -> str:
    """The version of a single-file plugin."""
    return hashlib.sha256(content).hexdigest()[:12]


def packed(objects: Any, classes: tuple[type[Plugin], ...]) -> bytes:
    """Objects for another process, with the code of those classes of the running program that it cannot import there.

    Raises:
        Exception: whatever pickle raises, if one of them holds on to something that no other process can have.
    """
    for cls in classes:
        if cls.__module__ in sys.modules and cls.__module__ != "__main__" and travels_by_value(cls):
            cloudpickle.register_pickle_by_value(sys.modules[cls.__module__])
    stream = io.BytesIO()
    _Packer(stream).dump(objects)
    return stream.getvalue()


class _Packer(cloudpickle.CloudPickler):  # type: ignore[misc]
    """It sends functions under functools.cache with their code, too, which cloudpickle would look for by name."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, functools._lru_cache_wrapper) and _is_from_this_program(obj):
            return _caching, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)


def _caching(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Callable[..., Any]:
    cached: Callable[..., Any] = functools.lru_cache(**parameters)(function)
    return cached


def _is_from_this_program(function: Any) -> bool:
    by_value = cloudpickle.list_registry_pickle_by_value()
    return function.__module__ == "__main__" or function.__module__ in by_value or "<locals>" in function.__qualname__


def travels_by_value(cls: type[Plugin]) -> bool:
    """Whether a class handed over by the running program is sent with its code: no other process can import it."""
    module = sys.modules.get(cls.__module__)
    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    if cls.__module__.partition(".")[0] in {point.module.partition(".")[0] for point in points}:
        return False
    file = Path(getattr(module, "__file__", None) or "")
    return not any(file.is_relative_to(folder) for folder in sysconfig.get_paths().values())


def is_editable(distribution: importlib.metadata.Distribution) -> bool:
    """Whether a distribution's source may change under the same version: it is a checkout."""
    origin = distribution.read_text("direct_url.json")
    if origin:
        return bool(json.loads(origin).get("dir_info", {}).get("editable"))
    folder = Path(str(distribution.locate_file(""))).name
    return distribution.read_text("METADATA") is None and folder not in ("site-packages", "dist-packages")
