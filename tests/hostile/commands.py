"""Commands with hostile plugins, each a process of its own with an outer time limit: nothing reaches the tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from tests.hostile.plugins import HONEST, Act, scores_of

#: Seconds after which a command counts as one that never ends, on a machine with much else to do, and those that each
#: act may add.
OUTER_LIMIT, LIMIT_OF_AN_ACT = 200.0, 20.0

#: What every run here is told: where it works and how long a trial may take.
LIMITS = ("--device", "cpu", "--timeout", "3", "--memory-limit", "1GiB")


#: Bytes that a terminal takes for orders; of them only the ends of lines and tabs are printed.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Ran:
    """What a command left behind.

    Attributes:
        folder: where it worked.
        code: its exit code; None if the outer limit ended it.
        out, err: what it printed.
    """

    folder: str
    code: int | None
    out: str
    err: str

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The records of its run, in the folder ``kept``."""
        file = Path(self.folder) / "kept" / "trials.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def of(self, **wanted: str) -> list[dict[str, Any]]:
        """The rows whose texts are so, by trial."""
        found = [row for row in self.rows if all(row[name] == text for name, text in wanted.items())]
        return sorted(found, key=lambda row: row["trial"])

    def must_be_presentable(self) -> None:
        """Assert that the exit code tells of the rows, and that nothing was printed which a user should not see."""
        failed = [row for row in self.rows if row["status"] not in ("ok", "not-applicable")]
        assert self.code == (1 if failed else 0), self
        self.must_be_printable()

    def must_be_printable(self, *, but: bool = False) -> None:
        """Assert that a user may see what was printed: no traceback (``but`` where it was asked for), no orders."""
        assert but or "Traceback" not in self.out + self.err, self
        assert not CONTROLS.search(self.out + self.err), self

    def must_be_refused(self, *names: str) -> None:
        """Assert that the request was refused: code 2 and one line, in which one of the names stands."""
        assert self.code == 2, self
        assert self.out == ""
        self.must_be_printable()
        (complaint,) = self.err.splitlines()
        assert complaint.startswith("fieldbench: ")
        assert any(name in complaint for name in names), complaint

    def scores(self, number: int, **wanted: str) -> dict[str, float]:
        """The scores of the one such row of a trial."""
        (row,) = (row for row in self.of(**wanted) if row["trial"] == number)
        return scores_of(row)


def command(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None, limit: float = OUTER_LIMIT
) -> Ran:
    """``fieldbench ARGUMENTS`` in a folder, ended with all that it started when the outer limit is over."""
    mark = f"HOSTILE_{folder.resolve()}"
    with (
        (folder / "out").open("wb") as out,
        (folder / "err").open("wb") as err,
        # Of its own: some acts delete what they find there.
        tempfile.TemporaryDirectory(prefix="h", ignore_cleanup_errors=True) as temporary,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "fieldbench", *arguments],
            cwd=folder,
            env={
                **os.environ,
                "COLUMNS": "200",
                "FIELDBENCH_TEST_MARK": mark,
                "TMPDIR": temporary,
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    _end_what_is_left(mark)
    texts = [(folder / name).read_bytes().decode(errors="replace") for name in ("out", "err")]
    return Ran(str(folder), code, *texts)


def _end_what_is_left(mark: str) -> None:
    """Acts may leave processes behind on purpose; they carry the mark in their environment."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("FIELDBENCH_TEST_MARK") == mark:
                process.kill()
        except psutil.Error:
            continue


@dataclass(frozen=True)
class Group:
    """Acts that share one command, each followed by a neighbour of its own.

    Attributes:
        name: of the group.
        acts: the acts.
        options: of the command.
        trials: repetitions of each.
        apart: whether its draws are others than those of the reference.
        last: whether the acts come behind all neighbours, which otherwise come one by one behind each act.
    """

    name: str
    acts: tuple[Act, ...] = field(repr=False)
    options: tuple[str, ...] = ()
    trials: int = 2
    apart: bool = False
    last: bool = False

    @property
    def numbers(self) -> range:
        """The numbers of the repetitions."""
        first = int(self.options[self.options.index("--first-trial") + 1]) if "--first-trial" in self.options else 0
        return range(first, first + self.trials)

    def neighbour(self, act: Act) -> str:
        """The spec of the honest method that runs beside an act."""
        return f"honest[which={self.acts.index(act) + 1}]"

    def run(self, folder: Path, acts: Sequence[Act]) -> Ran:
        """Run those of the acts that are wanted."""
        honest = folder / "honest_plugins.py"
        honest.write_text(HONEST)
        plugins = [honest, *(act.write(folder) for act in acts)]
        what = {"Dataset": "--datasets", "Sampler": "--samplers", "Noise": "--noise"}
        what |= {"Method": "--methods", "Refit": "--methods"}
        chosen = {"--methods": [], "--datasets": ["calm"], "--samplers": ["random"], "--noise": ["none"]}
        neighbours = [self.neighbour(act) for act in acts]
        for act in acts:
            if act.kind in what:
                chosen[what[act.kind]].append(act.asked)
        if chosen["--methods"]:
            pairs = [spec for act in acts for spec in (act.asked, self.neighbour(act))]
            mixed = [*neighbours, *chosen["--methods"]] if self.last else pairs
            chosen["--methods"] = [*mixed, "flat", "nearest"]
        else:
            chosen["--methods"] = ["flat", "nearest"] if self.acts else ["honest", "flat", "nearest"]
            if not self.last:  # what means no harm comes behind
                chosen = {option: [*specs[1:], specs[0]] for option, specs in chosen.items()}
        texts = [word for option, specs in chosen.items() for word in (option, ",".join(specs))]
        files = [word for file in plugins for word in ("--plugin", str(file))]
        options = [*LIMITS, *self.options, "--trials", str(self.trials), "--out", "kept"]
        return command(folder, "run", *texts, *files, *options, limit=OUTER_LIMIT + LIMIT_OF_AN_ACT * len(acts))
