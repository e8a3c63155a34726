"""``fieldbench new-plugin`` writes a package that works and passes its own tests as written."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fieldbench.cli.main import main
from fieldbench.scaffold import kinds

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_party_plugin" / "pyproject.toml"


def new_plugin(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["new-plugin", *arguments])
    return int(ended.value.code or 0)


def as_installed(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """This environment, for a process that has the package installed, as its pyproject.toml says."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["fieldbench"]
    lines = "\n".join(f"{name} = {module}" for name, module in points.items())
    (info / "entry_points.txt").write_text(f"[fieldbench]\n{lines}\n")
    path = [str(folder / "src"), str(folder / "site"), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def run_tests(folders: list[Path], *options: str) -> str:
    environment = os.environ.copy()
    for folder in folders:
        environment = as_installed(folder, environment)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folders[0], env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_package_passes_its_own_tests(tmp_path: Path) -> None:
    assert new_plugin("very-new", "--into", str(tmp_path)) == 0
    summary = run_tests([tmp_path / "fieldbench-very-new"])
    assert " passed" in summary
    assert "skipped" not in summary


def test_the_packages_of_other_kinds_pass_theirs_side_by_side(tmp_path: Path) -> None:
    # Each has a name that Python or the templates use for something else.
    others = {
        "dataset": "registry", "noise": "true", "sampler": "request-error", "metric": "null-report",
        "modifier": "shrunk-mean",
    }  # fmt: skip
    assert set(others) | {"method"} == set(kinds())
    for kind, name in others.items():
        assert new_plugin(name, "--kind", kind, "--into", str(tmp_path)) == 0
    folders = [tmp_path / f"fieldbench-{name}" for name in others.values()]
    summary = run_tests(folders, "--import-mode=importlib", *map(str, folders))
    assert " passed" in summary


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("very-new", "VeryNew"),
        ("none", "NoneMethod"),
        ("false", "FalseMethod"),
        ("observation", "ObservationMethod"),
        ("null-report", "NullReportMethod"),
        ("registry", "RegistryMethod"),
        ("shrunk-mean", "ShrunkMean"),
    ],
)
def test_the_class_is_called_like_nothing_else(name: str, called: str, tmp_path: Path) -> None:
    new_plugin(name, "--into", str(tmp_path))
    source = next(tmp_path.rglob("method.py")).read_text()
    assert f"class {called}(fieldbench.Method):" in source
    compile(source, "method.py", "exec")


@pytest.mark.parametrize("kind", kinds())
def test_no_blank_is_left(kind: str, tmp_path: Path) -> None:
    new_plugin("very-new", "--kind", kind, "--into", str(tmp_path))
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"pyproject.toml", "tox.ini", "README.md", ".gitignore", "test_conformance.py"} <= {f.name for f in files}
    for file in files:
        assert not re.search(r"@[A-Z]+@", file.read_text()), file
        if file.suffix == ".py":
            compile(file.read_text(), str(file), "exec")


@pytest.mark.parametrize("kind", kinds())
def test_its_requirement_is_met_by_the_distribution_that_holds_the_built_in_plugins(kind: str, tmp_path: Path) -> None:
    new_plugin("very-new", "--kind", kind, "--into", str(tmp_path))
    requires_this_fieldbench(tmp_path / "fieldbench-very-new" / "pyproject.toml")


@pytest.mark.skipif(not EXAMPLE.is_file(), reason="the examples lie beside the tests in a checkout only")
def test_the_requirement_of_the_example_is_met_by_it_too() -> None:
    requires_this_fieldbench(EXAMPLE)


def requires_this_fieldbench(pyproject: Path) -> None:
    """The wheel's metadata are these requirements, word for word."""
    (built_in,) = entry_points(group="fieldbench", name="methods")
    listed = map(Requirement, tomllib.loads(pyproject.read_text())["project"]["dependencies"])
    (required,) = [one for one in listed if one.name.startswith("fieldbench")]
    assert built_in.dist is not None
    assert required.name == built_in.dist.name
    assert built_in.dist.version in required.specifier


def test_the_package_is_checked_and_run_from_the_command_line(tmp_path: Path) -> None:
    new_plugin("very-new", "--into", str(tmp_path))
    environment = as_installed(tmp_path / "fieldbench-very-new", os.environ.copy())
    command = [sys.executable, "-c", "from fieldbench.cli.main import main; main()"]
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 300}
    check = subprocess.run([*command, "check", "very-new"], check=False, **options)
    assert check.returncode == 0, check.stdout + check.stderr
    assert "failed" not in check.stdout
    run = subprocess.run(
        [*command, "run", "--methods", "very-new[width=1]", "--datasets", "ssf-synthetic", "--trials", "1"],
        check=False, **options,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "very-new[width=1.0]" in run.stdout


def regression(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What ``tox -e regression -- OPTIONS`` calls in a package's folder."""
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(folder / "tox.ini")
    command = ini["testenv:regression"]["commands"].replace("{/}", "/").replace("{env_tmp_dir}", str(folder / "tmp"))
    python, *arguments = shlex.split(command.replace("{posargs}", shlex.join([*options, "--jobs", "1"])))
    assert python == "python"
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder / "src"), str(folder / "site")])},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("dataset", "np.cos(points", "np.sin(points"),
        ("noise", "np.sqrt(3.0) * self.sigma", "np.sqrt(3.0) * self.sigma**2"),
        ("sampler", "round(rate * len(slices))", "round(rate * len(slices)) - 1"),
    ],
)
def test_its_regression_check_sees_a_change(kind: str, right: str, wrong: str, tmp_path: Path) -> None:
    new_plugin("very-new", "--kind", kind, "--into", str(tmp_path))
    folder = tmp_path / "fieldbench-very-new"
    as_installed(folder, {})
    frozen = regression(folder, "--freeze", "--trials", "2")
    assert frozen.returncode == 0, frozen.stdout + frozen.stderr
    same = regression(folder, "--trials", "1", "--out", "again")
    assert same.returncode == 0, same.stdout + same.stderr
    assert "2 trials in pairs, 2 of them to the last digit" in same.stdout
    source = folder / "src" / "fieldbench_very_new" / f"{kind}.py"
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))
    changed = regression(folder, "--trials", "1", "--out", "changed")
    assert changed.returncode == 1, changed.stdout + changed.stderr
    assert "certain" in changed.stdout


def test_only_a_metric_has_no_regression_check(tmp_path: Path) -> None:
    without = []
    for kind in kinds():
        new_plugin("very-new", "--kind", kind, "--into", str(tmp_path / kind))
        if "[testenv:regression]" not in (tmp_path / kind / "fieldbench-very-new" / "tox.ini").read_text():
            without.append(kind)
    assert without == ["metric"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["My_Method"], "'My_Method' is not a name"),
        (["mine", "--kind", "methd"], "unknown kind 'methd'"),
        (["nearest"], "there is a method 'nearest' already, from fieldbench"),
        (["rmse", "--kind", "metric"], "there is a metric 'rmse' already"),
        (["methods"], "there is a package 'fieldbench_methods' already"),
    ],
)
def test_a_wrong_request_writes_nothing(arguments, complaint, tmp_path, capsys) -> None:
    assert new_plugin(*arguments, "--into", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(tmp_path, capsys) -> None:
    (tmp_path / "fieldbench-mine").mkdir()
    assert new_plugin("mine", "--into", str(tmp_path)) == 2
    assert "exists already" in capsys.readouterr().err
    assert list((tmp_path / "fieldbench-mine").iterdir()) == []
