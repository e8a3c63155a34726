"""Every code block of the documentation runs, and the pages made from the code say what the code says.

Blocks of ``bash`` run their ``fieldbench`` commands, made small: fewer epochs and trials, coarser radio maps.
Blocks of ``python`` run one after the other, a page sharing its names; a block with a ``title`` is a file. A
block that cannot run here says why in a comment before it: ``<!-- not run: reason -->``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import pkgutil
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import fieldbench
from fieldbench.cli.main import main
from fieldbench.report.figures import KINDS
from fieldbench.spec import parse, split

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md"])

#: Parameters that make a plugin cheap.
SMALL = {
    "tap": ["epochs=3"],
    "mhtap": ["epochs=3"],
    "tnn": ["epochs=60"],
    "ssf-synthetic": ["shape=9x9x20"],
    "radiomap1": ["grid=12x12", "bins=12", "emitters=2"],
    "radiomap2": ["grid=12x12", "bins=12", "emitters=2"],
}

_FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]*) -->\s*\n)?^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file it is, why it does not run."""

    language: str
    title: str
    code: str
    reason: str


def blocks(page: Path) -> Iterator[Block]:
    for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
        language, _, rest = found["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        yield Block(language, title[1] if title else "", found["code"], (found["reason"] or "").strip())


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page: Path, elsewhere: Path) -> None:
    names: dict[str, object] = {"__name__": f"page_{page.stem.replace('-', '_')}"}
    module = ModuleType(str(names["__name__"]))
    sys.modules[module.__name__] = module
    try:
        for block in blocks(page):
            if block.reason:
                continue
            if block.title:
                Path(block.title).write_text(block.code, encoding="utf-8")
            elif block.language == "python":
                exec(compile(block.code, str(page), "exec"), vars(module))
            elif block.language in ("bash", "console", "sh", "shell"):
                for line in block.code.replace("\\\n", " ").splitlines():
                    run_line(line, page)
    finally:
        del sys.modules[module.__name__]


def run_line(line: str, page: Path) -> None:
    words = shlex.split(line, comments=True)
    if not words:
        return
    assert words[0] == "fieldbench", f"{page.name}: {line!r} cannot run here; mark its block <!-- not run: reason -->"
    output: Path | None = None
    if ">" in words:
        output, words = Path(words[-1]), words[: words.index(">")]
    printed, complaints = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaints), pytest.raises(SystemExit) as end:
        main(made_small(words[1:]))
    assert end.value.code == 0, f"{page.name}: {line}\n{complaints.getvalue()}"
    assert printed.getvalue().strip()
    if output is not None:
        output.write_text(printed.getvalue(), encoding="utf-8")


def made_small(words: list[str]) -> list[str]:
    """A command with fewer trials and epochs, where it runs any."""
    if words[0] not in ("run", "complete"):
        return words
    words = list(words)
    if words[0] == "run":
        words = with_option(words, "--trials", "2")
        words = with_option(words, "--jobs", "1")
        specs = [spec for name in ("--methods", "--datasets") if name in words for spec in split(after(words, name))]
        for name in dict.fromkeys(part.name for spec in specs for part in parse(spec)):
            given = {key for spec in specs for part in parse(spec) if part.name == name for key in part.parameters}
            for setting in SMALL.get(name, []):
                if setting.partition("=")[0] not in given:
                    words += ["--set", f"{name}.{setting}"]
    return words


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def with_option(words: list[str], option: str, value: str) -> list[str]:
    if option not in words:
        return [*words, option, value]
    index = words.index(option) + 1
    return [*words[:index], value, *words[index + 1 :]]


def test_blocks_are_found_with_what_is_written_about_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '<!-- not run: slow -->\n```bash\na\n```\n\n```python title="b.py"\nc\n```\n\n    ```text\n    d\n    ```\n'
    )
    assert list(blocks(page)) == [
        Block("bash", "", "a\n", "slow"),
        Block("python", "b.py", "c\n", ""),
        Block("text", "", "    d\n", ""),
    ]


def test_blocks_that_do_not_run_say_why() -> None:
    reasons = {page.name: [block.reason for block in blocks(page) if block.reason] for page in PAGES}
    assert all(len(reason.split()) >= 2 for listed in reasons.values() for reason in listed), reasons


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["fieldbench"]]
    level = {name: number for number, layer in enumerate(layers) for name in layer.split(" | ")}
    section = architecture().partition("## The layers")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.M)
    listed = [name.removesuffix(".py").rstrip("/") for row in rows for name in re.findall(r"`(.+?)`", row)]
    assert sorted(listed) == sorted(level)
    assert [level[name] for name in listed] == sorted(level.values())


REFERENCES = sorted(
    {line for page in DOCS.rglob("*.md") for line in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M)}
)


@pytest.mark.parametrize("reference", REFERENCES)
def test_what_the_reference_shows_is_there(reference: str) -> None:
    assert pkgutil.resolve_name(reference).__doc__


def test_every_module_of_execution_stands_in_the_architecture() -> None:
    section = architecture().partition("## Processes of a run")[2].partition("## ")[0]
    named = {name.rpartition("/")[2] for name in re.findall(r"`([\w/]+\.py)`", section)}
    assert named == {file.name for file in (ROOT / "fieldbench" / "execution").glob("*.py")} - {"__init__.py"}


def architecture() -> str:
    return (DOCS / "architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    sys.path.insert(0, str(DOCS / "making"))
    return importlib.import_module("pictures")


@pytest.fixture(scope="module")
def site(pictures: ModuleType) -> ModuleType:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed; the docs environment builds the site")
    return importlib.import_module("pages")


def test_every_command_and_option_is_in_the_reference(site: ModuleType) -> None:
    from typer.main import get_command

    from fieldbench.cli.main import app

    page = site.commands_page()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        _, found, rest = page.partition(f"\n## fieldbench {name}\n")
        assert found, name
        section = rest.partition("\n## ")[0]
        for parameter in command.params:
            if parameter.param_type_name == "option" and "--help" not in parameter.opts:
                assert all(f"`{option}`" in section for option in parameter.opts), (name, parameter.opts)


def test_every_built_in_plugin_and_parameter_is_in_the_reference(site: ModuleType) -> None:
    from fieldbench.registry import KINDS, Registry, Sources

    page, registry = site.built_in_page(), Registry(Sources())
    for kind in KINDS:
        for name, entry in registry.entries(kind).items():
            _, found, rest = page.partition(f"\n### {name}\n")
            assert found, name
            section = re.split(r"\n##+ ", rest)[0]
            assert all(f"| `{parameter}` |" in section for parameter in entry.cls.parameter_names()), name


def test_readme_shows_a_picture_and_the_command_that_makes_it(pictures: ModuleType) -> None:
    committed = pictures.FIRST.read_bytes()
    assert committed.startswith(b"\x89PNG")
    assert len(committed) < 150_000
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "(docs/pictures/first.png)" in readme
    assert f"`{pictures.FIRST_RUN}`" in readme


def test_the_first_picture_shows_any_run_that_kept_its_fields(pictures: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    fields = "ssf-synthetic[shape=6x6x4]"
    run = fieldbench.run(
        ["nearest", "linear"], fields, trials=1, save_fields=True, out=tmp_path / "run", progress=False
    )
    assert pictures.first_picture(run.path).startswith(b"\x89PNG")


def test_the_gallery_shows_every_kind_of_figure_with_its_command(pictures: ModuleType) -> None:
    gallery = importlib.import_module("gallery")
    commands, page = list(gallery.commands()), gallery.PAGE.read_text(encoding="utf-8")
    plots = [words[words.index("--kind") + 1] for words in commands if words[0] == "plot"]
    assert sorted(plots) == sorted(KINDS)
    assert re.findall(r"^!\[[^]]+\]\(pictures/gallery/(\w+)\.png\)$", page, re.M) == plots
    assert "(examples/report.html)" in page
    assert any(words[0] == "report" for words in commands)


def test_the_site_makes_the_first_picture_as_readme_says(site: ModuleType, pictures: ModuleType) -> None:
    assert site.made_files()["pictures/first.png"] is pictures.first


def test_search_finds_what_people_look_for(site: ModuleType, tmp_path: Path) -> None:
    """The pages alone, without those that are made from runs."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=False, hooks=[])
    build(config)
    entries = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    wanted = {"pareto": ("glossary/", "figures/"), "resume": ("glossary/", "cli/"), "install": ("install/",)}
    for word, pages in wanted.items():
        found = {entry["location"].partition("#")[0] for entry in entries
                 if word in f"{entry['title']} {entry['text']}".lower()}  # fmt: skip
        assert found >= set(pages), (word, found)
