"""What a class is made of: source, installed distributions, and the constants that it reads.

Modules in files count by their source without comments and docstrings, and so do those that they import, within
functions too. Installed distributions count by name and version, the standard library not at all. Of a notebook or
script only those definitions count that the class leads to. Nothing is imported to find out.
"""

from __future__ import annotations

import ast
import contextlib
import copyreg
import functools
import hashlib
import importlib.util
import os
import symtable
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from fieldbench.errors import one_line
from fieldbench.sources import FILE_MODULE, is_editable

_PARSING = threading.Lock()

#: A module and a global name of it; an empty name stands for the module as a whole.
Node = tuple[str, str]

#: Modules that are in no identity. The harness and what it declares parameters by have a say in no number, and new
#: versions of the others change last digits at most: with them, no result would outlive an upgrade or count on another
#: machine. A run's manifest has their versions.
UNCOUNTED = frozenset(
    {"fieldbench", "pydantic", "pydantic_core", "annotated_types", "numba", "numpy", "scipy", "torch"}
)

#: Files that are not touched after this are in memory as they are on disk.
_BEGUN = time.time()


class Unidentified(Exception):
    """What a plugin is made of cannot be told; the text says why."""


class Code:
    """The code of this process. Each file is read once, before anything runs that could change it."""

    def __init__(self, by_value: Iterable[str] = ()) -> None:
        """``by_value`` names modules whose classes travel to other processes with their code."""
        self._by_value = {"__main__", *by_value}
        self._modules: dict[tuple[str, Path | None], _Module] = {}
        self._pieces: dict[tuple[str, str, Path | None], tuple[list[str], list[Node]]] = {}

    def of(self, cls: type) -> tuple[str, set[str]]:
        """All that a class is made of.

        Returns:
            a hash of it; name and version of each distribution in it.

        Raises:
            Unidentified: if the source of a module or class is not there.
        """
        bases = [base for base in cls.__mro__ if _top(base.__module__) not in UNCOUNTED | sys.stdlib_module_names]
        values = [item for base in bases for item in sorted(vars(base).items()) if not item[0].startswith("__")]
        cells = [cell for _, value in values if isinstance(value, FunctionType) for cell in value.__closure__ or ()]
        for cell in cells:
            with contextlib.suppress(ValueError):  # it is empty
                values.append(("", cell.cell_contents))
        texts = [cls.__qualname__, *(f"{key} {text}" for key, value in values for text in _data(value))]
        return self._reached(texts, [(cls.__module__, ""), *map(_name, bases)], cls.__module__)

    def of_value(self, value: Any) -> str:
        """A hash of the content of any value, and of the code that it is made of.

        Raises:
            Unidentified: if it has no content to tell it from another, or the source of a module is not there.
        """
        nodes: list[Node] = []
        try:
            texts = [_content(value, nodes)]
        except Exception as error:  # what an object does when it is looked at
            raise Unidentified(f"{type(value).__name__} cannot be told from another: {one_line(error)}") from error
        return self._reached(texts, nodes, type(value).__module__)[0]

    def _reached(self, texts: list[str], ahead: list[Node], home: str) -> tuple[str, set[str]]:
        """A hash of texts and of all that nodes lead to, and the distributions that are met."""
        found: dict[Node, list[str]] = {}
        distributions: set[str] = set()
        file = _file(home, Path())
        folder = _above(home, file) if file else Path()
        while ahead:
            module, name = node = ahead.pop()
            if node in found or _top(module) in UNCOUNTED:
                continue
            file, whole = _file(module, folder), _file(_top(module), folder)
            owner = self._distribution(_top(module), whole) if whole else self._distribution(module, file)
            distributions |= {owner} - {""}
            found[node] = []
            if (file or module in self._by_value) and (not owner or _top(module) == _top(home)):
                if (*node, file) not in self._pieces:
                    self._pieces[*node, file] = self._piece(module, name, file)
                found[node], further = self._pieces[*node, file]
                ahead += further
        pieces = sorted(f"{_shown(module)} {name} {text}" for (module, name), text in found.items() if text)
        content = repr([*texts, *sorted(distributions), *pieces])
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:24], distributions

    def _piece(self, module: str, name: str, file: Path | None) -> tuple[list[str], list[Node]]:
        """The content of a node, and where it leads."""
        live, read = vars(sys.modules.get(module, ModuleType(""))), self._module(module, file)
        if not name:
            return ([read.text], list(read.imports)) if read.text else ([], [])
        statements = read.statements.get(name, [])
        further = [node for statement in statements for node in statement.imports]
        for statement in statements:
            further += [(module, other) for other in statement.reads]
            others = {live[other].__name__ for other in statement.reads if isinstance(live.get(other), ModuleType)}
            further += [(other, inner) for other in others for inner in ("", *statement.attributes)]
        if isinstance(live.get(name), type | FunctionType) and live[name].__module__ == module in self._by_value:
            _check(live[name], name in read.statements, file)
        said = read.text and statements and all(statement.is_literal for statement in statements)
        return [statement.text for statement in statements] + ([] if said else _data(live.get(name))), further

    def _module(self, name: str, file: Path | None) -> _Module:
        """What stands in a module; it is unidentified if its file is not there."""
        if (name, file) not in self._modules:
            package = getattr(sys.modules.get(name), "__package__", None)
            if package is None and file is not None:
                package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            try:
                sources = map(_parsed, [file.read_bytes()] if file else _cells(name))
                self._modules[name, file] = _Module(sources, package or "", whole=name not in self._by_value)
            except OSError:
                raise Unidentified(f"the file {file} of module {name!r} is not there") from None
            except (SyntaxError, ValueError, RecursionError):  # it is compiled, or whoever imports it learns that
                self._modules[name, file] = _Module()
                self._modules[name, file].text = hashlib.sha256(file.read_bytes() if file else b"").hexdigest()
        return self._modules[name, file]

    def _distribution(self, module: str, file: Path | None) -> str:
        """Name and version of the installed distribution that has a module; empty for others."""
        name = _top(module)
        own = not any(_above(module, file).glob("*-info")) if file else name in self._by_value
        if own or name in sys.stdlib_module_names:
            return ""  # all distributions are asked below, which takes long
        for called in sorted({name, *self._distributions.get(name, ())}):
            with contextlib.suppress(PackageNotFoundError, ValueError):
                found = distribution(called)
                if not is_editable(found) and (file is None or file.is_relative_to(str(found.locate_file("")))):
                    return f"{found.name} {found.version}"
        return ""

    @functools.cached_property
    def _distributions(self) -> Mapping[str, list[str]]:
        return packages_distributions()


class _Statement:
    """A statement at the top of a module: the names that it defines, those that it reads, and what it imports."""

    def __init__(self, node: ast.stmt, package: str) -> None:
        self.text = ast.unparse(node)
        table = symtable.symtable(self.text, "statement", "exec")
        self.defines = {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_imported()}
        self.reads = _globals(table)
        self.attributes = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
        self.imports = set(_imports(node, package))
        self.is_literal = False
        with contextlib.suppress(ValueError, AttributeError):
            ast.literal_eval(node.value)  # type: ignore[attr-defined]
            self.is_literal = True


class _Module:
    """The source of a module: its text, where that counts as a whole, its imports, and what defines each name."""

    def __init__(self, sources: Iterable[ast.Module] = (), package: str = "", *, whole: bool = True) -> None:
        self.text = ""
        self.imports: set[Node] = set()
        self.statements: dict[str, list[_Statement]] = {}
        for source in sources:
            found = [_Statement(node, package) for node in _without_docstrings(source).body]
            self.statements |= {name: [] for statement in found for name in statement.defines}  # those of later cells
            for statement in found:
                self.imports |= {(module, "") for module, name in statement.imports if not name}
                for name in statement.defines:
                    self.statements[name].append(statement)
            self.text += "\n".join(statement.text for statement in found) * whole


def _without_docstrings(source: ast.Module) -> ast.Module:
    for node in ast.walk(source):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node) is not None:  # type: ignore[arg-type]
            node.body = node.body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return source


def imported(text: bytes) -> set[str]:
    """The modules that a source imports, in functions too, by the names of their packages."""
    return {_top(module) for module, _ in _imports(_parsed(text), "")}


def _imports(node: ast.AST, package: str) -> Iterator[Node]:
    """The modules that code may import, in functions too, and the names taken from them, which may be modules."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            found = [(alias.name, "") for alias in inner.names]
        elif isinstance(inner, ast.ImportFrom):
            base = "." * inner.level + (inner.module or "")
            found = [(base, alias.name) for alias in inner.names]
        else:
            continue
        for base, name in found:
            with contextlib.suppress(ImportError):  # beyond the top of a package: so it is when that runs
                base = importlib.util.resolve_name(base, package)
                parts = [*base.split("."), *([name] if name else [])]
                yield from ((".".join(parts[: end + 1]), "") for end in range(len(parts)))
                yield base, name


def _globals(table: symtable.SymbolTable) -> set[str]:
    """The global names that a statement reads, in functions too."""
    top = table.get_type() == "module"
    read = {name.get_name() for name in table.get_symbols() if name.is_referenced() and (top or name.is_global())}
    return read.union(*map(_globals, table.get_children()))


def _parsed(text: str | bytes) -> ast.Module:
    """The syntax tree of a text. Python before 3.11.8 and 3.12.2 raises SystemError where two threads parse at once."""
    with _PARSING:
        return ast.parse(text)


def _cells(module: str) -> Iterator[str]:
    """The cells of a notebook in the order in which they ran, as IPython keeps them."""
    for text in vars(sys.modules.get(module, ModuleType(""))).get("In", ()):
        with contextlib.suppress(SyntaxError, ValueError):
            _parsed(text)
            yield text


def _file(module: str, folder: Path) -> Path | None:
    """The file of a module that is loaded, or lies in a folder or on the path; None if it has none, or is standard."""
    parts, standard = module.split("."), _top(module) in sys.stdlib_module_names
    loaded = getattr(sys.modules.get(module), "__file__", None) or "<"
    if not loaded.startswith("<"):  # as <stdin> does
        file = Path(loaded).absolute()
        return None if standard and file.is_relative_to(Path(os.__file__).parent) else file
    beside = [Path(str(path)).parent for path in getattr(sys.modules.get(parts[0]), "__path__", ())]
    for above in [folder, *beside, *([] if standard else map(Path, sys.path))]:
        for file in (above.joinpath(*parts[:-1], f"{parts[-1]}.py"), above.joinpath(*parts, "__init__.py")):
            if file.is_file():
                return file.absolute()
    return None


def _above(module: str, file: Path) -> Path:
    """The folder in which the top of a module's package lies."""
    return file.parents[module.count(".") + (file.name == "__init__.py")]


def _check(value: Any, said: bool, file: Path | None) -> None:
    """A class or function that travels as it is in memory is unidentified if it is not the one in the source."""
    if not said:
        raise Unidentified(
            f"the source of {value.__qualname__} is not there; write it into a file, or set revision in the class"
        )
    if file is not None and file.stat().st_mtime > _BEGUN:
        there = set(_codes(compile(file.read_bytes(), "", "exec", dont_inherit=True)))
        codes = [item.__code__ for item in (value, *vars(value).values()) if isinstance(item, FunctionType)]
        if any(Path(code.co_filename).name == file.name for code in codes if code not in there):
            raise Unidentified(f"{file} has changed since it was loaded; load it again")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        yield from _codes(inner) if isinstance(inner, CodeType) else ()


def _data(value: Any) -> list[str]:
    """The content of a number, a text without a path, an array, or a container of these; nothing of others."""
    with contextlib.suppress(TypeError):
        return [_content(value)] if value is not None else []
    return []


def _content(value: Any, nodes: list[Node] | None = None) -> str:
    """The content of a value, the same in every process. What it is made of is added to nodes, or else a TypeError."""
    kind = type(value)
    if kind in (bool, int, float, complex, bytes, str, type(None)) and (nodes is not None or os.sep not in str(value)):
        return f"{kind.__name__} {value!r}"
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if kind in (tuple, list, dict, set, frozenset):
        items = [_content(item, nodes) for item in (value.items() if kind is dict else value)]
        return f"{kind.__name__} {sorted(items) if kind in (set, frozenset) else items}"
    if nodes is None:
        raise TypeError(f"{kind.__name__} is not data")
    if isinstance(value, type | FunctionType | BuiltinFunctionType | ModuleType):
        module, name = _name(value)
        nodes += [(module, ""), (module, name)]
        return f"{_shown(module)} {name} {getattr(value, '__qualname__', '')}"
    if hasattr(value, "detach"):  # a tensor
        return _content(value.detach().cpu().numpy())
    reduce = copyreg.dispatch_table.get(kind)
    made: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
    return made if isinstance(made, str) else _content((*made[:3], *(list(part or ()) for part in made[3:5])), nodes)


def _name(value: Any) -> Node:
    """The module of a class, function or module, and its name there."""
    if isinstance(value, ModuleType):
        return value.__name__, ""
    return str(value.__module__), value.__qualname__.partition(".")[0]


def _shown(module: str) -> str:
    """The name of a module, unless it has another one in another program or folder."""
    return "" if module == "__main__" or module.startswith(FILE_MODULE) else module


def _top(module: str) -> str:
    return module.partition(".")[0]
