"""Looking around: ``--help``, ``list``, ``show``, ``plugins``, ``table``."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from fieldbench.cli.main import app
from fieldbench.registry import KINDS, Registry, Sources

HEAVY = ["torch", "pandas", "joblib", "numba", "scipy", "sklearn", "matplotlib", "tensorly", "xarray"]


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list"], ["show", "tap"], ["--version"]])
def test_looking_imports_nothing_heavy(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDBENCH_CACHE", str(tmp_path))  # so that no listing is kept there
    program = f"""
import sys
from fieldbench.cli.main import main
try:
    main({arguments!r})
except SystemExit as stop:
    assert stop.code == 0, stop.code
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_the_package_starts_like_the_script() -> None:
    done = subprocess.run([sys.executable, "-m", "fieldbench", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fieldbench", version("fieldbench-completion")]


def commands() -> dict[str, object]:
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", list(commands()))
def test_every_command_explains_itself(name: str) -> None:
    command = commands()[name]
    assert re.search(r"\*\*Examples?\*\*", command.help), f"{name} shows no example"
    assert f"fieldbench {name}" in command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} does not explain {parameter.name}"


def test_help_keeps_brackets_of_parameters(fieldbench) -> None:
    page = " ".join(fieldbench("run", "--help").out.split())
    assert "'tap[dropout=0]+tv'" in page
    assert "'gaussian[sigma=0.1]'" in page


def test_list_names_everything_with_summary_and_origin(fieldbench) -> None:
    shown = fieldbench("list").out
    registry = Registry()
    for kind in KINDS:
        for name, entry in registry.entries(kind).items():
            line = next(line for line in shown.splitlines() if re.match(rf"  \+?{name} ", line))
            assert entry.cls.summary()[:20] in line
    assert re.search(r"^Methods  from \S*toys.py \w+$", shown, re.MULTILINE)


def test_list_of_one_kind(fieldbench) -> None:
    shown = fieldbench("list", "noises").out
    assert "gaussian" in shown
    assert "nearest" not in shown


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in Registry(Sources()).entries(kind)]
)
def test_show_gives_every_parameter_of_every_plugin(fieldbench, kind: str, name: str) -> None:
    outcome = fieldbench("show", name)
    assert outcome.code == 0
    cls = Registry(Sources()).find(kind, name).cls
    page = outcome.out
    assert cls.summary()[:40] in " ".join(page.split())
    for parameter in cls.parameter_names():
        assert re.search(rf"^ +{parameter}\b", page, re.MULTILINE), f"{parameter} of {name} is not shown"


def test_show_gives_type_default_unit_bounds_meaning_and_source(fieldbench) -> None:
    page = fieldbench("show", "wave[rows=9]").out
    line = next(line for line in page.splitlines() if line.strip().startswith("rows"))
    for words in ("whole number >= 2", "9 instead of 6 grid steps", "points along x", "nowhere in particular"):
        assert words in line
    assert "Sampled by: random" in page
    assert "Metric: rmse" in page


def test_show_says_what_tuning_may_try(fieldbench) -> None:
    page = " ".join(fieldbench("show", "tap+tv").out.split())
    for searched in ("tuned over none, 2, 3, 4", "tuned over 0.001 to 0.02 (log)", "tuned over 0.0001 to 1 (log)"):
        assert searched in page


def test_show_of_a_composed_method_gives_all_parts(fieldbench) -> None:
    page = fieldbench("show", "mean[shift=7]+hat[height=0.5]").out
    assert "7.0 instead of 0.0 m/s" in page
    assert "0.5 instead of 1.0 m" in page
    assert "Takes: +hat" in page


def test_show_of_a_selection(fieldbench) -> None:
    assert "withheld" in fieldbench("show", "holdout").out


BROKEN = "import fieldbench\nraise RuntimeError('the disk is made of cheese')\n"


def test_broken_plugins_are_listed_and_explained(fieldbench) -> None:
    Path("cheesy.py").write_text(BROKEN)
    listed = fieldbench("list", "--plugin", "cheesy.py")
    assert listed.code == 0
    assert "the disk is made of cheese" in listed.out
    assert "mean" in listed.out
    explained = fieldbench("plugins", "cheesy", "--plugin", "cheesy.py")
    assert explained.code == 0
    assert "Traceback" in explained.out
    assert "line 2" in explained.out


def test_plugins_can_be_left_out(fieldbench) -> None:
    assert "walk" in fieldbench("list", "methods").out
    assert "walk" not in fieldbench("list", "methods", "--no-plugin", "walk").out
    assert "  mean " not in fieldbench("list", "methods", "--no-plugin", "toys").out


@pytest.mark.parametrize("format", ["text", "markdown", "csv", "latex", "html"])
def test_table_in_every_format(run, fieldbench, format: str) -> None:
    run("mean,walk", "--trials", "2")
    outcome = fieldbench("table", "kept", "--format", format)
    assert outcome.code == 0
    assert "mean" in outcome.out
    assert "walk" in outcome.out
    assert outcome.err == ""


def test_table_by_parameters_and_other_metrics(run, fieldbench) -> None:
    run("mean", "--set", "mean.shift=0.0,0.5,2.0", "--trials", "2")
    outcome = fieldbench("table", "kept", "--columns", "shift", "--metric", "mae.unobserved", "--spread", "none")
    assert "wave, rate 30 %: mae.unobserved (m/s)" in outcome.out or "wave: mae.unobserved (m/s)" in outcome.out
    head = next(line for line in outcome.out.splitlines() if line.startswith("method"))
    assert head.split() == ["method", "0.0", "0.5", "2.0"]


def test_output_can_be_cut_short(tmp_path: Path) -> None:
    """``fieldbench list | head -1`` ends quietly."""
    line = f"{sys.executable} -c 'from fieldbench.cli.main import main; main()' list | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("Methods")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
