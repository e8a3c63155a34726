"""A run that grows: what is there counts, only the rest is computed, and identities are never mixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldbench.execution import Options
from fieldbench.plan import Request
from fieldbench.progress import Progress
from fieldbench.records import Record
from fieldbench.registry import Sources
from fieldbench.report.frame import read_frame
from fieldbench.results import Results
from fieldbench.session import Listener, Session
from fieldbench.store.manifest import read_manifest
from fieldbench.store.run import read_rows
from fieldbench.store.status import run_status

PLUGIN = '''
import numpy as np, fieldbench
from fieldbench.field import Field, grid_axes
class Wave(fieldbench.Dataset):
    """A plane wave of random phase."""
    name = "wave"
    default_rates = (0.3,)
    length: float = fieldbench.parameter(6.0, "wavelength")
    def draw(self, rng):
        values = np.sin(np.arange(6)[:, None] + np.arange(5) + self.length * rng.random())
        return Field(values, grid_axes(values.shape))
class Level(fieldbench.Method):
    """The mean of what is observed, plus some of its own randomness."""
    name = "NAME"
    def complete(self, observation, *, seed, device, report):
        return observation.observed.mean() + SHIFT + 0.1 * np.random.default_rng(seed).normal(size=observation.shape)
@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Level]
'''
DATASET = """
@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Wave]
"""
METHODS = ["one", "two", "three", "four"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A plugin file for each method; the first one brings the dataset."""
    (tmp_path / "plugins").mkdir()
    return {name: written(tmp_path / "plugins" / f"{name}.py", name) for name in METHODS}


def written(file: Path, name: str, shift: float = 0.0) -> Path:
    text = PLUGIN.replace("NAME", name).replace("SHIFT", repr(shift))
    file.write_text(text + (DATASET if name == "one" else ""))
    return file


class Notes(Listener):
    """What was said and computed."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.computed: list[str] = []

    def update(self, progress: Progress, record: Record) -> None:
        self.computed.append(record.trial.key)

    def say(self, text: str) -> None:
        self.said.append(text)


def run(out: Path, files: dict[str, Path], methods: list[str] = METHODS, reuse: Any = (), **asked: Any) -> Notes:
    sources = Sources(files=tuple(map(str, files.values())))
    request = Request(methods=methods, datasets=asked.pop("datasets", "wave"), **asked)
    notes = Notes()
    session = Session(request, sources=sources, options=Options(device="cpu", jobs=1), out=out, reuse=reuse)
    session.run(watch=notes)
    return notes


def scores(out: Path) -> dict[str, tuple[str, dict[str, float]]]:
    return {row["key"]: (row["status"], row["metrics"]) for row in read_rows(out)}


def test_three_commands_compute_each_trial_once_and_give_the_digits_of_one(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    grown, once = tmp_path / "grown", tmp_path / "once"
    parts = [
        run(grown, files, ["one", "two"], rates=[0.3], trials=2),
        run(grown, files, ["one", "two", "three"], rates=[0.3, 0.5], trials=2),
        run(grown, files, METHODS, rates=[0.2, 0.3, 0.5], trials=2),
    ]
    assert [len(part.computed) for part in parts] == [4, 8, 12]
    computed = [key for part in parts for key in part.computed]
    assert len(set(computed)) == len(computed)
    assert parts[1].said == [f"{grown} has 4 of these 12 trials; 8 are computed now"]
    assert parts[2].said == [f"{grown} has 12 of these 24 trials; 12 are computed now"]
    at_once = run(once, files, METHODS, rates=[0.2, 0.3, 0.5], trials=2)
    assert set(at_once.computed) == set(computed)
    assert scores(grown) == scores(once)
    assert Results(grown).table().to("csv") == Results(once).table().to("csv")
    assert run_status(grown).planned == run_status(grown).done == 24


@pytest.mark.parametrize(
    "change",
    [
        {"methods": ["two", "one"]}, {"rates": [0.5, 0.3]}, {"datasets": ["wave[length=3]", "wave"]},
        {"noises": ["gaussian", "none"]}, {"select": ["oracle", "final"]},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_the_same_in_another_order_is_the_same_run(
    tmp_path: Path, files: dict[str, Path], change: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"methods": ["one", "two"], "trials": 1, **change}
    first = {**asked, **{name: list(reversed(value)) for name, value in change.items()}}
    there, back = tmp_path / "there", tmp_path / "back"
    assert run(there, files, **first).computed
    assert run(there, files, **asked).computed == []
    run(back, files, **asked)
    assert scores(there) == scores(back)


@pytest.mark.parametrize(
    ("change", "new"),
    [
        ({"trials": 3}, 2), ({"first_trial": 2}, 4), ({"seed": 1}, 4), ({"rates": [0.3, 0.5]}, 4),
        ({"datasets": ["wave", "wave[length=3]"]}, 4), ({"noises": ["none", "gaussian"]}, 4),
        ({"select": ["final", "oracle"]}, 4), ({"samplers": ["random", "fibers"]}, 4), ({"methods": ["three"]}, 2),
    ],
    ids=str,
)  # fmt: skip
def test_whatever_is_asked_for_more_extends_the_run(
    tmp_path: Path, files: dict[str, Path], change: dict[str, Any], new: int
) -> None:
    asked: dict[str, Any] = {"methods": ["one", "two"], "trials": 2}
    before = run(tmp_path / "run", files, **asked)
    lines = (tmp_path / "run" / "trials.jsonl").read_bytes()
    more = run(tmp_path / "run", files, **{**asked, **change})
    assert len(more.computed) == new
    assert not set(before.computed) & set(more.computed)
    assert (tmp_path / "run" / "trials.jsonl").read_bytes().startswith(lines)
    assert run_status(tmp_path / "run").planned == run_status(tmp_path / "run").done == 4 + new


def test_what_came_first_stays_first_and_keeps_its_marks(tmp_path: Path, files: dict[str, Path]) -> None:
    out = tmp_path / "run"
    run(out, files, ["two+ensemble[members=2]"], trials=1)
    run(out, files, ["one"], trials=1)
    (block,) = Results(out).table().blocks
    assert [str(head) for head in block.rows] == ["two+ensemble[members=2] ‖", "one"]


def test_an_edited_method_recomputes_only_its_own_trials(tmp_path: Path, files: dict[str, Path]) -> None:
    out = tmp_path / "run"
    run(out, files, trials=3)
    before = scores(out)
    written(files["three"], "three", shift=5.0)
    edited = run(out, files, trials=3)
    assert len(edited.computed) == 3
    (said,) = edited.said
    assert f"{out} has 9 of these 12 trials; 3 are computed now" in said
    assert "3 trials of an earlier version" in said
    after = scores(out)
    kept = {key for key, row in before.items() if row == after.get(key)}
    assert (len(kept), len(after)) == (9, 12)
    # The old rows stay in the file, are counted by nobody, and `status` says so.
    assert len((out / "trials.jsonl").read_text().splitlines()) == 15
    assert len(read_frame(out)) == 12
    assert run_status(out).methods["three"] == {"ok": 3, "superseded": 3, "missing": 0}
    assert run_status(out).done == 12
    (cell,) = [cell for cell in read_manifest(out).cells if cell.method == "three"]
    assert {row["identity"] for row in read_rows(out) if row["method"] == "three"} == {cell.identity}
    # Who takes the edit back has the old rows again.
    written(files["three"], "three")
    assert run(out, files, trials=3).computed == []
    assert scores(out) == before


def test_a_superseded_trial_is_never_in_a_mean_even_where_the_new_one_is_missing(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    out = tmp_path / "run"
    run(out, files, ["one", "two"], trials=3)
    written(files["two"], "two", shift=5.0)
    run(out, files, ["two"], trials=1)
    cells = {cell["method"]: (cell["count"], cell["planned"]) for cell in Results(out).table().cells()}
    assert cells == {"one": (3, 3), "two": (1, 3)}


def test_rows_without_an_identity_never_count_as_finished(tmp_path: Path, files: dict[str, Path]) -> None:
    out = tmp_path / "run"
    run(out, files, ["one"], trials=1)
    (row,) = read_rows(out)
    file = out / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["cells"][0]["identity"] = ""
    file.write_text(json.dumps(manifest))
    from fieldbench.records import encode, trial_of

    unknown = {**row, "identity": ""}
    (out / "trials.jsonl").write_bytes(encode({**unknown, "key": trial_of(unknown).key}))
    assert len(run(out, files, ["one"], trials=1).computed) == 1


def test_reuse_takes_what_others_have_finished(tmp_path: Path, files: dict[str, Path]) -> None:
    here, there, third = tmp_path / "here", tmp_path / "there", tmp_path / "third"
    run(there, files, ["one", "two"], trials=2)
    run(third, files, ["two", "three"], trials=3)
    (there / "fields").mkdir()
    kept = next(row["key"] for row in read_rows(there) if row["method"] == "one")
    (there / "fields" / f"{kept}.npz").write_bytes(b"fields")
    taken = run(here, files, ["one", "two", "three"], trials=3, reuse=[there, third])
    assert len(taken.computed) == 1  # the third trial of "one"
    assert "8 trials were taken from other runs" in taken.said[0]
    once = tmp_path / "once"
    run(once, files, ["one", "two", "three"], trials=3)
    assert scores(here) == scores(once)
    assert (here / "fields" / f"{kept}.npz").read_bytes() == b"fields"
    sessions = {session.id for session in read_manifest(here).sessions}
    assert {row["session"] for row in read_rows(here)} <= sessions
    assert len(sessions) == 3


def test_reuse_leaves_failures_and_other_identities(tmp_path: Path, files: dict[str, Path]) -> None:
    there = tmp_path / "there"
    run(there, files, ["one", "two"], trials=2)
    file = there / "trials.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    failed = next(row for row in lines if row["method"] == "one")
    failed.update(status="failed", error="it broke", metrics={})
    file.write_text("".join(json.dumps(row) + "\n" for row in lines))
    written(files["two"], "two", shift=5.0)
    taken = run(tmp_path / "here", files, ["one", "two"], trials=2, reuse=[there])
    assert len(taken.computed) == 3


def test_rows_say_where_and_how_they_were_computed(tmp_path: Path, files: dict[str, Path]) -> None:
    run(tmp_path / "run", files, ["one"], trials=1)
    run(tmp_path / "run", files, ["one"], trials=2)
    sessions = [session.id for session in read_manifest(tmp_path / "run").sessions]
    assert [row["session"] for row in read_rows(tmp_path / "run")] == sessions
    assert len(set(sessions)) == 2
