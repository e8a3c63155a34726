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


#: Methods whose text is another method's where their process is sought.
TWO_TEXTS = {
    "by-caller": """
        def __str__(self):
            return 'nearest' if 'execution' in sys._getframe(1).f_code.co_filename else 'two-texts'
        """,
    "of-a-class": """
        def __str__(self):
            class Text(str):
                def __hash__(self):
                    return hash('nearest')
                def __eq__(self, other):
                    return other == 'nearest'
            return Text('two-texts')
        """,
}


@pytest.mark.parametrize("name", TWO_TEXTS)
@pytest.mark.parametrize("order", ["two-texts,nearest", "nearest,two-texts"])
def test_a_method_that_calls_itself_like_another_gets_no_process_of_that(
    tmp_path: Path, reference: Ran, name: str, order: str
) -> None:
    text = f"""
import sys
import numpy as np
import fieldbench

class TwoTexts(fieldbench.Method):
    name = 'two-texts'
{textwrap.indent(textwrap.dedent(TWO_TEXTS[name]), "    ")}
    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, 1e3)

{HOOK}    return [TwoTexts]
"""
    (tmp_path / "two.py").write_text(text)
    (tmp_path / "honest_plugins.py").write_text(HONEST)
    what = ["--methods", order, "--datasets", "calm", "--trials", "2", "--out", "kept"]
    done = command(tmp_path, "run", *what, "--plugin", "two.py", "--plugin", "honest_plugins.py", *LIMITS)
    assert [scores_of(row) for row in done.of(method="nearest")] == [
        reference.scores(trial, method="nearest") for trial in (0, 1)
    ]
    assert all(row["metrics"]["rmse"] > 100 for row in done.of(method="two-texts") if row["status"] == "ok")
    assert len(done.of(method="two-texts")) == 2


@pytest.mark.parametrize("where", ["at its import", "later"])
def test_a_module_of_the_same_name_beside_another_plugin_is_not_taken_for_its_own(tmp_path: Path, where: str) -> None:
    files = []
    for name, value in (("one", 1), ("two", 2)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "helpers.py").write_text(f"VALUE = {value}.0\n")
        early, late = ("import helpers", "pass") if where == "at its import" else ("", "import helpers")
        (folder / f"{name}.py").write_text(f"""
import sys
from pathlib import Path
import numpy as np
import fieldbench

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))
{early}

class Own(fieldbench.Method):
    name = '{name}'
    def complete(self, observation, *, seed, device, report):
        {late}
        return np.full(observation.shape, helpers.VALUE)

{HOOK}    return [Own]
""")
        files += ["--plugin", str(folder / f"{name}.py")]
    (tmp_path / "honest_plugins.py").write_text(HONEST)
    rest = [*files, "--plugin", str(tmp_path / "honest_plugins.py"), "--datasets", "calm", "--trials", "1", *LIMITS]
    assert command(tmp_path, "run", "--methods", "one", *rest, "--out", "a").code == 0
    command(tmp_path, "run", "--methods", "one,two", *rest, "--out", "b").must_be_refused("give that a name of its own")


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
