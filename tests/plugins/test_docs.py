"""The pages for plugin authors: their code runs, every hook is documented and exercised, every check is listed."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import fieldbench
from fieldbench import conformance, hookspecs
from fieldbench.cli.main import main
from fieldbench.registry import KINDS, Registry, Sources

DOCS = Path(__file__).parents[2] / "docs"
#: Those of docs/ itself run in tests/test_docs.py.
PAGES = [f"plugins/{name}.md" for name in ("notebook", "single-file", "package", "conformance", "broken")]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages lie beside the tests in a checkout only")

BLOCK = re.compile(
    r'(?P<skip><!-- not run: [^>]+ -->\n)?```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)```', re.S
)

#: The hooks, as pluggy knows them.
HOOKS = [name for name in dir(hookspecs) if name.startswith("fieldbench_register_")]


def blocks(page: str) -> Iterator[re.Match[str]]:
    return BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDBENCH_PLUGINS", "")
    notebook = {"__name__": "notebook"}
    for number, block in enumerate(blocks(page)):
        if block["skip"]:
            continue
        if block["title"]:
            Path(block["title"]).write_text(block["code"])
        elif block["kind"] == "python":
            exec(compile(block["code"], f"{page} block {number}", "exec"), notebook)
        elif block["kind"] == "bash":
            for line in block["code"].splitlines():
                run(line, monkeypatch)
    assert "Traceback" not in capsys.readouterr().err


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of a shell, done in this process."""
    command, *arguments = shlex.split(line)
    if command == "fieldbench":
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code, line
    elif command == "export":
        name, _, value = arguments[0].partition("=")
        monkeypatch.setenv(name, value)
    elif command == "mkdir":
        Path(arguments[-1]).mkdir()
    else:
        assert command == "cp", line
        shutil.copy(*arguments)


def test_every_hook_is_documented_and_exercised(tmp_path) -> None:
    sections = {
        section.partition("\n")[0]: section for section in (DOCS / "plugin-api.md").read_text().split("\n## ")[1:]
    }
    assert sorted(f"fieldbench_register_{kind}s" for kind in KINDS) == HOOKS
    for hook in HOOKS:
        (block,) = [found for found in BLOCK.finditer(sections[hook]) if found["title"]]
        file = tmp_path / str(block["title"])
        file.write_text(block["code"])
        assert f"@fieldbench.hookimpl\ndef {hook}():" in block["code"]
        registry = Registry(Sources(files=(str(file),), strict=True))
        kind = hook.removeprefix("fieldbench_register_").removesuffix("s")
        assert any(entry.source.label == str(file) for entry in registry.entries(kind).values())


def test_the_version_of_the_interface_is_stated() -> None:
    assert f"version {hookspecs.API_VERSION} of the interface" in (DOCS / "plugin-api.md").read_text()


def test_every_public_name_is_listed() -> None:
    page = (DOCS / "public-names.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| \S", page, re.M) == sorted(fieldbench.__all__)


def test_every_declaration_of_a_method_is_documented() -> None:
    from fieldbench.method import Method

    declared = {name for name in vars(Method).get("__annotations__", {}) if name not in ("modifiers", "prior_training")}
    table = (DOCS / "plugin-api.md").read_text()
    assert {name for name in declared if f"`{name}`" not in table} == set()


def test_every_check_is_listed() -> None:
    registry = Registry(Sources())
    text = (DOCS / "plugins" / "conformance.md").read_text()
    names = set()
    for kind, name in [("method", "nearest"), ("dataset", "ssf-synthetic"), ("noise", "gaussian"),
                       ("sampler", "random"), ("metric", "rmse")]:  # fmt: skip
        names |= {check.name for check in conformance.checks(name, kind=kind, registry=registry)}
    assert {name for name in names if f"`{name}`" not in text} == set()
