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
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fieldbench.errors import one_line
from fieldbench.modules import Modules, Unidentified, imported
from fieldbench.sources import FILE_MODULE

#: A module and a global name of it; an empty name stands for the module's text.
Node = tuple[str, str]

#: Types whose text says all.
_PLAIN = (bool, int, float, complex, bytes, type(None), type(...))

#: What holds functions, and where.
_AROUND: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    MethodType: ("__func__", "__self__"),
    property: ("fget", "fset"),
    cached_property: ("func",),
}

#: Where decorators and compilers keep the function that they were given, and what a compiler was told about it.
_WRAPPED = ("__wrapped__", "py_func", "targetoptions")


class Code:
    """The code of this process. Each piece is read once, before anything runs that could change it."""

    def __init__(self, by_value: Iterable[str] = ()) -> None:
        """
        Args:
            by_value: names of modules whose classes travel to other processes with their code.
        """
        self._modules = Modules({"__main__", *by_value})
        self._pieces: dict[Node, _Piece] = {}

    def of(self, cls: type) -> tuple[str, set[str], set[str]]:
        """All that a class is made of.

        Returns:
            a hash of it; name and version of each distribution in it; in words, what the hash leaves out, as it has
            no content to tell it from another.

        Raises:
            Unidentified: if the file of a module is not there.
        """
        for value in (value for base in cls.__mro__ for value in vars(base).values()):
            if isinstance(value, FunctionType):  # a file is loaded anew by each registry: this class is of that time
                self._modules.namespaces.setdefault(str(value.__globals__.get("__name__")), value.__globals__)
        package = set(self._modules.package(cls.__module__))
        reaches = package.union(*(self._modules.source(name)[1] for name in package))
        read = self._modules.is_own(cls.__module__)
        return self._reached((cls.__module__, cls.__qualname__), cls if read else None, reaches)

    def of_value(self, value: Any) -> str:
        """A hash of the content of any value, and of the code that it is made of.

        Raises:
            Unidentified: if it has no content to tell it from another, or the file of a module is not there.
        """
        digest, _, opaque = self._reached(("", type(value).__name__), value, ())
        if opaque:
            raise Unidentified(f"it holds {', '.join(sorted(opaque))}, which cannot be told from another")
        return digest

    def _reached(self, root: Node, value: Any, modules: Iterable[str]) -> tuple[str, set[str], set[str]]:
        """What :meth:`of` returns, for a value and modules, and all that they lead to."""
        found: dict[Node, _Piece] = {}
        ahead = [(name, "") for name in modules]
        try:
            found["", ""] = _Piece(self._modules, root, value)
            ahead += found["", ""].reaches
            while ahead:
                node = ahead.pop()
                if node not in found:
                    found[node] = self._piece(node)
                    ahead += found[node].reaches
        except RecursionError:
            raise Unidentified("it uses something nested too deeply to be read") from None
        except Unidentified:
            raise
        except Exception as error:  # what an object that it uses does when it is looked at
            raise Unidentified(f"it uses what cannot be looked at: {one_line(error)}") from error
        lines = {f"{_shown(module)} {name} {piece.digest}" for (module, name), piece in found.items() if piece.digest}
        distributions = {self._modules.owner(module) or "" for module, name in found if module and not name} - {""}
        opaque: set[str] = set().union(*(piece.opaque for piece in found.values()))
        return _digest(line.encode() for line in [root[1], *sorted(lines)]), distributions, opaque

    def _piece(self, node: Node) -> _Piece:
        if node not in self._pieces:
            self._pieces[node] = _Piece(self._modules, node, self._modules.at(*node))
        return self._pieces[node]


class _Piece:
    """One thing that code is made of.

    Attributes:
        digest: of its content, which is the same in every process, with no address and no folder in it.
        reaches: what it uses.
        opaque: what in it has no content, in words.
    """

    def __init__(self, modules: Modules, node: Node, value: Any) -> None:
        self.reaches: set[Node] = set()
        self.opaque: set[str] = set()
        self._modules, self._called = modules, node[1]
        self._folders = _folders(node[0])
        #: By id, with its number in the order of reading. The object is kept, so that no other takes its id.
        self._seen: dict[int, tuple[int, Any]] = {}
        if not node[1]:
            self.digest = _digest(self._module(node[0]))
        else:
            self.digest = _digest(self._definition(value) if _name(value) == node else self._content(value))

    def _module(self, name: str) -> Iterator[bytes]:
        owner = self._modules.owner(name)
        if owner:
            yield owner.encode()
        elif owner == "" and not self._modules.is_live(name):
            text, imports = self._modules.source(name)
            self.reaches.update((other, "") for other in imports)
            yield text

    def _content(self, value: Any) -> Iterator[bytes]:
        if type(value) in _PLAIN:
            yield f"{type(value).__name__} {value!r}".encode()
        elif type(value) is str or isinstance(value, PurePath):
            text = str(value)
            for folder, sign in self._folders.items():
                text = text.replace(folder, sign)
            yield f"text {text}".encode("utf-8", "surrogatepass")
        elif type(value) is tuple:  # equal ones may be one object or several
            yield f"tuple {len(value)}".encode()
            for item in value:
                yield from self._content(item)
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
        if type(value) in (set, frozenset):
            yield from self._set(value)
        elif isinstance(value, np.ndarray):
            yield from self._array(value)
        elif isinstance(value, ModuleType):
            self.reaches.add((value.__name__, ""))
            yield _shown(value.__name__).encode()
        elif isinstance(value, CodeType):
            yield value.co_code + value.co_exceptiontable
            yield from self._content((value.co_names, value.co_varnames, value.co_freevars, value.co_consts))
        elif type(value) in _AROUND:
            yield from self._content(tuple(getattr(value, name) for name in _AROUND[type(value)]))
        elif named is not None:
            self.reaches.add((named[0], ""))
            yield f"{_shown(named[0])} {named[1]}".encode()
            if self._modules.at(*named) is not value:
                yield from self._definition(value)
            elif self._modules.is_own(named[0]):
                self.reaches.add(named)
        else:
            yield from self._object(value)

    def _definition(self, value: Any) -> Iterator[bytes]:
        """The content of something that has a name: what stands behind it."""
        if isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        else:
            yield from self._object(value)

    def _class(self, cls: type) -> Iterator[bytes]:
        yield from self._content(cls.__bases__)
        for key, info in getattr(cls, "__pydantic_fields__", {}).items():
            yield from self._content((key, info.annotation, info.default, info.default_factory, info.metadata))
        yield from self._content(getattr(cls, "__private_attributes__", {}))
        for key, value in sorted(vars(cls).items()):
            special = key.startswith(("__", "_abc", "model_"))
            if not special or isinstance(value, FunctionType | staticmethod | classmethod | property):
                yield key.encode()
                yield from self._content(value)

    def _function(self, function: FunctionType) -> Iterator[bytes]:
        code, around = function.__code__, function.__globals__
        home = str(around.get("__name__"))
        yield from self._content((function.__defaults__, function.__kwdefaults__, vars(function)))
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                yield from self._content(cell.cell_contents)
        if not self._modules.is_own(home):
            return
        if self._modules.is_live(home):
            yield from self._content(code)
            self.reaches.update((name, "") for name in imported(code, str(around.get("__package__") or "")))
        read, mentioned = _names(code)
        for name in sorted(read & around.keys()):
            if self._modules.namespaces.setdefault(home, around) is around:
                self.reaches.add((home, name))
            else:  # it is of another time
                yield from self._content((name, around[name]))
            module = around[name]
            if isinstance(module, ModuleType) and self._modules.is_own(module.__name__):
                self.reaches.update((module.__name__, attribute) for attribute in mentioned & vars(module).keys())

    def _set(self, values: Iterable[Any]) -> Iterator[bytes]:
        """Their order differs from process to process, so each is read as if it were the first."""
        seen, pieces = self._seen, []
        for value in values:
            self._seen = dict(seen)
            pieces.append(b"".join(self._content(value)))
        self._seen = seen
        yield from sorted(pieces)

    def _array(self, array: np.ndarray[Any, Any]) -> Iterator[bytes]:
        yield f"{array.dtype} {array.shape}".encode()
        if array.dtype.hasobject:
            yield from self._content(array.tolist())
        else:
            yield array.tobytes()

    def _object(self, value: Any) -> Iterator[bytes]:
        """Any other: the function that it was made of, or what would be written to make such an object again."""
        kept = getattr(value, "__dict__", {})
        if any(key in kept for key in _WRAPPED):
            yield from self._content(tuple(kept.get(key) for key in _WRAPPED))
            return
        try:
            if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):  # it would have an address
                yield from self._array(value.detach().cpu().numpy())
                return
            reduce = copyreg.dispatch_table.get(type(value))
            made: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:
            self.opaque.add(f"{self._called} ({type(value).__name__})")
            return
        if isinstance(made, str):  # a global name
            yield made.encode()
        else:  # lists and dicts are iterated by what comes last
            yield from self._content((*made[:3], *(tuple(part or ()) for part in made[3:5])))


def _name(value: Any) -> Node | None:
    """Module and name of a class, a function or what a compiler has made of one."""
    with contextlib.suppress(Exception):
        module, name = value.__module__, value.__qualname__
        if isinstance(module, str) and isinstance(name, str):
            return module, name
    return None


def _shown(module: str) -> str:
    """The name of a module, unless it has another one in another program or folder."""
    return "" if module == "__main__" or module.startswith(FILE_MODULE) else module


def _folders(module: str) -> dict[str, str]:
    """Folders that another user or machine has elsewhere, and what stands for them in texts."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    depth = module.count(".") + file.endswith("__init__.py")
    above = [str(folder) for folder in Path(os.path.abspath(file)).parents[depth : depth + 1]] if file else []
    found = {
        **{path: "." for folder in above for path in (folder, os.path.realpath(folder))},
        os.path.expanduser("~"): "~",
    }
    return {folder: sign for folder, sign in found.items() if folder != os.sep}


def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """Globals that code, or a function inside it, reads and does not set itself; and those and all attributes."""
    read: set[str] = set()
    written: set[str] = set()
    mentioned = set(code.co_names)
    for step in dis.get_instructions(code):
        if step.opname.endswith(("GLOBAL", "GLOBALS", "NAME")):
            (read if step.opname.startswith("LOAD_") else written).add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            read, mentioned = (one | other for one, other in zip((read, mentioned), _names(inner), strict=True))
    return read - written, mentioned


def _digest(pieces: Iterable[bytes]) -> str:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big") + piece)
        size += 1
    return digest.hexdigest()[:24] if size else ""
