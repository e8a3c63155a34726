"""A hash of the code that defines a class, so that an edit is never mistaken for results already computed."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from fieldbench.plugin import Plugin


def source_hash(cls: type[Plugin]) -> str:
    """Twelve hex digits that change whenever the code behind ``cls`` may have changed.

    For a class of a package these are all Python files of the whole top-level package, so that no helper is
    missed; for a class of a single file, the file; for a class typed at a prompt or in a notebook, its
    compiled code and all that it uses from the same place. Its own name is part of it: two classes of one
    file may be registered under the same name, one after the other.
    """
    digest = hashlib.sha256()
    for piece in _pieces(cls):
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()[:12]


def _pieces(cls: type[Plugin]) -> Iterator[bytes]:
    yield cls.__qualname__.encode()
    module = sys.modules.get(cls.__module__)
    top = sys.modules.get(cls.__module__.partition(".")[0])
    file = getattr(module, "__file__", None)
    if top is not None and getattr(top, "__path__", None):
        for folder in sorted(top.__path__):
            for path in sorted(Path(folder).rglob("*.py")):
                yield path.relative_to(folder).as_posix().encode()
                yield path.read_bytes()
    elif file is not None:
        yield Path(file).read_bytes()
    else:
        yield from _compiled(cls, cls.__module__, set())


def _compiled(value: Any, home: str, seen: set[int]) -> Iterator[bytes]:
    """What determines how ``value`` behaves, in an order that is the same in every process."""
    if isinstance(value, type | FunctionType | CodeType):
        if id(value) in seen:
            return
        seen.add(id(value))
    if isinstance(value, staticmethod | classmethod):
        yield from _compiled(value.__func__, home, seen)
    elif isinstance(value, property):
        yield from _compiled((value.fget, value.fset), home, seen)
    elif isinstance(value, type):
        yield value.__qualname__.encode()
        if value.__module__ == home:
            yield from _class(value, home, seen)
    elif isinstance(value, FunctionType):
        yield value.__qualname__.encode()
        if value.__module__ == home:
            yield from _function(value, home, seen)
    elif isinstance(value, CodeType):
        yield value.co_code
        yield repr((value.co_names, value.co_varnames, value.co_freevars)).encode()
        yield from _compiled(value.co_consts, home, seen)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _compiled(item, home, seen)
    elif isinstance(value, set | frozenset):
        yield repr(sorted(map(repr, value))).encode()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield repr(key).encode()
            yield from _compiled(item, home, seen)
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
    elif isinstance(value, np.ndarray):
        yield str(value.dtype).encode() + value.tobytes()
    elif isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        yield repr(value).encode()
    else:  # its text may hold an address, which differs from process to process
        yield type(value).__qualname__.encode()


def _class(cls: type, home: str, seen: set[int]) -> Iterator[bytes]:
    for base in cls.__bases__:
        yield from _compiled(base, home, seen)
    for key, info in getattr(cls, "__pydantic_fields__", {}).items():
        yield repr((key, info.annotation, info.default, info.metadata)).encode()
    for key, value in sorted(vars(cls).items()):
        if not key.startswith(("__", "_abc", "model_")) or key in ("__init__", "__call__"):
            yield key.encode()
            yield from _compiled(value, home, seen)


def _function(function: FunctionType, home: str, seen: set[int]) -> Iterator[bytes]:
    yield from _compiled(function.__code__, home, seen)
    yield from _compiled((function.__defaults__, function.__kwdefaults__), home, seen)
    for cell in function.__closure__ or ():
        yield from _compiled(cell.cell_contents, home, seen)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield from _compiled(function.__globals__[name], home, seen)


def _names(code: CodeType) -> set[str]:
    """The global names that a function, or one inside it, may use."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
