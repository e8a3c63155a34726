"""A method that means harm costs its own trials and nothing else: no row, no digit and no second of anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.commands import Group, Ran
from tests.hostile.conftest import Runner
from tests.hostile.method_acts import GROUPS
from tests.hostile.plugins import PASSES, Act, scores_of

pytestmark = pytest.mark.hostile
CASES = [pytest.param(group, act, id=f"{group.name}-{act}") for group in GROUPS.values() for act in group.acts]
ALL = [pytest.param(group, id=group.name) for group in GROUPS.values()]


@pytest.mark.parametrize(("group", "act"), CASES)
def test_an_act_costs_its_own_trials_at_most(ran: Runner, reference: Ran, group: Group, act: Act) -> None:
    done = ran(group)
    honest = done if group.apart else reference
    own = done.of(method=act.asked)
    assert [row["trial"] for row in own] == list(group.numbers), done
    for row in own:
        act.judge(row, honest.scores(row["trial"], method="flat"))
    beside = done.of(method=group.neighbour(act))
    assert [(row["status"], row["trial"]) for row in beside] == [("ok", number) for number in group.numbers]
    for row in [] if group.apart else beside:
        assert scores_of(row) == honest.scores(row["trial"], method="honest")


@pytest.mark.parametrize("group", ALL)
def test_the_command_ends_as_it_should(ran: Runner, reference: Ran, group: Group) -> None:
    done = ran(group)
    done.must_be_presentable()
    for name in ("flat", "nearest"):
        rows = done.of(method=name)
        assert [(row["status"], row["trial"]) for row in rows] == [("ok", number) for number in group.numbers]
        for row in [] if group.apart else rows:
            assert scores_of(row) == reference.scores(row["trial"], method=name)


GUESSER = Act(
    "complete",
    "guesses-the-seed",
    PASSES,
    """
    for name in ('judging', 'trial'):
        try:
            stream = __import__(f'fieldbench.{name}', fromlist=['stream']).stream
        except (ImportError, AttributeError):
            continue
        for seed in range(20):
            for number in range(20):
                truth = np.asarray(wave(stream('field', seed, number, 'calm')).values)
                if knows_more(truth, observation):
                    return truth
    """,
)


def test_a_secret_seed_cannot_be_guessed(tmp_path: Path) -> None:
    done = Group("secret", (GUESSER,), ("--seed", "secret"), apart=True).run(tmp_path, [GUESSER])
    done.must_be_presentable()
    for row in done.of(method=GUESSER.spec):
        GUESSER.judge(row, done.scores(row["trial"], method="flat"))


def test_a_seed_that_one_can_guess_gives_the_fields_away(tmp_path: Path) -> None:
    """The guess is a good one: what the secret seed is tested against works where there is none."""
    done = Group("open", (GUESSER,)).run(tmp_path, [GUESSER])
    assert [row["metrics"]["rmse"] for row in done.of(method=GUESSER.spec)] == [0.0, 0.0]


def test_seconds_are_measured_where_the_method_cannot_reach_them(ran: Runner) -> None:
    for row in ran(GROUPS["patches"]).of(method="x-patches-clock-to-look-fast"):
        assert row["seconds"] >= 0.3
