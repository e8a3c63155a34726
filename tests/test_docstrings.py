"""What every public function and class owes its reader: its parameters, and a name of its own."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = ["fieldbench", "fieldbench_methods", "fieldbench_datasets"]


@dataclass(frozen=True)
class Source:
    """One module: where it is, and its syntax."""

    name: str
    tree: ast.Module


def sources() -> Iterator[Source]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            for file in sorted(Path(folder).rglob("*.py")):
                name = ".".join([package, *file.relative_to(folder).with_suffix("").parts])
                yield Source(name, ast.parse(file.read_text(encoding="utf-8")))


SOURCES = list(sources())
CLASSES = [node for source in SOURCES for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]


def public(node: ast.Module | ast.ClassDef, path: str) -> Iterator[tuple[str, ast.FunctionDef, ast.ClassDef | None]]:
    """Public functions and methods: path, definition, and class if there is one."""
    for item in node.body:
        if isinstance(item, ast.ClassDef | ast.FunctionDef) and not item.name.startswith("_"):
            if isinstance(item, ast.ClassDef):
                yield from public(item, f"{path}.{item.name}")
            else:
                yield f"{path}.{item.name}", item, node if isinstance(node, ast.ClassDef) else None


def parameters(function: ast.FunctionDef, owner: ast.ClassDef | None) -> list[str]:
    given = function.args
    named = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    static = any(ast.unparse(item) == "staticmethod" for item in function.decorator_list)
    packed = [one.arg for one in (given.vararg, given.kwarg) if one is not None]
    return named[1 if owner is not None and not static else 0 :] + packed


def bases(cls: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The classes of these packages that a class builds on."""
    names = {re.sub(r"\[.*", "", ast.unparse(base)).rpartition(".")[2] for base in cls.bases}
    for found in CLASSES:
        if found.name in names and found is not cls:
            yield found
            yield from bases(found)


def overrides(function: ast.FunctionDef, owner: ast.ClassDef | None) -> bool:
    """Whether a base class has the method, whose docstring then holds for this one too."""
    inherited = bases(owner) if owner is not None else ()
    return any(
        isinstance(item, ast.FunctionDef) and item.name == function.name for cls in inherited for item in cls.body
    )


def is_command(function: ast.FunctionDef) -> bool:
    """Whether the options' help tells what a command's parameters are."""
    return re.search(r"typer\.(Option|Argument)\(|PluginFiles", ast.unparse(function.args)) is not None


def documented(docstring: str) -> list[str]:
    """The names that the section Args explains."""
    _, _, rest = docstring.partition("Args:\n")
    section = re.split(r"\n(?=\S)", rest)[0]
    return [name for line in re.findall(r"^    ([\w*][^:]*):", section, re.M) for name in re.findall(r"\w+", line)]


EXPLAINED = {
    path: (parameters(function, owner), ast.get_docstring(function) or "")
    for source in SOURCES
    for path, function, owner in public(source.tree, source.name)
    if len(parameters(function, owner)) >= 3 and not overrides(function, owner) and not is_command(function)
}


@pytest.mark.parametrize("path", EXPLAINED)
def test_a_public_function_of_three_parameters_explains_each(path: str) -> None:
    expected, docstring = EXPLAINED[path]
    assert sorted(documented(docstring)) == sorted(expected), f"{path}: give it a section Args with these names"


def test_an_explanation_names_parameters_one_by_one_or_together() -> None:
    lines = [
        "Args:",
        "    first, second: two",
        "        lines: of text",
        "    **rest: more.",
        "",
        "Raises:",
        "    Lost: never.",
    ]
    assert documented("\n".join(lines)) == ["first", "second", "rest"]


def names(source: Source) -> Iterator[tuple[str, str]]:
    """Public classes of a module, each with where it is, and its type aliases, each with what it stands for."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, f"{source.name}:{node.lineno}"
    for item in source.tree.body:
        if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None:
            target = ast.unparse(item.target if isinstance(item, ast.AnnAssign) else item.targets[0])
            if re.fullmatch("[A-Z][a-z][A-Za-z]*", target):
                yield target, ast.unparse(item.value)


def test_a_public_class_or_type_shares_its_name_with_no_other() -> None:
    meant: dict[str, set[str]] = {}
    for source in SOURCES:
        for name, what in names(source):
            meant.setdefault(name, set()).add(what)
    assert {name: kinds for name, kinds in meant.items() if len(kinds) > 1} == {}
