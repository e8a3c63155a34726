"""A search on development trials: what it looks at, what it keeps, how it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fieldbench
from fieldbench import RequestError, judging
from fieldbench.cli.main import main
from fieldbench.execution import Options
from fieldbench.plan import Plan, Request
from fieldbench.records import LARGEST, Trial
from fieldbench.registry import Registry, Sources
from fieldbench.study import development_seed, tune
from tests.methods.test_tuning import Grid, Noted

DATASET = "ssf-synthetic[shape=8x8x6]"


class OfFile(fieldbench.Dataset):
    """The field of a file, the same in every trial."""

    name = "of-file"
    revision = "1"

    file: str = fieldbench.parameter("", "where it is")

    def draw(self, rng):
        return fieldbench.Field(np.load(self.file))


SOURCES = Sources(classes=(Noted, Grid, OfFile))


def search(folder: Path, dataset: str = DATASET, **how):
    how = {"tuner": "grid[budget=4]", "trials": 2, "study": folder / "study.jsonl", **how}
    return tune(
        f"noted[folder={folder}]", dataset, sources=SOURCES, options=Options(device="cpu", jobs=1), **how
    )  # fmt: skip


def fits(folder: Path) -> int:
    return len(list(folder.glob("*.npy")))


def test_the_spec_has_the_point_with_the_least_mean_error(tmp_path) -> None:
    found = search(tmp_path, tuner="grid")
    points = [json.loads(line) for line in (tmp_path / "study.jsonl").read_text().splitlines()[1:]]
    assert len(points) == found.points == 17
    assert fits(tmp_path) == 2 * 17
    best = min(points, key=lambda point: point["error"])
    assert found.error == best["error"] < found.before == points[0]["error"]
    method = Registry(SOURCES).method(found.method)
    assert str(method.level) == best["values"]["level"]
    assert method.folder == str(tmp_path)


def test_more_budget_goes_on_where_the_study_ended(tmp_path) -> None:
    search(tmp_path)
    assert fits(tmp_path) == 8
    assert search(tmp_path, tuner="grid[budget=6]").points == 6
    assert fits(tmp_path) == 12
    again = search(tmp_path, tuner="grid[budget=6]")
    assert fits(tmp_path) == 12
    (tmp_path / "other").mkdir()
    at_once = search(tmp_path / "other", tuner="grid[budget=6]")
    assert (again.values, again.error) == (at_once.values, at_once.error)


def test_an_interruption_says_where_what_was_tried_is_kept(tmp_path, caplog) -> None:
    def stop(values, outcome, least):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, tell=stop)
    assert f"{tmp_path / 'study.jsonl'} has what was tried, and the same command goes on" in caplog.text
    assert search(tmp_path).points == 4
    assert fits(tmp_path) == 8


def test_a_line_that_was_cut_short_costs_its_own_point(tmp_path) -> None:
    expected = search(tmp_path)
    file = tmp_path / "study.jsonl"
    file.write_text(file.read_text()[:-20])
    assert search(tmp_path).error == expected.error
    assert fits(tmp_path) == 8 + 2
    assert search(tmp_path).error == expected.error
    assert fits(tmp_path) == 8 + 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate": 0.3}, r"a study with rate 0\.2, not 0\.3"),
        ({"trials": 3}, "a study with trials 2, not 3"),
        ({"tuner": "grid[budget=4,share=0.4]"}, r"a study with share 0\.2, not 0\.4"),
        ({"seed": 1}, "a study with seed 0, not 1"),
        ({"tuner": "tv"}, "tv: it tunes nothing"),
    ],
)
def test_a_study_of_something_else_is_refused(tmp_path, change, said) -> None:
    search(tmp_path, rate=0.2)
    with pytest.raises(RequestError, match=said):
        search(tmp_path, **{"rate": 0.2, **change})


@pytest.mark.parametrize("text", [b"", b"[1]\n", b"3\n", b"hello\n", b"\xff\xfe\x00"])
def test_what_is_no_study_is_left_alone(tmp_path, text) -> None:
    (tmp_path / "study.jsonl").write_bytes(text)
    with pytest.raises(RequestError, match="is not a study; name another file by --study"):
        search(tmp_path)
    assert (tmp_path / "study.jsonl").read_bytes() == text


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("nearest", r"nearest has nothing for \+grid to choose"),
        ("idw[power=3,neighbours=7]", r"its parameters are given, so that \+grid has nothing to choose"),
        ("idw+conformal", r"a search fits the method alone; leave out \+conformal"),
        ("idw+tuned", r"a search fits the method alone; leave out \+tuned"),
    ],
)
def test_what_cannot_be_tuned_is_said_in_the_words_of_the_request(tmp_path, method, said) -> None:
    with pytest.raises(RequestError, match=said):
        tune(method, DATASET, tuner="grid", study=tmp_path / "study.jsonl", sources=SOURCES)


def test_development_trials_are_none_of_a_run(tmp_path) -> None:
    """A request has seeds of 63 bits; those of development have 128, the first of them set."""
    assert development_seed(0) > LARGEST
    assert development_seed(0) != development_seed(1)
    with pytest.raises(ValueError, match="less than or equal"):
        Request(methods="noted", datasets=DATASET, seed=development_seed(0))


def test_on_one_field_no_entry_counts_that_is_not_observed(tmp_path) -> None:
    file = tmp_path / "field.npy"
    dataset = f"of-file[file={file}]"
    first = np.random.default_rng(0).normal(size=(6, 7, 5))
    np.save(file, first)
    expected = search(tmp_path, dataset, rate=0.2, tuner="grid")
    (cell,) = Plan(Request(methods="noted", datasets=dataset, rates=0.2), Registry(SOURCES)).cells
    draws = [judging.draw(Trial(cell, development_seed(0), number, ""), Registry(SOURCES)) for number in (0, 1)]
    observed = draws[0].mask | draws[1].mask
    assert 0 < observed.sum() < observed.size
    np.save(file, np.where(observed, first, 1e3))
    again = search(tmp_path, dataset, rate=0.2, tuner="grid", study=tmp_path / "again.jsonl")
    assert again.values == expected.values
    # The standard deviation of a changed field rounds otherwise.
    assert (again.error, again.before) == pytest.approx((expected.error, expected.before), rel=1e-12)
    np.save(file, np.where(observed, 2 * first, first))
    other = search(tmp_path, dataset, rate=0.2, tuner="grid", study=tmp_path / "other.jsonl")
    assert other.error > 1.5 * expected.error


def test_where_no_point_can_be_fitted_the_reason_is_said(tmp_path) -> None:
    with pytest.raises(RequestError, match="it works on no such field"):
        search(tmp_path, "gaussian-field[shape=9x9]")


def test_the_command_prints_what_to_paste(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    command = [
        "tune",
        "idw[power=2]",
        "--dataset",
        DATASET,
        "--tuner",
        "tuned[budget=3]",
        "--trials",
        "1",
        "--jobs",
        "1",
    ]
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert len([line for line in printed.splitlines() if line.startswith("neighbours=")]) == 3
    spec = printed.rstrip().rpartition("Use: ")[2].strip("'")
    assert spec.startswith("idw[power=2.0")
    Registry().method(spec)
    assert len(list((tmp_path / "studies").glob("idw-ssf-synthetic-*.jsonl"))) == 1
