"""What `list`, `plugins`, `check` and `run` say about plugins, good and broken."""

from __future__ import annotations

import re

import pytest

from fieldbench.cli.main import main

WRONG = '''
import numpy as np
import fieldbench


class Wrong(fieldbench.Method):
    """The mean, and a number that has a unit."""

    name = "wrong"

    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, observation.observed.mean() + 0.5)


@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Wrong]
'''


@pytest.fixture
def command(capsys, monkeypatch):
    """Run a command line in this process: its exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return command


def test_list_shows_what_works_and_what_is_broken(command, write, working) -> None:
    good, bad = write("good.py", working("average")), write("bad.py", "import no_such_module_xyz")
    code, out, _ = command("list", "--plugin", good, "--plugin", bad)
    assert code == 0
    assert "average" in out
    assert "Every entry takes the mean of the observed ones." in out
    assert "nearest" in out
    flat = " ".join(out.split())
    assert "bad" in flat
    assert "ModuleNotFoundError: No module named 'no_such_module_xyz'" in flat


def test_plugins_shows_the_whole_traceback(command, write) -> None:
    code, out, _ = command("plugins", "bad", "--plugin", write("bad.py", "def f():\n    1 / 0\n\nf()\n"))
    assert code == 0
    assert "Traceback (most recent call last)" in out
    assert "in f" in out
    assert out.strip().endswith("ZeroDivisionError: division by zero")


def test_running_what_is_broken_is_one_line(command, write, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad = write("bad.py", "import no_such_module_xyz")
    code, _, err = command("run", "--methods", "bad", "--datasets", "ssf-synthetic", "--plugin", bad)
    assert code == 2
    assert err.count("\n") == 1
    for words in ("'bad'", "No module named 'no_such_module_xyz'", "fieldbench plugins bad"):
        assert words in err


def test_the_strict_switch_stops_every_command(command, write, monkeypatch) -> None:
    monkeypatch.setenv("FIELDBENCH_STRICT_PLUGINS", "1")
    code, _, err = command("list", "--plugin", write("bad.py", "x = 1"))
    assert code != 0
    assert "'bad'" in err
    assert "it has no hook" in err
    assert err.count("\n") == 1


def test_leaving_a_plugin_out(command, write, working) -> None:
    bad = write("bad.py", "import no_such_module_xyz")
    _, out, _ = command("list", "--plugin", bad, "--no-plugin", "bad")
    assert "no_such_module_xyz" not in out
    code, _, err = command("list", "--no-plugin", "nearst")
    assert code == 2
    assert "did you mean 'nearest'" in err


def test_check_passes_what_is_right(command) -> None:
    code, out, _ = command("check", "nearest")
    assert code == 0
    assert "passed  shape-and-finiteness" in out
    assert "failed" not in out


def test_check_says_what_is_wrong_and_what_is_right(command, write) -> None:
    code, out, _ = command("check", "wrong", "--plugin", write("wrong.py", WRONG))
    assert code == 1
    assert "failed  scale-equivariant" in out
    assert "times 1024" in out
    assert "scale_equivariant = False" in out
    assert "1 failed" in out


def test_one_check_alone_with_its_time(command) -> None:
    code, out, _ = command("check", "nearest", "--only", "deterministic", "--only", "zero-field")
    assert code == 0
    assert re.findall(r"passed  (\S+)  \d+\.\d s", out) == ["deterministic", "zero-field"]
    code, _, err = command("check", "nearest", "--only", "determinstic")
    assert code == 2
    assert "did you mean 'deterministic'?" in err


def test_check_stops_at_what_cannot_be_imported(command, write) -> None:
    late = WRONG.replace("        return", "        import no_such_module_xyz\n\n        return")
    assert late != WRONG
    code, out, _ = command("check", "wrong", "--plugin", write("late.py", late))
    assert code == 1
    assert out.count("failed  ") == 1
    assert "1 failed; stopped, as it cannot import: No module named 'no_such_module_xyz'" in out
    bad = write("bad.py", "import no_such_module_xyz")
    code, out, err = command("check", "nearest", "--plugin", bad)
    assert (code, out) == (2, "")
    assert "bad.py does not load: ModuleNotFoundError: No module named 'no_such_module_xyz'" in err


def test_what_a_plugin_requires_is_named_with_the_command(command, write) -> None:
    needs = WRONG.replace('name = "wrong"', 'name = "wrong"\n    requires = {"no_such_module_xyz": "no-such-thing"}')
    code, out, err = command("check", "wrong", "--plugin", write("needs.py", needs))
    assert (code, out) == (2, "")
    assert "wrong needs no_such_module_xyz, not installed here; run: pip install 'no-such-thing'" in err


def test_check_counts_a_declared_failure_as_none(command, write) -> None:
    declared = WRONG.replace(
        'name = "wrong"', 'name = "wrong"\n    expected_failures = {"scale-equivariant": "the number is in m/s"}'
    )
    code, out, _ = command("check", "wrong", "--plugin", write("wrong.py", declared))
    assert code == 0
    assert "expected  scale-equivariant" in out
    assert "the number is in m/s" in out


def test_check_of_a_dataset_whose_data_is_not_here_does_not_pass(command, write) -> None:
    absent = """
import fieldbench

class Survey(fieldbench.Dataset):
    "A survey that was lost."
    name = "survey"
    default_rates = RATES
    def prepare(self):
        raise fieldbench.DataUnavailable("put survey.npy here")
    def draw(self, rng):
        return fieldbench.Field([[1.0, 2.0]], quantity="depth")

@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Survey]
"""
    code, out, _ = command("check", "survey", "--plugin", write("survey.py", absent.replace("RATES", "(0.1,)")))
    assert code == 1
    assert "put survey.npy here" in out
    assert out.splitlines()[-1].endswith("no field was drawn, so that this says little")
    written = write("survey.py", absent.replace("RATES", "0.1"))
    code, out, _ = command("check", "survey", "--plugin", written, "--only", "defaults-exist")
    assert code == 1
    assert "reading default_rates of survey: they are 0.1. A right plugin names rates in (0, 1]" in out


def test_check_of_every_kind(command) -> None:
    for kind, name in [("noise", "gaussian"), ("sampler", "fibers"), ("metric", "rmse"), ("dataset", "ssf-synthetic")]:
        code, out, _ = command("check", name, "--kind", kind)
        assert code == 0, out
        assert "failed" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nearst"], "unknown method 'nearst'; did you mean 'nearest'"),
        (["nearest", "--kind", "methods"], "unknown kind 'methods'; did you mean 'method'"),
        (["nearest", "--kind", "modifier"], "unknown kind 'modifier'; there are: dataset, method, metric, noise"),
    ],
)
def test_check_of_nothing(command, arguments: list[str], words: str) -> None:
    code, out, err = command("check", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
