"""A hash of the code that defines a class, so that an edit is never mistaken for results already computed."""

from __future__ import annotations

import copyreg
import dis
import hashlib
import pickle
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fieldbench.errors import RequestError, one_line
from fieldbench.plugin import Plugin

#: Types whose text says all.
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))

#: The last pickle protocol in which all content is written in place.
_PROTOCOL = 4

#: Where decorators and compilers keep the function that they were given, and what a compiler was told about it.
_WRAPPED = ("__wrapped__", "py_func", "targetoptions")


def source_hash(cls: type[Plugin]) -> str:
    """Twelve hex digits that change whenever the code behind ``cls`` may have changed.

    For a class of a package these are all Python files of the whole top-level package, so that no helper is
    missed; for a class of a single file, the file; for a class typed at a prompt or in a notebook, its
    compiled code and all that it uses from the same place. Its own name is part of it: two classes of one
    file may be registered under the same name, one after the other.

    Raises:
        RequestError: if such a class uses something whose content cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for piece in _pieces(cls):
            digest.update(len(piece).to_bytes(8, "big") + piece)
    except RecursionError:
        raise RequestError(f"{cls.__name__} uses something nested too deeply to be read; set revision in it") from None
    return digest.hexdigest()[:12]


def _pieces(cls: type[Plugin]) -> Iterator[bytes]:
    yield cls.__qualname__.encode()
    module = sys.modules.get(cls.__module__)
    top = sys.modules.get(cls.__module__.partition(".")[0])
    file = Path(getattr(module, "__file__", None) or "")
    if top is not None and getattr(top, "__path__", None):
        for folder in sorted(top.__path__):
            for path in sorted(Path(folder).rglob("*.py")):
                yield path.relative_to(folder).as_posix().encode()
                yield path.read_bytes()
    elif file.is_file():  # the file of a program that is read from a pipe is called <stdin>
        yield file.read_bytes()
    else:
        yield from _Content(cls).of(cls)


class _Content:
    """What determines how a class behaves, and all that it uses from the module it was typed into."""

    def __init__(self, cls: type[Plugin], seen: dict[int, tuple[int, Any]] | None = None) -> None:
        self._cls, self._home = cls, cls.__module__
        #: By id, with its number in the order of reading. The object is kept, so that no other takes its id.
        self._seen = dict(seen or {})

    def of(self, value: Any) -> Iterator[bytes]:
        """Pieces in an order that is the same in every process; no address and no file name is among them."""
        if type(value) in _PLAIN:
            yield f"{type(value).__name__} {value!r}".encode()
        elif isinstance(value, tuple):  # equal ones may be one object or several
            yield f"tuple {len(value)}".encode()
            for item in value:
                yield from self.of(item)
        elif isinstance(value, np.generic):
            yield from self._array(np.asarray(value))
        elif id(value) in self._seen:
            yield f"number {self._seen[id(value)][0]}".encode()
        else:
            self._seen[id(value)] = len(self._seen), value
            yield from self._new(value)

    def _new(self, value: Any) -> Iterator[bytes]:
        yield type(value).__qualname__.encode()
        if isinstance(value, ModuleType):
            yield value.__name__.encode()
        elif isinstance(value, type):
            yield from self._named(value)
            if self._is_from_here(value):
                yield from self._class(value)
        elif isinstance(value, FunctionType):
            yield from self._named(value)
            if self._is_from_here(value):
                yield from self._function(value)
        elif isinstance(value, CodeType):
            yield value.co_code + value.co_exceptiontable
            yield from self.of((value.co_names, value.co_varnames, value.co_freevars, value.co_consts))
        elif isinstance(value, staticmethod | classmethod | MethodType):
            yield from self.of((value.__func__, getattr(value, "__self__", None)))
        elif isinstance(value, property):
            yield from self.of((value.fget, value.fset))
        elif isinstance(value, cached_property):
            yield from self.of(value.func)
        elif isinstance(value, np.ndarray):
            yield from self._array(value)
        elif isinstance(value, list):
            yield from self.of(tuple(value))
        elif isinstance(value, set | frozenset):
            # Their order differs from process to process, so each is read as if it were the first.
            yield from sorted(b"".join(_Content(self._cls, self._seen).of(item)) for item in value)
        elif isinstance(value, dict):
            yield from self.of(tuple(value.items()))
        elif isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
            yield f"{value.__module__}.{value.__qualname__}".encode()
        else:
            yield from self._object(value)

    def _named(self, value: Any) -> Iterator[bytes]:
        # The module it was typed into has another name in another program.
        yield f"{'' if value.__module__ == self._home else value.__module__} {value.__qualname__}".encode()

    def _is_from_here(self, value: Any) -> bool:
        """Whether its code may be edited here, or rests on such code: all but what other modules can be asked for."""
        found: Any = None if value.__module__ == self._home else sys.modules.get(value.__module__)
        for name in value.__qualname__.split("."):
            found = getattr(found, name, None)
        return found is not value

    def _class(self, cls: type) -> Iterator[bytes]:
        yield from self.of(cls.__bases__)
        for key, info in getattr(cls, "__pydantic_fields__", {}).items():
            yield repr((key, info.annotation)).encode()
            yield from self.of((info.default, info.default_factory, info.metadata))
        yield from self.of(getattr(cls, "__private_attributes__", {}))
        for key, value in sorted(vars(cls).items()):
            special = key.startswith(("__", "_abc", "model_"))
            if not special or isinstance(value, FunctionType | staticmethod | classmethod | property):
                yield key.encode()
                yield from self.of(value)

    def _function(self, function: FunctionType) -> Iterator[bytes]:
        yield from self.of((function.__code__, function.__defaults__, function.__kwdefaults__, vars(function)))
        for cell in function.__closure__ or ():
            yield from self.of(_in_the(cell))
        if function.__globals__.get("__name__") == self._home:
            for name in sorted(_global_names(function.__code__)):
                if name in function.__globals__:
                    yield name.encode()
                    yield from self.of(function.__globals__[name])

    def _array(self, array: np.ndarray[Any, Any]) -> Iterator[bytes]:
        yield f"{array.dtype} {array.shape}".encode()
        if array.dtype.hasobject:
            yield from self.of(array.tolist())
        else:
            yield array.tobytes()

    def _object(self, value: Any) -> Iterator[bytes]:
        """Any other: the function that it was made of, or what would be written to make such an object again."""
        kept = getattr(value, "__dict__", {})
        if type(value).__module__ != self._home and any(key in kept for key in _WRAPPED):
            yield from self.of(tuple(kept.get(key) for key in _WRAPPED))
            return
        torch = sys.modules.get("torch")
        try:
            if torch is not None and isinstance(value, torch.Tensor):  # it would be written with an address
                yield from self._array(value.detach().cpu().numpy())
                return
            reduced = copyreg.dispatch_table.get(type(value))
            made = value.__reduce_ex__(_PROTOCOL) if reduced is None else reduced(value)
            if isinstance(made, str):  # it is found by its name, or not at all
                made = pickle.dumps(value)
        except Exception as error:
            raise RequestError(
                f"{self._cls.__name__} uses a {type(value).__name__} whose content cannot be told from another's "
                f"({one_line(error)}); make it where it is used, or set revision in the class"
            ) from None
        if isinstance(made, bytes):
            yield made
        else:
            yield from self.of(tuple(part if index < 3 else tuple(part or ()) for index, part in enumerate(made[:5])))


def _in_the(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _global_names(code: CodeType) -> set[str]:
    """The global names that a function, or one inside it, may use."""
    names = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname.startswith("LOAD_") and step.opname.endswith(("GLOBAL", "GLOBALS", "NAME"))
    }
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return names.union(*map(_global_names, inner))
