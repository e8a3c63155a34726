"""The process that fits methods: stopped in time, started again, and gone with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from fieldbench.completion.bench import Bench
from fieldbench.execution import Options
from fieldbench.field import Observation
from fieldbench.registry import Registry, Sources

CANDIDATES = str(Path(__file__).with_name("candidates.py"))
OBSERVATION = Observation(np.ones((4, 4)), np.eye(4, dtype=bool))

#: How a program of its own begins: with a bench and an observation.
OPENED = """
import numpy as np, psutil, sys
from fieldbench.completion.bench import Bench
from fieldbench.execution import Options
from fieldbench.field import Observation
from fieldbench.registry import Registry, Sources
opened = Bench(Registry(Sources.from_environment([sys.argv[1]])), Options(device="cpu", jobs=1))
seen = Observation(np.ones((4, 4)), np.eye(4, dtype=bool))
"""


def bench() -> Bench:
    return Bench(Registry(Sources.from_environment([CANDIDATES])), Options(device="cpu", jobs=1))


def methods_processes() -> set[psutil.Process]:
    """Those that fit; the forkserver, whose children they are, serves all fits of this program."""
    return {child for server in psutil.Process().children() for child in server.children()}


def test_a_process_serves_many_fits_and_ends_with_the_block() -> None:
    with bench() as opened:
        first = opened.fit("zero", OBSERVATION, 0)
        assert first.estimate is not None
        started = methods_processes()
        assert opened.fit("noisy", OBSERVATION, 1).error == ""
        assert opened.fit("zero", OBSERVATION, 2).error == ""
        both = methods_processes()
        assert len(started) == 1
        assert len(both) == 2
        assert started < both
    _, left = psutil.wait_procs(both, timeout=10)
    assert not left


def test_what_has_seen_a_large_field_gives_its_memory_back() -> None:
    mask = np.zeros((600, 600), dtype=bool)
    mask[0] = True
    large = Observation(np.where(mask, 1.0, np.nan), mask)
    with bench() as opened:
        assert opened.fit("zero", large, 0).error == ""
        assert not methods_processes()
        assert opened.unsuited("zero", large) is None
        assert not methods_processes()


def test_an_uncertainty_of_another_shape_is_refused() -> None:
    with bench() as opened:
        fit = opened.fit("odd-uncertainty", OBSERVATION, 0)
        assert fit.error == f"ValueError: its deviation has shape (3,); the field has {OBSERVATION.shape}"


def test_a_modifier_that_only_trials_have_is_refused() -> None:
    with bench() as opened:
        assert "+conformal works in trials only" in (opened.unsuited("zero+conformal", OBSERVATION) or "")


def test_a_fit_that_takes_too_long_is_stopped_and_the_next_one_served() -> None:
    with bench() as opened:
        late = opened.fit("sleeper", OBSERVATION, 0, limit=0.5)
        assert late.late
        assert late.estimate is None
        assert "0 s" in late.error or "1 s" in late.error
        assert opened.fit("zero", OBSERVATION, 0).estimate is not None


def test_any_limit_can_be_waited_for() -> None:
    with bench() as opened:
        for limit in (1e8, float("inf")):
            assert opened.fit("zero", OBSERVATION, 0, limit=limit).estimate is not None


def test_seconds_in_which_the_program_was_stopped_do_not_count() -> None:
    program = (
        f"{OPENED}"
        "opened.fit('zero', seen, 0);"
        "print('begins', flush=True);"
        "print(opened.fit('sleeper', seen, 0, limit=0.5).wall)"
    )
    with subprocess.Popen([sys.executable, "-c", program, CANDIDATES], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        time.sleep(0.5)
        parent.send_signal(signal.SIGSTOP)
        time.sleep(5)
        parent.send_signal(signal.SIGCONT)
        assert 2 <= float(parent.stdout.readline()) < 4.5


def test_a_process_dies_with_its_parent() -> None:
    program = (
        f"{OPENED}"
        "opened.fit('sleeper', seen, 0, limit=0.1);"
        "opened.fit('zero', seen, 0);"
        "print(psutil.Process().children(recursive=True)[-1].pid, flush=True);"
        "opened.fit('sleeper', seen, 0)"
    )
    with subprocess.Popen([sys.executable, "-c", program, CANDIDATES], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
