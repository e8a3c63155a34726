"""What a class is made of: the modules that it reaches, installed distributions, and the values that it reads.

Code in files counts by its text: the whole package of a plugin, and module by module what is imported from there,
within functions too. Installed distributions count by name and version, the standard library not at all. Code that
travels to other processes by value (of a notebook or script) counts as it is in memory. Constants always do: the text
``GAIN = float(sys.argv[1])`` does not say what the gain was.
"""

from __future__ import annotations

import contextlib
import copyreg
import dis
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fieldbench.sources import FILE_MODULE, is_editable

#: Modules that are in no identity. The harness has a say in no number, and new versions of the others change last
#: digits at most: with them, no result would outlive an upgrade or count on another machine. A run's manifest has them.
UNCOUNTED = frozenset({"fieldbench", "numba", "numpy", "scipy", "torch"})

#: A module and a global name of it; an empty name stands for the module's text.
Node = tuple[str, str]

#: Types whose text says all.
_PLAIN = (bool, int, float, complex, bytes, type(None), type(...))

#: Where decorators and compilers keep the function that they were given, and what a compiler was told about it.
_WRAPPED = ("__wrapped__", "py_func", "targetoptions")

_IMPORT = dis.opmap["IMPORT_NAME"]

#: The last pickle protocol in which all content is written in place.
_PROTOCOL = 4


class Unidentified(Exception):
    """What a plugin is made of cannot be told; the text says why."""


@dataclass(frozen=True)
class Piece:
    """One thing that code is made of, or all that a class is.

    Attributes:
        digest: of its content.
        reaches: what it uses.
        distributions: name and version of those among it.
        opaque: what has no content that could be told from another's, in words.
    """

    digest: str = ""
    reaches: frozenset[Node] = frozenset()
    distributions: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()


class Code:
    """The code of this process. Each piece is read once, before anything runs that could change it."""

    def __init__(self, by_value: Iterable[str] = ()) -> None:
        """
        Args:
            by_value: names of modules whose classes travel to other processes by value.
        """
        self._by_value = {"__main__", *by_value}
        self._pieces: dict[Node, Piece] = {}
        self._specs: dict[str, ModuleSpec | None] = {}
        self._owners: dict[str, str | None] = {}

    def of(self, cls: type) -> Piece:
        """All that a class is made of.

        Raises:
            Unidentified: if a module's text is not there.
        """
        own = list(self._package(cls.__module__))
        reaches = {(name, "") for name in own}
        reaches.update((name, "") for module in own for name in self._source(module)[1])
        try:
            root = self._live(cls.__module__, cls.__qualname__, cls) if self.owner(cls.__module__) == "" else Piece()
        except RecursionError:
            raise Unidentified("it uses something nested too deeply to be read") from None
        found: dict[Node, Piece] = {}
        ahead = [*reaches, *root.reaches]
        while ahead:
            node = ahead.pop()
            if node not in found:
                found[node] = self._piece(node)
                ahead += found[node].reaches
        digests = {f"{_shown(module)} {name} {piece.digest}" for (module, name), piece in found.items() if piece.digest}
        return Piece(
            _digest(text.encode() for text in [cls.__qualname__, root.digest, *sorted(digests)]),
            frozenset(found),
            frozenset().union(*(piece.distributions for piece in found.values())),
            root.opaque.union(*(piece.opaque for piece in found.values())),
        )

    def digest(self, value: Any) -> str:
        """Of the content of any value."""
        return self._live("", "", value).digest

    def is_live(self, module: str) -> bool:
        """Whether a module's code counts as it is in memory: it travels by value, or has no file."""
        return module in self._by_value or self._spec(module) is None

    def owner(self, module: str) -> str | None:
        """Name and version of the installed distribution that has a module; "" for one's own, None if uncounted."""
        top = module.partition(".")[0]
        spec = self._spec(top)
        if spec is not None and spec.origin is None:  # distributions may share the name of a namespace
            top, spec = module, self._spec(module)
        if top not in self._owners:
            self._owners[top] = _found_in(spec, top, self._distributions(top))
        return self._owners[top]

    def imports(self, code: CodeType, package: str) -> Iterator[str]:
        """The modules that code may import; of what it imports from one, all names, since some may be modules."""
        level, names = 0, None
        for step in dis.get_instructions(code) if _IMPORT in code.co_code[::2] else ():  # reading all takes long
            if step.opname.startswith("LOAD_"):
                level, names = names, step.argval
            elif step.opname == "IMPORT_NAME":
                with contextlib.suppress(ImportError):  # beyond the top of a package: so it is when that runs
                    base = importlib.util.resolve_name("." * level + step.argval, package)
                    parts = base.split(".")
                    yield from (".".join(parts[: end + 1]) for end in range(len(parts)))
                    yield from (f"{base}.{name}" for name in names or ())
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                yield from self.imports(inner, package)

    def folders(self, module: str) -> dict[str, str]:
        """Folders that another user or machine has elsewhere, and what stands for them in texts."""
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        above = Path(os.path.abspath(file)).parents[module.count(".") + file.endswith("__init__.py") :] if file else ()
        named = {str(above[0]): ".", os.path.realpath(above[0]): "."} if above else {}
        return {folder: sign for folder, sign in {**named, str(Path.home()): "~"}.items() if folder != os.sep}

    def _piece(self, node: Node) -> Piece:
        if node not in self._pieces:
            self._pieces[node] = self._live(*node, _at(node)) if node[1] else self._module(node[0])
        return self._pieces[node]

    def _module(self, name: str) -> Piece:
        owner = self.owner(name)
        if owner:
            return Piece(_digest([owner.encode()]), distributions=frozenset({owner}))
        if owner is None or self.is_live(name):
            return Piece()
        text, imports = self._source(name)
        return Piece(_digest([text]), frozenset((imported, "") for imported in imports))

    def _live(self, module: str, name: str, value: Any) -> Piece:
        reading = _Reading(self, module, name)
        own = _name(value) == (module, name)
        digest = _digest(reading.definition(value) if own else reading.content(value))
        return Piece(digest, frozenset(reading.reaches), opaque=frozenset(reading.opaque))

    def _package(self, module: str) -> Iterator[str]:
        """The module, and all others of its top-level package, in which it may look for plugins of its own."""
        top = module.partition(".")[0]
        spec = self._spec(top)
        if spec is None or module in self._by_value or self.owner(module) is None:
            return
        yield module
        for folder in spec.submodule_search_locations or ():
            for path in Path(folder).rglob("*.py"):
                parts = path.relative_to(folder).with_suffix("").parts
                yield ".".join((top, *(parts[:-1] if parts[-1] == "__init__" else parts)))

    def _source(self, name: str) -> tuple[bytes, set[str]]:
        """The text of a module, and what it imports."""
        spec = self._spec(name)
        if spec is None or not spec.has_location or spec.origin is None:
            return b"", set()
        try:
            text: bytes = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]
        except (OSError, AttributeError):
            raise Unidentified(f"the file of module {name!r}, {spec.origin}, is not there") from None
        if not spec.origin.endswith(tuple(SOURCE_SUFFIXES)):
            return text, set()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = set(self.imports(compile(text, name, "exec", dont_inherit=True), spec.parent or ""))
        except (SyntaxError, ValueError):  # whoever imports it learns that
            return text, set()
        if not spec.parent:  # some programs look beside their own file only when they import
            for other in found:
                if "." not in other and self._spec(other) is None:
                    self._specs[other] = PathFinder.find_spec(other, [str(Path(spec.origin).parent)])
        return text, found

    def _spec(self, name: str) -> ModuleSpec | None:
        """Where a module is, without importing anything; None if it is not there, or has no file."""
        if name not in self._specs:
            self._specs[name] = self._found(name)
        return self._specs[name]

    def _found(self, name: str) -> ModuleSpec | None:
        if name in sys.modules:
            spec: ModuleSpec | None = getattr(sys.modules[name], "__spec__", None)
            return spec
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

    def _distributions(self, top: str) -> Iterator[importlib.metadata.Distribution]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
            yield importlib.metadata.distribution(top)
        for name in sorted(set(self._distributions_by_module.get(top.partition(".")[0], ()))):
            yield importlib.metadata.distribution(name)

    @cached_property
    def _distributions_by_module(self) -> dict[str, list[str]]:
        return dict(importlib.metadata.packages_distributions())


class _Reading:
    """The content of one value in memory, in an order that is the same in every process, and what it leads to."""

    def __init__(self, code: Code, module: str, name: str) -> None:
        self.reaches: set[Node] = set()
        self.opaque: set[str] = set()
        self._code, self._called = code, name
        self._folders = code.folders(module)
        #: By id, with its number in the order of reading. The object is kept, so that no other takes its id.
        self._seen: dict[int, tuple[int, Any]] = {}

    def content(self, value: Any) -> Iterator[bytes]:
        """Pieces; no address and no file name is among them."""
        if type(value) in _PLAIN:
            yield f"{type(value).__name__} {value!r}".encode()
        elif isinstance(value, PurePath) or type(value) is str:
            yield f"text {self._text(str(value))}".encode("utf-8", "surrogatepass")
        elif type(value) is tuple:  # equal ones may be one object or several
            yield f"tuple {len(value)}".encode()
            for item in value:
                yield from self.content(item)
        elif isinstance(value, np.generic):
            yield from self._array(np.asarray(value))
        elif id(value) in self._seen:
            yield f"number {self._seen[id(value)][0]}".encode()
        else:
            self._seen[id(value)] = len(self._seen), value
            yield type(value).__qualname__.encode()
            yield from self._new(value)

    def _new(self, value: Any) -> Iterator[bytes]:
        named = _name(value)
        if type(value) is list:
            yield from self.content(tuple(value))
        elif type(value) is dict:
            yield from self.content(tuple(value.items()))
        elif type(value) in (set, frozenset):
            yield from self._set(value)
        elif isinstance(value, np.ndarray):
            yield from self._array(value)
        elif isinstance(value, ModuleType):
            self.reaches.add((value.__name__, ""))
            yield _shown(value.__name__).encode()
        elif isinstance(value, CodeType):
            yield value.co_code + value.co_exceptiontable
            yield from self.content((value.co_names, value.co_varnames, value.co_freevars, value.co_consts))
        elif isinstance(value, staticmethod | classmethod | MethodType):
            yield from self.content((value.__func__, getattr(value, "__self__", None)))
        elif isinstance(value, property):
            yield from self.content((value.fget, value.fset))
        elif isinstance(value, cached_property):
            yield from self.content(value.func)
        elif named is not None:
            module, name = named
            self.reaches.add((module, ""))
            yield f"{_shown(module)} {name}".encode()
            if _at(named) is not value:
                yield from self.definition(value)
            elif self._code.owner(module) == "":
                self.reaches.add(named)
        else:
            yield from self._object(value)

    def definition(self, value: Any) -> Iterator[bytes]:
        """The content of something that has a name: what stands behind it."""
        if isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        else:
            yield from self._object(value)

    def _class(self, cls: type) -> Iterator[bytes]:
        yield from self.content(cls.__bases__)
        for key, info in getattr(cls, "__pydantic_fields__", {}).items():
            yield key.encode()
            yield from self.content((info.annotation, info.default, info.default_factory, info.metadata))
        yield from self.content(getattr(cls, "__private_attributes__", {}))
        for key, value in sorted(vars(cls).items()):
            special = key.startswith(("__", "_abc", "model_"))
            if not special or isinstance(value, FunctionType | staticmethod | classmethod | property):
                yield key.encode()
                yield from self.content(value)

    def _function(self, function: FunctionType) -> Iterator[bytes]:
        code, around = function.__code__, function.__globals__
        home = str(around.get("__name__"))
        yield from self.content((function.__defaults__, function.__kwdefaults__, vars(function)))
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                yield from self.content(cell.cell_contents)
        if self._code.owner(home) != "":
            return
        if self._code.is_live(home):
            yield from self.content(code)
            package = str(around.get("__package__") or "")
            self.reaches.update((name, "") for name in self._code.imports(code, package))
        mentioned = set(_mentioned(code))
        for name in sorted(_globals_read(code) & around.keys()):
            if vars(sys.modules.get(home, ModuleType(""))) is around:
                self.reaches.add((home, name))
            else:  # the module was loaded again
                yield name.encode()
                yield from self.content(around[name])
            module = around[name]
            if isinstance(module, ModuleType) and self._code.owner(module.__name__) == "":
                self.reaches.update((module.__name__, attribute) for attribute in mentioned & vars(module).keys())

    def _set(self, values: Iterable[Any]) -> Iterator[bytes]:
        """Their order differs from process to process, so each is read as if it were the first."""
        seen, pieces = self._seen, []
        for value in values:
            self._seen = dict(seen)
            pieces.append(b"".join(self.content(value)))
        self._seen = seen
        yield from sorted(pieces)

    def _array(self, array: np.ndarray[Any, Any]) -> Iterator[bytes]:
        yield f"{array.dtype} {array.shape}".encode()
        if array.dtype.hasobject:
            yield from self.content(array.tolist())
        else:
            yield array.tobytes()

    def _object(self, value: Any) -> Iterator[bytes]:
        """Any other: the function that it was made of, or what would be written to make such an object again."""
        kept = getattr(value, "__dict__", {})
        if any(key in kept for key in _WRAPPED):
            yield from self.content(tuple(kept.get(key) for key in _WRAPPED))
            return
        try:
            if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):  # it would have an address
                yield from self._array(value.detach().cpu().numpy())
                return
            reduced = copyreg.dispatch_table.get(type(value))
            made = value.__reduce_ex__(_PROTOCOL) if reduced is None else reduced(value)
        except Exception:
            self.opaque.add(f"{self._called} ({type(value).__name__})")
            return
        if isinstance(made, str):  # a global name
            yield made.encode()
        else:
            yield from self.content(tuple(part if index < 3 else tuple(part or ()) for index, part in enumerate(made[:5])))

    def _text(self, text: str) -> str:
        for folder, sign in self._folders.items():
            text = text.replace(folder, sign)
        return text


def _found_in(
    spec: ModuleSpec | None, top: str, candidates: Iterable[importlib.metadata.Distribution]
) -> str | None:
    """What :meth:`Code.owner` says of a module that lies there."""
    if top in UNCOUNTED:
        return None
    if spec is None:
        return ""
    file = Path(spec.origin or next(iter(spec.submodule_search_locations or ()), ""))
    standard = any(file.is_relative_to(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
    if top in sys.stdlib_module_names and (standard or not spec.has_location):
        return None
    for found in candidates:
        if not is_editable(found) and file.is_relative_to(os.fspath(found.locate_file(""))):  # type: ignore[call-overload]
            return f"{found.name} {found.version}"
    return ""


def _name(value: Any) -> Node | None:
    """Module and name of a class, a function or what a compiler has made of one."""
    with contextlib.suppress(Exception):
        module, name = value.__module__, value.__qualname__
        if isinstance(module, str) and isinstance(name, str):
            return module, name
    return None


def _at(node: Node) -> Any:
    """The object of that name, or None."""
    found: Any = sys.modules.get(node[0])
    for name in node[1].split("."):
        with contextlib.suppress(Exception):
            found = vars(found).get(name) if isinstance(found, ModuleType) else getattr(found, name, None)
    return found


def _shown(module: str) -> str:
    """The name of a module, unless it has another one in another program or folder."""
    return "" if module == "__main__" or module.startswith(FILE_MODULE) else module


def _mentioned(code: CodeType) -> Iterator[str]:
    """Every name in code and in the functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _mentioned(inner)


def _globals_read(code: CodeType) -> set[str]:
    """The global names that a function, or one inside it, reads and does not set: it computes those itself."""
    read, written = set(), set()
    for step in dis.get_instructions(code):
        if step.opname.endswith(("GLOBAL", "GLOBALS", "NAME")):
            (read if step.opname.startswith("LOAD_") else written).add(step.argval)
    inner = [_globals_read(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return read.union(*inner) - written


def _digest(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()[:24]
