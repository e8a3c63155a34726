"""Where modules are, whose they are and what they import, without importing any."""

from __future__ import annotations

import contextlib
import dis
import importlib.util
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec, PathFinder
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from types import CodeType
from typing import Any

from fieldbench.sources import is_editable

#: Modules that are in no identity. The harness and what it declares parameters by have a say in no number, and new
#: versions of the others change last digits at most: with them, no result would outlive an upgrade or count on another
#: machine. A run's manifest has their versions.
UNCOUNTED = frozenset(
    {"fieldbench", "pydantic", "pydantic_core", "annotated_types", "numba", "numpy", "scipy", "torch"}
)

_IMPORT = dis.opmap["IMPORT_NAME"]


class Unidentified(Exception):
    """What a plugin is made of cannot be told; the text says why."""


class Modules:
    """The modules that this process can import, as they are when first asked for.

    Attributes:
        namespaces: the globals of loaded modules, where they are not those in ``sys.modules``.
    """

    def __init__(self, by_value: set[str]) -> None:
        """
        Args:
            by_value: those whose classes travel to other processes with their code.
        """
        self.namespaces: dict[str, dict[str, Any]] = {}
        self._by_value = by_value
        self._specs: dict[str, ModuleSpec | None] = {}
        self._owners: dict[str, str | None] = {}

    def owner(self, name: str) -> str | None:
        """Name and version of the installed distribution that has a module; "" for one's own, None if uncounted."""
        top = name.partition(".")[0]
        spec = self._spec(top)
        if spec is not None and spec.origin is None:  # distributions may share the name of a namespace
            top, spec = name, self._spec(name)
        if top not in self._owners:
            self._owners[top] = None if top in UNCOUNTED or _is_standard(top, spec) else self._distribution(top, spec)
        return self._owners[top]

    def is_own(self, name: str) -> bool:
        """Whether a module is neither installed nor uncounted."""
        return self.owner(name) == ""

    def is_live(self, name: str) -> bool:
        """Whether a module's code counts as it is in memory: it travels from there, or has no file."""
        return name in self._by_value or self._spec(name) is None

    def at(self, module: str, name: str) -> Any:
        """The object that has this name (dotted where it lies in a class) in a loaded module, or None."""
        first, *rest = name.split(".")
        found = self.namespaces.get(module, getattr(sys.modules.get(module), "__dict__", {})).get(first)
        for inner in rest:
            with contextlib.suppress(Exception):
                found = getattr(found, inner, None)
        return found

    def package(self, name: str) -> Iterator[str]:
        """A module and all others of its top-level package, among which it may look for plugins of its own."""
        top = name.partition(".")[0]
        spec = self._spec(top)
        if spec is None or name in self._by_value or self.owner(name) is None:
            return
        yield name
        for folder in spec.submodule_search_locations or ():
            for path in Path(folder).rglob("*.py"):
                parts = path.relative_to(folder).with_suffix("").parts
                yield ".".join((top, *(parts[:-1] if parts[-1] == "__init__" else parts)))

    def source(self, name: str) -> tuple[bytes, set[str]]:
        """The text of a module, and what it imports; nothing if it has no file.

        Raises:
            Unidentified: if the file is not there.
        """
        spec = self._spec(name)
        if spec is None or spec.loader is None or spec.origin is None or not spec.has_location:
            return b"", set()
        try:
            text: bytes = spec.loader.get_data(spec.origin)  # type: ignore[attr-defined]
        except (OSError, AttributeError):
            raise Unidentified(f"the file {spec.origin} of module {name!r} is not there") from None
        found: set[str] = set()
        with warnings.catch_warnings(), contextlib.suppress(SyntaxError, ValueError):  # whoever imports it learns that
            warnings.simplefilter("ignore")
            if spec.origin.endswith(tuple(SOURCE_SUFFIXES)):
                found.update(imported(compile(text, name, "exec", dont_inherit=True), spec.parent or ""))
        for other in found if not spec.parent else ():  # some look beside their own file only when they import
            if "." not in other and self._spec(other) is None:
                self._specs[other] = PathFinder.find_spec(other, [str(Path(spec.origin).parent)])
        return text, found

    def _spec(self, name: str) -> ModuleSpec | None:
        """Where a module is; None if it is not there, or has no file."""
        if name not in self._specs:
            self._specs[name] = self._found(name)
        return self._specs[name]

    def _found(self, name: str) -> ModuleSpec | None:
        if name in sys.modules:
            loaded: ModuleSpec | None = getattr(sys.modules[name], "__spec__", None)
            return loaded
        path, parent = None, name.rpartition(".")[0]
        if parent:
            above = self._spec(parent)
            path = above.submodule_search_locations if above is not None else None
            if path is None:
                return None
        for finder in sys.meta_path:
            with contextlib.suppress(Exception):  # as if it had found nothing: that is for the import to say
                spec = finder.find_spec(name, path)
                if spec is not None:
                    return spec
        return None

    def _distribution(self, name: str, spec: ModuleSpec | None) -> str:
        if spec is None:
            return ""
        file = Path(spec.origin or next(iter(spec.submodule_search_locations or ()), ""))
        for found in self._candidates(name):
            if not is_editable(found) and file.is_relative_to(str(found.locate_file(""))):
                return f"{found.name} {found.version}"
        return ""

    def _candidates(self, name: str) -> Iterator[Distribution]:
        """The distribution of a module's name, and, as it takes long, only then those that say they have it."""
        with contextlib.suppress(PackageNotFoundError, ValueError):
            yield distribution(name)
        for other in sorted(set(self._all_distributions.get(name.partition(".")[0], ()))):
            yield distribution(other)

    @cached_property
    def _all_distributions(self) -> Mapping[str, list[str]]:
        return packages_distributions()


def imported(code: CodeType, package: str) -> Iterator[str]:
    """The modules that code may import, in functions too; and all names taken from them; some may be modules.

    Args:
        code: of a module or function.
        package: to which its relative imports refer.
    """
    values: list[Any] = []
    for step in dis.get_instructions(code) if _IMPORT in code.co_code[::2] else ():  # reading every step takes long
        if step.opname.startswith("LOAD_"):
            values = [*values[-1:], step.argval]
        elif step.opname == "IMPORT_NAME":
            level, names = values
            with contextlib.suppress(ImportError):  # beyond the top of a package: so it is when that runs
                base = importlib.util.resolve_name("." * level + step.argval, package)
                parts = base.split(".")
                yield from (".".join(parts[: end + 1]) for end in range(len(parts)))
                yield from (f"{base}.{name}" for name in names or ())
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from imported(inner, package)


def _is_standard(top: str, spec: ModuleSpec | None) -> bool:
    if top not in sys.stdlib_module_names or spec is None:
        return False
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return not spec.has_location or any(Path(spec.origin or "").is_relative_to(folder) for folder in folders)
