"""A look at the data before a run: what cannot work fails at once, and not in every trial.

The same processes answer that will run the trials. One that is lost over a question dooms the trials of its plugin:
they become rows that say why, and all others are computed.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Any

from fieldbench.errors import RequestError
from fieldbench.execution.frames import unpack
from fieldbench.execution.pool import Pool
from fieldbench.execution.processes import GivenUp, Lost, Raised
from fieldbench.execution.worker import fit_request
from fieldbench.field import Observation
from fieldbench.judging import Task
from fieldbench.plan import Plan, Setting


def examine(plan: Plan, pool: Pool) -> dict[str, str]:
    """Make data available and draw each setting's first observation.

    Returns:
        The unit of each dataset's field.

    Raises:
        RequestError: if data is missing or not finite, the plan's metric does not apply, the headline metric fails,
            a rate observes nothing, or a method's parameter contradicts the field's shape.
        KeyboardInterrupt: if a stop was asked for.
    """
    units: dict[str, str] = {}
    with pool.asking, _interrupted():
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
        pool.questions.close()
    return units


@contextlib.contextmanager
def _interrupted() -> Iterator[None]:
    """Who asks for an end before anything has run ends the command."""
    try:
        yield
    except GivenUp:
        raise KeyboardInterrupt from None


def _examine_dataset(plan: Plan, pool: Pool, text: str) -> str:
    ask, limit = pool.questions.ask_judge, pool.options.timeout
    headline = pool.registry.dataset(text).metric
    try:
        ask(({"ask": "prepare", "dataset": text}, []), f"dataset {text}", limit, ("dataset", text))
    except RequestError as error:
        raise RequestError(f"dataset {text}: {error}") from None
    first = {"ask": "look", "dataset": text, "seed": plan.request.seed, "first": plan.request.first_trial}
    wanted = None if plan.metric is None else str(plan.metric)
    known = [("dataset", text), ("metric", headline)] + ([] if wanted is None else [("metric", wanted)])
    try:
        frame = ask(({**first, "headline": headline, "wanted": wanted}, []), f"dataset {text}", limit, *known)
    except RequestError as error:
        raise RequestError(f"dataset {text}: {error}") from None
    except Raised as raised:
        raise RequestError(raised.message) from None
    except Lost as lost:
        if lost.stage.startswith("metric "):
            raise RequestError(f"{lost.message}; no table can be made of it") from None
        raise
    if not frame.header["applies"]:
        raise RequestError(f"metric {plan.metric} does not apply to {text}; its own is {headline}")
    if frame.header["trouble"]:
        raise RequestError(f"metric {headline}: {frame.header['trouble']}; no table of {text} can be made of it")
    return str(frame.header["unit"])


def _examine_setting(plan: Plan, pool: Pool, setting: Setting) -> None:
    described = f"{setting.sampler} sampling of {setting.dataset} at rate {setting.rate:g}"
    described += "" if setting.noise == "none" else f" with {setting.noise}"
    header: dict[str, Any] = {
        "ask": "observe",
        "dataset": setting.dataset,
        "sampler": setting.sampler,
        "noise": setting.noise,
    }
    header |= {"rate": setting.rate, "seed": plan.request.seed, "first": plan.request.first_trial}
    known = [("dataset", setting.dataset), ("sampler", setting.sampler), ("noise", setting.noise)]
    try:
        frame = pool.questions.ask_judge((header, []), described, pool.options.timeout, *known)
    except RequestError as error:
        raise RequestError(f"{described}: {error}") from None
    except Raised as raised:
        raise RequestError(raised.message) from None
    observation: Observation = unpack(frame.header["observation"], deque(frame.arrays))
    for text in dict.fromkeys(cell.method for cell in plan.cells if Setting.of(cell) == setting):
        _examine_method(pool, text, setting, observation)


def _examine_method(pool: Pool, text: str, setting: Setting, observation: Observation) -> None:
    question = fit_request("suits", [Task(observation, 0, 0)])
    try:
        said = pool.questions.ask_method(pool.registry.method(text), question, "applicable or check_shape").header
    except Lost as lost:
        pool.doom("method", text, lost)
        return
    if said.get("contradiction"):
        raise RequestError(f"{text} on {setting.dataset}: {said['contradiction']}")
    # Any other mistake is the method's own: each of its trials will be a row that says so.
