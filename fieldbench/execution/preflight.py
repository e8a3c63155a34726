"""A look at the data before a run: what cannot work fails at once, and not in every trial.

The same processes answer that will run the trials. One that is lost over a question dooms the trials of its plugin:
they become rows that say why, and all others are computed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from fieldbench.dataset import Dataset
from fieldbench.errors import RequestError
from fieldbench.execution.pool import Pool
from fieldbench.execution.processes import GivenUp, Lost
from fieldbench.field import Observation
from fieldbench.identity import draw_identity
from fieldbench.judging import Task, keyed_seed
from fieldbench.plan import Plan, Setting
from fieldbench.store.floors import DrawKey, Floor

_LOG = logging.getLogger("fieldbench")


def examine(plan: Plan, pool: Pool) -> dict[str, str]:
    """Make data available and draw an observation of each setting.

    Returns:
        The unit of each dataset's field.

    Raises:
        RequestError: if data is missing or not finite, the plan's metric does not apply, the headline metric fails,
            a rate observes nothing, or a method's parameter contradicts the field's shape.
        KeyboardInterrupt: if a stop was asked for.
    """
    units: dict[str, str] = {}
    with pool.asking:
        try:
            for text in dict.fromkeys(setting.dataset for setting in plan.settings):
                try:
                    units[text] = _examine_dataset(plan, pool, text)
                except Lost as lost:
                    pool.doom("dataset", text, lost)
                    continue
                for setting in plan.settings:
                    if setting.dataset == text:
                        try:
                            _examine_setting(plan, pool, setting)
                        except Lost as lost:
                            pool.doom("setting", setting, lost)
        except GivenUp:  # who asks for an end before anything has run ends the command
            raise KeyboardInterrupt from None
        pool.questions.close()
    return units


def floors(plan: Plan, pool: Pool, known: Mapping[DrawKey, Floor]) -> Iterator[Floor]:
    """The floors of a plan's draws that are not known yet, asked of a judge; no method is near.

    A setting where one fails has none from there on, which is said.

    Args:
        plan, pool: the plan and its processes.
        known: those that were computed before.
    """
    with pool.asking:
        for setting in plan.settings:
            if type(pool.registry.dataset(setting.dataset)).floor is Dataset.floor:
                continue
            try:
                yield from _floors_of(plan, pool, setting, known)
            except GivenUp:
                return
            except (Lost, RequestError) as error:
                _LOG.warning("%s; no floor is shown", error)
        pool.questions.close()


def _examine_dataset(plan: Plan, pool: Pool, text: str) -> str:
    ask, limit = pool.questions.ask_judge, pool.options.timeout
    headline = pool.registry.dataset(text).metric
    wanted = None if plan.metric is None else str(plan.metric)
    known = [("dataset", text), *(("metric", name) for name in (headline, wanted) if name is not None)]
    look = {"ask": "look", "dataset": text, "seed": _seed(plan), "headline": headline, "wanted": wanted}
    try:
        ask({"ask": "prepare", "dataset": text}, f"dataset {text}", limit, known[0])
        said = ask(look, f"dataset {text}", limit, *known, unit=str, applies=bool, trouble=str)
    except Lost as lost:
        if lost.stage == f"metric {headline}":
            raise RequestError(f"{lost.message}; no table can be made of it") from None
        raise
    if not said["applies"]:
        raise RequestError(f"metric {plan.metric} does not apply to {text}; its own is {headline}")
    if said["trouble"]:
        raise RequestError(f"metric {headline}: {said['trouble']}; no table of {text} can be made of it")
    return str(said["unit"])


def _seed(plan: Plan) -> int:
    """Of draws for no trial: a method might write down what it is shown, and know more of the trial's field by that."""
    return keyed_seed(plan.request.seed, "examine")


def _examine_setting(plan: Plan, pool: Pool, setting: Setting) -> None:
    described = f"{setting.sampler} sampling of {setting.dataset} at rate {setting.rate:g}"
    described += "" if setting.noise == "none" else f" with {setting.noise}"
    drawn_by = [("dataset", setting.dataset), ("sampler", setting.sampler), ("noise", setting.noise)]
    cells = [cell for cell in plan.cells if Setting.of(cell) == setting]
    question, limit = {"ask": "draw", "cell": cells[0], "seed": _seed(plan), "numbers": [0]}, pool.options.timeout
    said = pool.questions.ask_judge(question, described, limit, *drawn_by, observation=Observation)
    task = Task(said["observation"], 0, 0)
    for text in dict.fromkeys(cell.method for cell in cells):
        _examine_method(pool, text, setting, task)


def _examine_method(pool: Pool, text: str, setting: Setting, task: Task) -> None:
    question = {"ask": "suits", "tasks": [task]}
    try:
        said = pool.questions.ask_method(text, question, "applicable or check_shape")
    except Lost as lost:
        pool.doom("method", text, lost)
        return
    if said.get("contradiction"):
        raise RequestError(f"{text} on {setting.dataset}: {said['contradiction']}")
    # Any other mistake is the method's own: each of its trials will be a row that says so.


def _floors_of(plan: Plan, pool: Pool, setting: Setting, known: Mapping[DrawKey, Floor]) -> Iterator[Floor]:
    cell, seed = next(cell for cell in plan.cells if setting.of(cell) == setting), plan.request.seed
    identity = draw_identity(pool.registry, cell, pool.fingerprint)
    headline = pool.registry.dataset(setting.dataset).metric
    needed = [("dataset", cell.dataset), ("sampler", cell.sampler), ("noise", cell.noise), ("metric", headline)]
    asked = {"ask": "floor", "cell": cell, "seed": pool.options.secrets.get(seed, seed)}
    doing = f"floor of {cell.dataset}"
    for number in plan.numbers:
        draw = (cell.dataset, cell.sampler, cell.noise, cell.rate, seed, number)
        if draw in known and known[draw].identity == identity != "":
            continue
        said = pool.questions.ask_judge({**asked, "numbers": [number]}, doing, pool.question, *needed, scores=dict)
        try:
            yield Floor(*draw, identity, said["scores"])
        except ValueError:
            raise RequestError(f"{doing}: its scores are not numbers") from None
