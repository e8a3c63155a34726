"""``fieldbench run``: what it prints, keeps, continues and exits with."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fieldbench.execution import Stop
from fieldbench.store.run import RunStore

TOYS = Path(__file__).parents[1] / "toys.py"


def rows(folder: str | Path = "kept") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "trials.jsonl").read_text().splitlines()]


def scores(folder: str | Path = "kept") -> dict[str, Any]:
    return {row["key"]: (row["status"], row["metrics"]) for row in rows(folder)}


def test_a_run_prints_its_table_and_where_it_is(fieldbench) -> None:
    outcome = fieldbench("run", "--methods", "mean,walk", "--datasets", "wave", "--device", "cpu", "--jobs", "1")
    assert outcome.code == 0
    assert "wave: rmse (m/s)" in outcome.out
    assert re.search(r"^mean +0\.\d+ ± 0\.\d+$", outcome.out, re.MULTILINE)
    (folder,) = Path("runs").iterdir()
    assert re.fullmatch(r"mean-walk-wave-[0-9a-f]{8}", folder.name)
    assert f"fieldbench table {folder}" in outcome.out
    assert "6 of 6 trials" in outcome.err
    assert "\x1b" not in outcome.out + outcome.err


def test_the_same_command_again_runs_nothing_and_prints_the_same(run) -> None:
    first = run("mean")
    before = Path("kept/trials.jsonl").read_bytes()
    second = run("mean")
    assert second.code == 0
    assert second.out == first.out
    assert Path("kept/trials.jsonl").read_bytes() == before


def test_the_largest_seed_and_trial_number_are_tabled(run) -> None:
    outcome = run("mean", "--trials", "1", "--seed", str(2**63 - 1), "--first-trial", str(2**62))
    assert outcome.code == 0
    assert [(row["seed"], row["trial"]) for row in rows()] == [(2**63 - 1, 2**62)]
    assert re.search(r"^mean +0\.\d+$", outcome.out, re.MULTILINE)


SUITE = """
title = "Mine"
metric = "closeness"
trials = 2
[[columns]]
label = "a"
dataset = "wave"
rate = 0.3
[[rows]]
label = "Mean"
method = "mean"
published = [0.1]
[[rows]]
label = "Far"
method = "mean[shift=1e200]"
"""

CLOSENESS = """
import fieldbench

class Closeness(fieldbench.Metric):
    \"""One over one plus the largest error.\"""
    name = "closeness"
    lower_is_better = False
    def score(self, estimate, truth, where, mask):
        return 1 / (1 + abs(estimate.mean - truth.values)[where].max())

@fieldbench.hookimpl
def fieldbench_register_metrics():
    return [Closeness]
"""


def test_a_suite_knows_the_direction_of_its_metric(fieldbench) -> None:
    Path("own.toml").write_text(SUITE)
    Path("closeness.py").write_text(CLOSENESS)
    outcome = fieldbench("run", "own.toml", "--plugin", "closeness.py", "--device", "cpu", "--jobs", "1")
    assert outcome.code == 0
    # No wave is further than 2 from a mean of it, so the mean scores above 1/3, far better than what is published.
    assert "or better: 1 of 1 final" in outcome.out


@pytest.mark.parametrize("command", ["run", "reproduce"])
def test_a_method_that_diverges_leaves_a_table(fieldbench, command: str) -> None:
    Path("own.toml").write_text(SUITE.replace("closeness", "rmse"))
    outcome = fieldbench(command, "own.toml", "--device", "cpu", "--jobs", "1")
    assert outcome.code == 0
    assert re.search(r"^Far +ours +inf$", outcome.out, re.MULTILINE)


def test_failures_are_rows_counted_and_exit_with_1(run) -> None:
    outcome = run("mean,flaky", "--trials", "8")
    by_method: dict[str, list[str]] = {}
    for row in rows():
        by_method.setdefault(row["method"], []).append(row["status"])
    failed = by_method["flaky"].count("failed")
    assert 0 < failed < 8, "the toy must fail on some trials and not on all"
    assert by_method["mean"] == ["ok"] * 8
    assert outcome.code == 1
    assert f"{failed} of 16 trials failed" in outcome.err
    assert outcome.err.count("a negative value came first") == 1
    assert re.search(rf"^flaky .*\({8 - failed}/8\)", outcome.out, re.MULTILINE)
    assert f"{failed} failed" in outcome.out


def test_failed_trials_are_run_again_when_asked(run) -> None:
    run("flaky", "--trials", "8")
    ran = len(rows())
    failed = sum(row["status"] == "failed" for row in rows())
    assert run("flaky", "--trials", "8").code == 1
    assert len(rows()) == ran
    assert run("flaky", "--trials", "8", "--retry-failed").code == 1
    assert len(rows()) == ran + failed


def test_a_method_that_does_not_apply_is_no_failure(run) -> None:
    outcome = run("mean,cubic", "--trials", "1")
    assert outcome.code == 0
    assert re.search(r"^cubic +n/a$", outcome.out, re.MULTILINE)
    reasons = {row["error"] for row in rows() if row["method"] == "cubic"}
    assert reasons == {"cubic works on 3-D fields; this one is 2-D"}


def test_dry_run_tells_the_plan_and_does_nothing(run) -> None:
    outcome = run("mean,walk", "--rates", "0.2,0.5", "--select", "final,oracle", "--trials", "2", "--dry-run")
    assert outcome.code == 0
    assert "trials    16 = 8 cells x 2" in outcome.out
    assert "done      0" in outcome.out
    assert "16 trials, unknown until some have run" in outcome.out
    assert "slots     1 x cpu" in outcome.out
    assert not Path("kept").exists()


def test_dry_run_knows_what_is_done_and_how_long_the_rest_takes(run) -> None:
    run("mean[nap=0.2]", "--trials", "2")
    outcome = run("mean[nap=0.2]", "--trials", "102", "--dry-run")
    assert "done      2" in outcome.out
    seconds = int(re.search(r"to go     100 trials, (\d+) s", outcome.out)[1])
    assert 20 <= seconds <= 40  # a hundred naps of 0.2 s
    assert len(rows()) == 2


def test_set_makes_a_grid(run) -> None:
    assert run("mean,walk", "--set", "mean.shift=0.5,1.5", "--trials", "1").code == 0
    assert {row["method"] for row in rows()} == {"mean[shift=0.5]", "mean[shift=1.5]", "walk"}


def test_several_values_of_everything_multiply(run) -> None:
    noise, samplers = "none,gaussian[sigma=0.3]", "random,fibers"
    assert run("mean", "--rates", "0.2,0.5", "--noise", noise, "--samplers", samplers).code == 0
    cells = {(row["rate"], row["noise"], row["sampler"]) for row in rows()}
    assert len(cells) == 8
    assert len(rows()) == 24


def test_selection_rules_differ_where_they_should(run) -> None:
    run("walk", "--select", "final,oracle[every=10]", "--trials", "1")
    error = {row["select"]: row["metrics"]["rmse"] for row in rows()}
    steps = {row["select"]: row["diagnostics"].get("selected_step") for row in rows()}
    assert error["oracle[every=10]"] < error["final"]
    assert steps == {"final": None, "oracle[every=10]": 50}


def test_fields_are_kept_when_asked(run) -> None:
    run("mean", "--trials", "2", "--save-fields")
    assert sorted(path.stem for path in Path("kept/fields").iterdir()) == sorted(row["key"] for row in rows())


def test_the_manifest_says_how_the_run_was_made(run) -> None:
    run("mean", "--trials", "1")
    manifest = json.loads(Path("kept/manifest.json").read_text())
    (session,) = manifest["sessions"]
    assert session["outcome"] == "complete"
    assert "--methods" in session["command"]
    assert manifest["metadata"]["headline"] == {"wave": "rmse"}
    assert manifest["metadata"]["units"] == {"wave": "m/s"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from fieldbench.cli.main import main; main()", *arguments]


def test_ctrl_c_finishes_what_runs_and_says_how_to_go_on(tmp_path: Path) -> None:
    environment = {**os.environ, "FIELDBENCH_PLUGINS": str(TOYS)}
    fixed = ["--datasets", "wave", "--device", "cpu", "--jobs", "1", "--trials", "8"]
    arguments = ["run", "--methods", "mean[nap=0.3]", *fixed, "--out", "kept"]
    process = subprocess.Popen(
        command(*arguments), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    trials = tmp_path / "kept" / "trials.jsonl"
    deadline = time.monotonic() + 60
    while not (trials.exists() and trials.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    done = len(trials.read_text().splitlines())
    assert 2 <= done < 8
    assert "finishing what is running" in err
    assert f"Stopped after {done} of 8 trials" in out
    assert f"unfinished: {done} of 8 trials" in out
    again = re.search(r"^Go on with: fieldbench (.*)$", out, re.MULTILINE)[1]
    subprocess.run(command(*shlex.split(again)), cwd=tmp_path, env=environment, check=True, capture_output=True)
    undisturbed = [*arguments[:-1], "other"]
    subprocess.run(command(*undisturbed), cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert scores(tmp_path / "kept") == scores(tmp_path / "other")


def test_the_command_to_go_on_with_does_what_is_left_and_no_more(
    run, fieldbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wish to stop comes when the run has begun and before its first trial."""
    begin, begun = RunStore.begin, []
    with monkeypatch.context() as patch:
        asked = property(lambda stop: bool(begun), lambda stop, value: None)
        patch.setattr(Stop, "asked", asked, raising=False)
        patch.setattr(RunStore, "begin", lambda store, about: begun.append(begin(store, about)))
        outcome = run("flaky", "--trials", "8", "--fresh", "--retry-failed")
    assert outcome.code == 130
    assert rows() == []
    again = shlex.split(re.search(r"^Go on with: fieldbench (.*)$", outcome.out, re.MULTILINE)[1])
    assert "--fresh" not in again
    assert fieldbench(*again).code == 1
    failed = sum(row["status"] == "failed" for row in rows())
    assert len(rows()) == 8
    assert fieldbench(*again).code == 1
    assert len(rows()) == 8 + failed


def all_shown(terminal: int) -> str:
    """What is written to a pseudo-terminal until its other side is closed."""
    shown = b""
    try:
        while piece := os.read(terminal, 65536):
            shown += piece
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(terminal)
    return shown.decode()


def test_a_live_display_on_a_terminal(tmp_path: Path) -> None:
    """In a pseudo-terminal: a bar while it works, then the table with the best in bold."""
    import pty

    environment = {**os.environ, "FIELDBENCH_PLUGINS": str(TOYS), "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    fixed = ["--datasets", "wave", "--device", "cpu", "--jobs", "1"]
    parent, child = pty.openpty()
    process = subprocess.Popen(
        command("run", "--methods", "mean[nap=0.3],walk", *fixed),
        cwd=tmp_path, env=environment, stdin=child, stdout=child, stderr=child,
    )  # fmt: skip
    os.close(child)
    text = all_shown(parent)
    assert process.wait(30) == 0
    assert "of 6 trials" in text
    assert "to go:" in text
    assert re.search(r"\x1b\[1m0\.\d+\x1b\[22m", text), "the best of two methods is bold"


JOB = """
import fcntl, os, signal, subprocess, sys, termios, time
moved, *command = sys.argv[1:]
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def begin():
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.setpgrp()
job = subprocess.Popen(command, preexec_fn=begin)
if moved == "moved":
    os.tcsetpgrp(0, job.pid)
    while not (os.path.exists("kept/trials.jsonl") and os.path.getsize("kept/trials.jsonl")):
        time.sleep(0.02)
    os.tcsetpgrp(0, os.getpgrp())
_, status = os.waitpid(job.pid, os.WUNTRACED)
if os.WIFSTOPPED(status):
    job.kill()
    sys.exit("stopped")
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("moved", ["started", "moved"])
def test_a_run_in_the_background_of_a_terminal_is_not_stopped(tmp_path: Path, moved: str) -> None:
    """As ``fieldbench run ... &``, or Ctrl-Z and ``bg``: the script does what a shell with job control does."""
    import pty

    environment = {**os.environ, "FIELDBENCH_PLUGINS": str(TOYS), "TERM": "xterm-256color"}
    fixed = ["--datasets", "wave", "--device", "cpu", "--jobs", "1", "--trials", "2", "--out", "kept"]
    parent, child = pty.openpty()
    shell = subprocess.Popen(
        [sys.executable, "-c", JOB, moved, *command("run", "--methods", "mean[nap=0.5]", *fixed)],
        cwd=tmp_path, env=environment, stdin=child, stdout=subprocess.DEVNULL, stderr=child, start_new_session=True,
    )  # fmt: skip
    os.close(child)
    shown = all_shown(parent)
    assert shell.wait(30) == 0, shown
    assert len(rows(tmp_path / "kept")) == 2
