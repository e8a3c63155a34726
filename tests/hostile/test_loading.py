"""Plugins that cannot be loaded, or only once: one line about each, and everything else goes on."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.hostile.commands import LIMITS, Group, Ran, command, scores_of
from tests.hostile.conftest import Runner
from tests.hostile.loading_acts import BROKEN, GROUPS, ODD
from tests.hostile.plugins import HONEST, Act
from tests.hostile.test_judged import cases

pytestmark = pytest.mark.hostile

HOOK = "@fieldbench.hookimpl\ndef fieldbench_register_methods():\n"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """``fieldbench plugins`` with all that is broken."""
    folder = tmp_path_factory.mktemp("broken")
    files = []
    for name, (source, _) in BROKEN.items():
        files += ["--plugin", str(folder / f"bad-{name}.py")]
        (folder / f"bad-{name}.py").write_text("import fieldbench\n" + textwrap.dedent(source).replace("{hook}", HOOK))
    return command(folder, "plugins", *files, environment={"COLUMNS": "1000"})


@pytest.mark.parametrize("name", BROKEN)
def test_one_line_names_the_plugin_and_what_is_wrong_with_it(told: Ran, name: str) -> None:
    assert told.code == 0, told
    told.must_be_printable()
    (line,) = (line for line in told.out.splitlines() if re.match(rf"\W*bad-{name}\b(?!-)", line))
    assert re.search(BROKEN[name][1], line), line


@pytest.mark.parametrize("name", ["exits", "interrupts", "hook-exits", "hook-interrupts", "text-exits"])
def test_a_run_without_it_goes_on_and_one_with_it_is_refused(tmp_path: Path, reference: Ran, name: str) -> None:
    bad, honest = tmp_path / "bad.py", tmp_path / "honest_plugins.py"
    bad.write_text("import fieldbench\n" + textwrap.dedent(BROKEN[name][0]).replace("{hook}", HOOK))
    honest.write_text(HONEST)
    rest = ["--datasets", "calm", "--plugin", str(bad), "--plugin", str(honest), *LIMITS, "--trials", "1"]
    done = command(tmp_path, "run", "--methods", "flat", *rest, "--out", "kept")
    assert done.code == 0, done
    assert [scores_of(row) for row in done.rows] == [reference.scores(0, method="flat")]
    command(tmp_path, "run", "--methods", "bad,flat", *rest, "--out", "other").must_be_refused("bad")


@pytest.mark.parametrize("name", ODD)
def test_what_a_plugin_changes_where_the_request_is_read_changes_no_digit(
    tmp_path: Path, reference: Ran, name: str
) -> None:
    odd, honest = tmp_path / "odd.py", tmp_path / "honest_plugins.py"
    odd.write_text(f"import fieldbench\n{textwrap.dedent(ODD[name])}\n{HOOK}    return []\n")
    honest.write_text(HONEST)
    what = ["--methods", "honest,flat,nearest", "--datasets", "calm", "--trials", "2", "--out", "kept"]
    done = command(tmp_path, "run", *what, "--plugin", str(odd), "--plugin", str(honest), *LIMITS)
    assert done.code == 0, done
    done.must_be_printable()
    assert len(done.rows) == 6
    for row in done.rows:
        assert scores_of(row) == reference.scores(row["trial"], method=row["method"])


@pytest.mark.parametrize(("group", "act"), cases(GROUPS))
def test_what_fails_to_load_in_another_process_costs_its_own_trials(
    ran: Runner, reference: Ran, group: Group, act: Act
) -> None:
    done = ran(group)
    own = done.of(method=act.spec)
    assert [row["trial"] for row in own] == list(group.numbers), done
    for row in own:
        act.judge(row, reference.scores(row["trial"], method="flat"))
    for row in done.of(method=group.neighbour(act)):
        assert row["status"] == "ok", row["error"]
        assert scores_of(row) == reference.scores(row["trial"], method="honest")


@pytest.mark.parametrize("group", [pytest.param(group, id=name) for name, group in GROUPS.items()])
def test_the_command_ends_as_it_should(ran: Runner, group: Group) -> None:
    ran(group).must_be_presentable()
