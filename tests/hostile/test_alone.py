"""Requests with one hostile plugin: either one line and code 2 before anything runs, or rows that say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.alone_acts import ACTS
from tests.hostile.commands import LIMITS, Ran, command, scores_of
from tests.hostile.plugins import FAILS, HEADLINE, HONEST, Act

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("act", [pytest.param(act, id=str(act)) for act in ACTS])
def test_it_is_refused_in_one_line_or_fails_alone(tmp_path: Path, reference: Ran, act: Act) -> None:
    plugin, honest = act.write(tmp_path), tmp_path / "honest_plugins.py"
    honest.write_text(HONEST)
    what = {"--methods": ["flat", "nearest"], "--datasets": ["calm"]}
    if act.kind == "Metric":
        plugin.write_text(plugin.read_text() + HEADLINE)
        what["--datasets"] = ["headed", "calm"]
    elif act.kind == "Modifier":
        what["--methods"] = [f"honest+{act.spec}", "flat", "nearest"]
    else:
        option = "--methods" if act.kind == "Method" else "--datasets"
        what[option] = [act.spec, *what[option]]
    texts = [word for option, specs in what.items() for word in (option, ",".join(specs))]
    files = ["--plugin", str(plugin), "--plugin", str(honest)]
    done = command(tmp_path, "run", *texts, *files, *LIMITS, "--jobs", "1", "--trials", "1", "--out", "kept")
    if done.code == 2:
        assert done.rows == []
        done.must_be_refused(act.spec, act.name)
        return
    assert act.kind != "Metric"
    done.must_be_presentable()
    for row in done.rows:
        if act.spec in (row["method"], row["dataset"]) or act.spec in row["method"].split("+"):
            act.judge(row)
        else:
            assert row["status"] == "ok", row["error"]
            assert scores_of(row) == reference.scores(row["trial"], method=row["method"])
    assert {row["method"] for row in done.rows} >= {"flat", "nearest"}
    if act.wants == FAILS:
        assert done.code == 1, done
