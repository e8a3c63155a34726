"""The package that ``fieldbench new-plugin`` writes: templates, and how their blanks are filled in.

Each file in ``common/`` and in the folder of the plugin's kind ends in ``.in`` and becomes a file of the
package; where both have it, that of the kind counts. ``@NAME@`` and its like stand for what differs from
plugin to plugin, in file names without the ``@`` signs.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Iterable
from pathlib import Path

from fieldbench.errors import RequestError
from fieldbench.registry import Registry
from fieldbench.spec import is_name

TEMPLATES = Path(__file__).parent

_OWN_TABLE = "--suite tests{/}regression.toml --exact nearest=1e-9"

#: What the regression environment of each kind checks, and with which options of ``python -m fieldbench.regression``.
#: A metric has none: what it returns for given fields is a known answer, which its tests hold it to.
_CHECKED = {
    "method": ("the scores of @NAME@ on fieldbench's small matrix", "--methods @NAME@ --exact @NAME@=1e-6"),
    "modifier": (
        "the scores of @NAME@-mean with @NAME@ on fieldbench's small matrix",
        "--methods @NAME@-mean,@NAME@-mean+@NAME@ --exact @NAME@-mean=1e-6,@NAME@-mean+@NAME@=1e-6",
    ),
    "dataset": ("the scores of a plain method on @NAME@", _OWN_TABLE),
    "noise": ("the scores of a plain method under @NAME@", _OWN_TABLE),
    "sampler": ("the scores of a plain method on what @NAME@ observes", _OWN_TABLE),
    "metric": ("", ""),
}


def kinds() -> list[str]:
    """The kinds of plugin that there is a template for."""
    return list(_CHECKED)


def write_package(name: str, kind: str, into: Path, registry: Registry) -> list[Path]:
    """Write a ready package for a plugin called ``name`` into a new folder ``into/fieldbench-NAME``.

    Args:
        name: of the plugin.
        kind: of plugin, such as ``method``.
        into: folder in which the package's folder is made.
        registry: knows which names are taken.

    Returns:
        The files written.

    Raises:
        RequestError: if the name is not one, is taken, or the folder exists.
    """
    if not is_name(name):
        raise RequestError(f"{name!r} is not a name; names are lower case letters, digits and hyphens: my-method")
    if kind not in kinds():
        raise RequestError(f"unknown kind {kind!r}; there are: {', '.join(kinds())}")
    registered = "method" if kind == "modifier" else kind
    if name in registry.entries(registered):
        source = registry.find(registered, name).source
        raise RequestError(f"there is a {registered} {name!r} already, from {source}; choose another name")
    package = f"fieldbench_{name.replace('-', '_')}"
    if importlib.util.find_spec(package) is not None:
        raise RequestError(f"there is a package {package!r} already; choose another name than {name!r}")
    folder = into / f"fieldbench-{name}"
    if folder.exists():
        raise RequestError(f"{str(folder)!r} exists already; choose another name, or another folder with --into")
    templates = _templates(kind)
    checked, options = _CHECKED[kind]
    blanks = {
        "SCORES": checked,
        "OPTIONS": options,
        "DISTRIBUTION": folder.name,
        "NAME": name,
        "PACKAGE": package,
        "CLASS": _class_name(name, kind, templates.values()),
        "KIND": kind,
        "REGISTERED": registered,
        "HOOK": f"fieldbench_register_{registered}s",
    }
    written = []
    for inside, text in sorted(templates.items()):
        file = folder / str(inside).replace("PACKAGE", package).removesuffix(".in")
        if file.name == "gitignore":
            file = file.with_name(".gitignore")
        file.parent.mkdir(parents=True, exist_ok=True)
        for blank, value in blanks.items():
            text = text.replace(f"@{blank}@", value)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def _templates(kind: str) -> dict[Path, str]:
    """The text of each template of a kind, by where it goes inside the package's folder."""
    return {
        Path(*template.relative_to(TEMPLATES).parts[1:]): template.read_text(encoding="utf-8")
        for folder in ("common", kind)
        for template in (TEMPLATES / folder).rglob("*.in")
    }


def _class_name(name: str, kind: str, templates: Iterable[str]) -> str:
    """``my-method`` is MyMethod; what Python or a template calls something else has the kind behind it."""
    text = "\n".join(templates)
    imported = ", ".join(re.findall(r"^from \S+ import (.+)$", text, re.MULTILINE)).split(", ")
    called = "".join(word.capitalize() for word in name.split("-"))
    taken = keyword.iskeyword(called) or called in (*imported, *re.findall(r"^class (\w+)", text, re.MULTILINE))
    return f"{called}{kind.capitalize()}" if taken else called
