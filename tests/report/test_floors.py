"""Floors: computed once a draw, kept beside the records, shown in tables and figures, and a check on leaks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fieldbench
from fieldbench.report.floors import floor_frame, leaks
from fieldbench.report.metadata import RunMetadata
from fieldbench.report.tables import make_table
from fieldbench.results import Results
from fieldbench.store.files import FLOORS
from fieldbench.store.floors import Floor, read_floors, write_floors
from fieldbench.store.merge import merge
from tests.command import command
from tests.report.test_tables import frame, only, trials

FIELDS = "gaussian-field[shape=6x6]"
METADATA = RunMetadata(headline={"ssf": "rmse"})


def floor_of(trial: int, score: float, rate: float = 0.1) -> Floor:
    return Floor("ssf", "random", "none", rate, 0, trial, "i", {"rmse": score})


def run(out: Path, methods: list[str], trials: int = 2, first: int = 0, data: str = FIELDS) -> Results:
    return fieldbench.run(
        methods, data, rates=[0.3], trials=trials, first_trial=first, out=out, progress=False, jobs=1, device="cpu"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("floors") / "run", ["nearest", "idw"]).path


def test_a_run_keeps_one_floor_a_draw_and_no_row_of_it(folder: Path) -> None:
    floors = read_floors(folder)
    assert [floor.trial for floor in floors.values()] == [0, 1]
    assert {row["method"] for row in map(json.loads, (folder / "trials.jsonl").read_text().splitlines())} == {
        "nearest", "idw",
    }  # fmt: skip


def test_the_last_row_of_a_table_is_the_floor(folder: Path) -> None:
    results = Results(folder)
    text = str(results.table())
    expected = np.mean([floor.metrics["rmse"] for floor in read_floors(folder).values()])
    lines = text.splitlines()
    index = next(number for number, line in enumerate(lines) if line.startswith("floor "))
    assert lines[index].split()[1] == f"{expected:.2f}"
    assert lines[index + 1] == ""
    assert "floor: nobody can do better on average" in text
    for cell in results.table().cells():
        assert cell["floor"] == pytest.approx(expected)
        assert cell["above_floor"] == pytest.approx(100 * (cell["mean"] / expected - 1))
    for format in ("markdown", "latex", "html"):
        assert "floor" in results.table().to(format)
    beside = [cell.get("floor") for cell in results.table(metric=["rmse", "mae"]).cells()]
    assert beside == [pytest.approx(expected), pytest.approx(expected), None, None]


def test_a_larger_run_computes_new_floors_alone(tmp_path: Path) -> None:
    before = read_floors(run(tmp_path / "run", ["nearest"]).path)
    marked = [Floor(**{**vars(floor), "metrics": {"rmse": 9.0}}) for floor in before.values()]
    write_floors(tmp_path / "run", marked)
    after = read_floors(run(tmp_path / "run", ["nearest", "idw"], trials=3).path)
    assert [floor.metrics["rmse"] == 9.0 for floor in after.values()] == [True, True, False]


def test_damage_costs_one_floor(folder: Path, tmp_path: Path) -> None:
    lines = (folder / FLOORS).read_text().splitlines()
    (tmp_path / FLOORS).write_text(f'{lines[0]}\n{{"dataset": 3}}\n{lines[1][:20]}\n')
    assert [floor.trial for floor in read_floors(tmp_path).values()] == [0]


def test_merged_runs_have_the_floors_of_both(folder: Path, tmp_path: Path) -> None:
    other = run(tmp_path / "other", ["nearest", "idw"], trials=1, first=2).path
    merge([folder, other], tmp_path / "both")
    assert [floor.trial for floor in read_floors(tmp_path / "both").values()] == [0, 1, 2]


def test_a_measured_field_has_no_floor(tmp_path: Path) -> None:
    results = run(tmp_path / "run", ["nearest"], data="ssf-synthetic[shape=4x4x4]")
    assert not (tmp_path / "run" / FLOORS).exists()
    assert "floor" not in str(results.table())


def test_a_floor_that_lacks_a_draw_is_not_shown() -> None:
    records = frame(*trials([0.4, 0.6]))
    half = floor_frame([floor_of(0, 0.3)])
    assert make_table(records, METADATA, floors=half).blocks[0].floor == {}
    whole = floor_frame([floor_of(0, 0.3), floor_of(1, 0.2)])
    table = make_table(records, METADATA, floors=whole)
    assert only(table)["above_floor"] == pytest.approx(100.0)


def test_who_is_below_the_floor_beyond_chance_has_seen_the_truth() -> None:
    rng = np.random.default_rng(0)
    floors = rng.uniform(0.3, 0.4, 10)
    rows = [
        *trials(list(floors * rng.normal(1.0, 0.02, 10)), method="at-the-floor"),
        *trials(list(floors * rng.normal(0.9, 0.02, 10)), method="leaky"),
        *trials(list(floors * 0.5), method="chosen", select="oracle"),
        *trials(list(floors * 1.2), method="honest"),
    ]
    found = leaks(frame(*rows), METADATA, floor_frame(map(floor_of, range(10), floors)))
    assert len(found) == 1
    assert found[0].startswith("leak: leaky is ")


def test_chance_alone_is_no_leak() -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        rows = [row for name in "abc" for row in trials(list(rng.normal(1.0, 0.1, 6)), method=name)]
        alarms += bool(leaks(frame(*rows), METADATA, floor_frame(floor_of(number, 1.0) for number in range(6))))
    assert alarms <= 3  # 0.3 are expected


def test_no_floors_no_leaks() -> None:
    assert leaks(frame(*trials([0.1, 0.1])), METADATA, floor_frame([])) == []


def test_figures_hatch_what_is_below_the_floor(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    several = fieldbench.run(
        ["nearest"], FIELDS, rates=[0.3, 0.6], trials=2, out=tmp_path / "run", progress=False, jobs=1, device="cpu"
    )
    for kind, axis in (("rate", 1), ("strips", 0)):  # scores go up, and to the right
        figure = next(iter(several.plot(kind).values()))
        (hatched,) = [item for item in figure.axes[0].collections if item.get_hatch()]
        highest = hatched.get_paths()[0].vertices[:, axis].max()
        assert highest == pytest.approx(only(several.table(), rate=0.3)["floor"])


SUITE = """
title = "Known and unknown"
source = "fieldbench"
metric = "rmse"
trials = 2

[[columns]]
label = "known"
dataset = "gaussian-field[shape=6x6]"
rate = 0.3

[[columns]]
label = "unknown"
dataset = "ssf-synthetic[shape=6x6x6]"
rate = 0.3

[[rows]]
label = "Nearest"
method = "nearest"
"""


def test_a_suite_ends_with_the_floors_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(SUITE)
    suite, out = tmp_path / "suite.toml", tmp_path / "run"
    text = command("run", suite, "--device", "cpu", "--jobs", "1", "--out", out).shown
    (line,) = (line for line in text.splitlines() if line.split()[:1] == ["floor"])
    floors = [json.loads(line) for line in (tmp_path / "run" / "floors.jsonl").read_text().splitlines()]
    known = [floor["metrics"]["rmse"] for floor in floors if floor["metrics"]]
    assert len(known) == 2
    assert float(line.split()[1]) == pytest.approx(np.mean(known), abs=1e-3)
    assert len(line.split()) == 2, "a dataset without a floor has none"
    assert "floor: nobody can do better on average" in text


LEAKY = '''
"""A dataset with a floor."""
import numpy as np
import fieldbench

class Low(fieldbench.Dataset):
    """A slope."""

    name = "low"

    def draw(self, rng):
        return fieldbench.Field(np.arange(20.0).reshape(4, 5) + rng.normal(), quantity="slope")

    def floor(self, field, observation):
        return FLOOR

@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Low]
'''


@pytest.mark.parametrize(
    ("floor", "code", "said"),
    [
        ("fieldbench.Estimate(field.values + 100)", 1, "leak: nearest is"),
        ("'nothing'", 0, "floor of low"),
        ("1 / 0", 0, "floor of low"),
    ],
    ids=["a leak fails the run", "a floor that is none costs nothing else", "nor does one that raises"],
)
def test_floors_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, floor: str, code: int, said: str
) -> None:
    (tmp_path / "low.py").write_text(LEAKY.replace("FLOOR", floor))
    monkeypatch.chdir(tmp_path)
    asked = ["--plugin", "low.py", "--methods", "nearest", "--datasets", "low", "--rates", "0.5"]
    done = command("run", *asked)
    assert done.code == code
    assert said in done.err


def test_floors_of_an_empty_run_are_an_empty_frame() -> None:
    assert isinstance(floor_frame([]), pd.DataFrame)
    assert floor_frame([]).empty
