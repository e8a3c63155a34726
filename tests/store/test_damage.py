"""A folder edited by hand, cut by a crash or written by somebody else: what is damaged costs itself alone."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fieldbench.errors import RequestError
from fieldbench.records import FAILED, OK, Cell, Record, Trial, decode, encode
from fieldbench.report.frame import read_frame
from fieldbench.results import Results
from fieldbench.store.manifest import read_manifest
from fieldbench.store.run import read_rows, repair
from fieldbench.store.status import run_status

TRIALS = [
    Trial(Cell(method, "ssf", "random", "none", "final", rate), 7, number, "abc")
    for method in ("tap[epochs=5]", "tnn")
    for rate in (0.1, 0.2)
    for number in range(3)
]
ROWS = [
    Record(
        trial,
        FAILED if trial.number == 2 else OK,
        'it, "fails"' if trial.number == 2 else "",
        {} if trial.number == 2 else {"rmse": 0.5 + trial.number, "nmse": float("inf")},
        0.25,
        diagnostics={"curve": {"step": [1, 2], "rmse": [0.5, 0.25]}},
    ).as_row()
    for trial in TRIALS
]
LINES = [encode(row) for row in ROWS]
MANIFEST = {
    "format": 2,
    "cells": [
        {
            **{name: row[name] for name in ("method", "dataset", "sampler", "noise", "select", "rate")},
            "identity": "abc",
            "trials": {"7": [[0, 3]]},
        }
        for row in ROWS[::3]
    ],
}


def written(folder: Path, lines: list[bytes], manifest: Any = MANIFEST) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "trials.jsonl").write_bytes(b"".join(lines))
    return folder


def replaced(name: str, value: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda row: encode({**row, name: value})


#: What a line may become by hand, by a crash or by another program; none of it is a row of that trial.
MANGLED: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "not UTF-8": lambda row: encode(row).replace(b"ssf", b"s\xff\xfe"),
    "not UTF-8 in what few read": lambda row: encode(row).replace(b"curve", b"\xc3\x28rve"),
    "zeros": lambda row: b"\0" * 200 + b"\n",
    "cut short": lambda row: encode(row)[:60] + b"\n",
    "cut in its diagnostics": lambda row: encode(row)[:-10] + b"\n",
    "two rows in one line": lambda row: encode(row)[:-1] + b"," + encode(row),
    "half a row and the next": lambda row: encode(row)[:80] + encode(row),
    "a list": lambda row: b"[1, 2]\n",
    "a text": lambda row: b'"row"\n',
    "an empty object": lambda row: b"{}\n",
    "no key": lambda row: encode({name: value for name, value in row.items() if name != "key"}),
    "no method": lambda row: encode({name: value for name, value in row.items() if name != "method"}),
    "a path for a key": replaced("key", "/etc/passwd"),
    "the key of another trial": replaced("key", "0" * 24),
    "another method under the same key": replaced("method", "tapp"),
    "a method that is a list": replaced("method", ["tap"]),
    "status null": replaced("status", None),
    "an unknown status": replaced("status", "fine"),
    "rate NaN": replaced("rate", float("nan")),
    "rate above 1": replaced("rate", 10),
    "rate as text": replaced("rate", "0.1"),
    "trial 1e40": replaced("trial", 1e40),
    "a trial beyond 64 bits": replaced("trial", 10**30),
    "trial true": replaced("trial", True),
    "a negative trial": replaced("trial", -1),
    "seed as text": replaced("seed", "7"),
    "seed null": replaced("seed", None),
    "metrics a list": replaced("metrics", [1.0]),
    "a metric as text": replaced("metrics", {"rmse": "0.5"}),
    "a metric null": replaced("metrics", {"rmse": None}),
    "a metric true": replaced("metrics", {"rmse": True}),
    "a metric with another's name": replaced("metrics", {"seed": 1.0}),
    "seconds as text": replaced("seconds", "fast"),
    "negative seconds": replaced("seconds", -1.0),
    "infinite seconds": replaced("seconds", float("inf")),
    "memory as a list": replaced("peak_memory", [1]),
    "device null": replaced("device", None),
    "error a number": replaced("error", 3),
    "identity null": replaced("identity", None),
    "slots as text": replaced("slots", "two"),
    "timed otherwise": replaced("timed", "well"),
}


def keys(folder: Path) -> set[str]:
    return {row["key"] for row in read_rows(folder)}


def everywhere(folder: Path) -> list[set[str]]:
    """The trials that each reader takes for done."""
    return [keys(folder), set(read_frame(folder)["key"]), {row["key"] for row in read_rows(folder, diagnostics=False)}]


@pytest.mark.parametrize("way", MANGLED)
@pytest.mark.parametrize("index", [0, 4, len(ROWS) - 1])
def test_a_damaged_line_costs_its_own_trial_with_every_reader(tmp_path: Path, way: str, index: int) -> None:
    lines = [*LINES[:index], MANGLED[way](ROWS[index]), *LINES[index + 1 :]]
    folder = written(tmp_path / "run", lines)
    expected = {row["key"] for row in ROWS} - {ROWS[index]["key"]}
    assert everywhere(folder) == [expected] * 3
    status = run_status(folder)
    assert (status.done, status.planned) == (len(ROWS) - 1, len(ROWS))
    assert f"line {index + 1} is damaged" in status.damage
    str(Results(folder).table())


@pytest.mark.parametrize(
    "read", [lambda run: list(read_rows(run)), read_frame, run_status], ids=["rows", "frame", "status"]
)
def test_every_reader_says_the_same_of_damage(
    tmp_path: Path, read: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    lines = [LINES[0], b"rubbish\n", LINES[2], b"\xff\n", *LINES[4:]]
    folder = written(tmp_path / "run", lines)
    read(folder)
    (said,) = caplog.messages
    assert said == (
        f"{folder / 'trials.jsonl'}: 2 lines are damaged (2, 4) and count for nothing; "
        "the same run computes their trials again"
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_becomes_of_a_line_costs_that_line_alone(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of one line are changed, cut out or put in, but no newline, which would make it two lines."""
    index = data.draw(st.integers(0, len(LINES) - 1))
    body = LINES[index][:-1]
    start = data.draw(st.integers(0, len(body)))
    stop = data.draw(st.integers(start, min(len(body), start + 40)))
    new = data.draw(st.binary(max_size=30).map(lambda text: text.replace(b"\n", b" ")))
    mangled = body[:start] + new + body[stop:] + b"\n"
    folder = written(tmp_path / "run", [*LINES[:index], mangled, *LINES[index + 1 :]])
    others = {row["key"] for row in ROWS} - {ROWS[index]["key"]}
    try:
        intact = decode(mangled)["key"] == ROWS[index]["key"]
    except ValueError:
        intact = False
    assert everywhere(folder) == [others | ({ROWS[index]["key"]} if intact else set())] * 3
    status = run_status(folder)
    assert status.done == len(others) + intact
    assert (status.damage == "") == (intact or not mangled.strip())


def test_an_unfinished_last_line_is_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = written(tmp_path / "run", [*LINES[:3], LINES[3][:-1]])
    assert everywhere(folder) == [{row["key"] for row in ROWS[:3]}] * 3
    assert (run_status(folder).damage, caplog.messages) == ("", [])


def test_lines_as_editors_leave_them_are_rows(tmp_path: Path) -> None:
    lines = [line.replace(b"\n", b"\r\n") + b"\n" for line in LINES]
    assert everywhere(written(tmp_path / "run", lines)) == [{row["key"] for row in ROWS}] * 3


def test_what_a_newer_version_adds_is_no_damage(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", [encode({**row, "crps": {"mean": 1}}) for row in ROWS])
    assert everywhere(folder) == [{row["key"] for row in ROWS}] * 3


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"null", b"[]", b"{}", b"\xff", b'"run"', b'{"format": 2}', b'{"format": "two", "cells": []}',
        b'{"format": 2, "cells": {}}', b'{"format": 2, "cells": [1]}', b'{"format": 2, "cells": [{"method": "tap"}]}',
        b'{"format": 2, "cells": [], "sessions": "none"}', b'{"format": 2, "cells": [], "sessions": [3]}',
        b'{"format": 2, "cells": [], "sessions": [{"started": 5}]}', b'{"format": 2, "cells": [], "metadata": []}',
        b'{"format": 1, "plans": [{"identity": "i"}]}', b'{"format": 1, "plans": [{"request": {}, "cells": [[1]]}]}',
        b'{"format": 1, "plans": "none"}', b'{"format": 2, "cells": [], "sessions": [{"slots": {"cpu": "many"}}]}',
        json.dumps({**MANIFEST, "cells": [{**MANIFEST["cells"][0], "rate": 7}]}).encode(),
        json.dumps({**MANIFEST, "cells": [{**MANIFEST["cells"][0], "trials": {"x": [[0, 3]]}}]}).encode(),
        json.dumps({**MANIFEST, "cells": [{**MANIFEST["cells"][0], "trials": {"7": [[0, -3]]}}]}).encode(),
    ],
)  # fmt: skip
def test_a_damaged_manifest_is_one_line_with_a_way_out(tmp_path: Path, content: bytes) -> None:
    folder = written(tmp_path / "run", LINES)
    (folder / "manifest.json").write_bytes(content)
    for read in (lambda: list(read_rows(folder)), lambda: run_status(folder), lambda: read_frame(folder)):
        with pytest.raises(RequestError) as raised:
            read()
        assert "\n" not in str(raised.value)
        assert f"`fieldbench repair {folder}`" in str(raised.value)
    assert repair(folder) == (4, len(ROWS))
    assert (folder / "manifest.json.damaged").read_bytes() == content
    assert everywhere(folder) == [{row["key"] for row in ROWS}] * 3
    assert (run_status(folder).done, run_status(folder).planned) == (len(ROWS), len(ROWS))


@pytest.mark.parametrize("metadata", [{"units": 3}, {"order": 5}, {"headline": []}, {"parameters": {"tap": 1}}])
def test_facts_that_are_none_are_one_line(tmp_path: Path, metadata: dict[str, Any]) -> None:
    folder = written(tmp_path / "run", LINES, {**MANIFEST, "metadata": metadata})
    with pytest.raises(RequestError, match=r"metadata in manifest\.json are damaged") as raised:
        Results(folder)
    assert "\n" not in str(raised.value)


def test_a_manifest_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", LINES)
    (folder / "manifest.json").unlink()
    with pytest.raises(RequestError, match=r"has no manifest\.json; `fieldbench repair"):
        run_status(folder)
    assert repair(folder) == (4, len(ROWS))
    assert run_status(folder).done == len(ROWS)


def test_only_a_damaged_manifest_is_repaired(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", LINES)
    with pytest.raises(RequestError, match="is sound"):
        repair(folder)
    with pytest.raises(RequestError, match=r"holds no trials\.jsonl"):
        repair(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["trials.jsonl", "manifest.json"])
def test_a_folder_or_pipe_in_place_of_a_file_is_one_line(tmp_path: Path, name: str) -> None:
    for number, make in enumerate((os.mkdir, os.mkfifo)):
        folder = written(tmp_path / f"run{number}", LINES)
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(RequestError) as raised:
            list(read_rows(folder))
        assert "\n" not in str(raised.value)


def test_a_run_of_version_1_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As fieldbench 0.1.0 wrote it: requests in place of cells, and rows without what says where they ran."""
    newer = ("machine", "slots", "session", "timed")
    lines = [encode({name: value for name, value in row.items() if name not in newer}) for row in ROWS]
    cells = [[row[name] for name in ("method", "dataset", "sampler", "noise", "select", "rate")] for row in ROWS[::3]]
    plans = [
        {"identity": "0123", "request": {"methods": ["tap"], "seed": 7, "trials": trials}, "cells": cells}
        for trials in (2, 3)
    ]
    sessions = [{"host": "old", "slots": {"cpu": 2}, "started": "2026-11-01T10:00:00+0000", "ended": None}]
    facts = {"headline": {"wave": "mae"}, "units": {"wave": "m/s"}}
    folder = written(tmp_path / "run", lines, {"format": 1, "plans": plans, "facts": facts, "sessions": sessions})
    with caplog.at_level(logging.WARNING):
        assert everywhere(folder) == [{row["key"] for row in ROWS}] * 3
    assert caplog.messages == []
    status = run_status(folder)
    assert (status.done, status.planned) == (len(ROWS), len(ROWS))
    assert "on old (2 x cpu); not ended properly" in status.sessions[0]
    assert read_manifest(folder).metadata == facts
    assert [(cell.trials, cell.identity) for cell in read_manifest(folder).cells] == [({7: [(0, 3)]}, "")] * 4


@pytest.mark.parametrize(
    "diagnostics",
    [[1], "none", {"curve": 5}, {"curve": {"step": "x"}}, {"curve": {"step": [1, "two"]}}, {"traceback": 7}],
)
def test_diagnostics_that_cannot_be_used_cost_themselves_alone(tmp_path: Path, diagnostics: Any) -> None:
    folder = written(tmp_path / "run", [encode({**ROWS[0], "diagnostics": diagnostics}), *LINES[1:]])
    assert everywhere(folder) == [{row["key"] for row in ROWS}] * 3
    (first, *_) = read_rows(folder)
    assert (first["diagnostics"], first["metrics"]) == ({}, ROWS[0]["metrics"])
