"""What draws and scores may fail, too: it costs the trials in hand, with its name, and no number of anything else."""

from __future__ import annotations

import pytest

from tests.hostile.commands import Group, Ran, scores_of
from tests.hostile.conftest import Runner
from tests.hostile.judged_acts import GROUPS, METRIC_GROUPS
from tests.hostile.plugins import FAILS, LATER, Act

pytestmark = pytest.mark.hostile
METHODS = ("flat", "nearest")


def cases(groups: dict[str, Group]) -> list[object]:
    return [pytest.param(group, act, id=f"{group.name}-{act}") for group in groups.values() for act in group.acts]


@pytest.mark.parametrize(("group", "act"), cases(GROUPS))
def test_a_drawing_act_costs_its_own_trials_at_most(ran: Runner, group: Group, act: Act) -> None:
    done = ran(group)
    own = done.of(**{act.kind.lower(): act.spec})
    assert sorted((row["method"], row["trial"]) for row in own) == sorted(
        (name, number) for name in METHODS for number in group.numbers
    ), done
    for row in own:
        act.judge(row)
        assert row["status"] in ("ok", "not-applicable") or act.spec in row["error"], row["error"]
    if act.wants == LATER:
        assert any(row["status"] != "ok" for row in own)


@pytest.mark.parametrize(("group", "act"), cases(METRIC_GROUPS))
def test_a_metric_alone_is_marked_as_failed(ran: Runner, reference: Ran, group: Group, act: Act) -> None:
    done = ran(group)
    assert sorted((row["method"], row["trial"]) for row in done.rows) == sorted(
        (name, number) for name in METHODS for number in group.numbers
    ), done
    for row in done.rows:
        assert row["status"] == "ok", row["error"]
        assert scores_of(row) == reference.scores(row["trial"], method=row["method"])
        missing = row["diagnostics"].get("not_scored", {})
        if act.wants == FAILS:
            assert act.spec in missing
        if act.spec in missing:
            assert missing[act.spec].strip()
            assert not any(name.partition(".")[0] == act.spec for name in row["metrics"])


@pytest.mark.parametrize("group", [pytest.param(one, id=name) for name, one in {**GROUPS, **METRIC_GROUPS}.items()])
def test_the_command_ends_as_it_should(ran: Runner, reference: Ran, group: Group) -> None:
    done = ran(group)
    done.must_be_presentable()
    if not group.apart:
        calm = done.of(dataset="calm", sampler="random", noise="none")
        assert len(calm) == len(METHODS) * group.trials
        for row in calm:
            assert row["status"] == "ok", row["error"]
            assert scores_of(row) == reference.scores(row["trial"], method=row["method"])


def test_there_are_acts_enough() -> None:
    from tests.hostile import alone_acts, loading_acts, method_acts

    tables = (GROUPS, METRIC_GROUPS, method_acts.GROUPS, loading_acts.GROUPS)
    together = {str(act) for groups in tables for group in groups.values() for act in group.acts}
    assert len(together | {str(act) for act in alone_acts.ACTS}) >= 150
