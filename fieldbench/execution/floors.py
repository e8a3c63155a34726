"""Floors of the draws of a plan, asked of a judge; no method is near."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import astuple

from fieldbench.dataset import Dataset
from fieldbench.errors import RequestError
from fieldbench.execution.pool import Pool
from fieldbench.execution.processes import GivenUp, Lost, Raised
from fieldbench.identity import draw_identity
from fieldbench.plan import Plan, Setting
from fieldbench.store.floors import DrawKey, Floor

_LOG = logging.getLogger("fieldbench")


def floors(plan: Plan, pool: Pool, known: Mapping[DrawKey, Floor]) -> Iterator[Floor]:
    """The floors that are not known yet; a setting where one fails has none from there on, which is said.

    Args:
        plan: the plan.
        pool: its processes.
        known: those that were computed before.
    """
    with pool.asking:
        for setting in plan.settings:
            if type(pool.registry.dataset(setting.dataset)).floor is Dataset.floor:
                continue
            try:
                yield from _of_setting(plan, pool, setting, known)
            except GivenUp:
                return
            except (Lost, Raised, RequestError) as error:
                _LOG.warning(f"{getattr(error, 'message', error)}; no floor is shown")
        pool.questions.close()


def _of_setting(plan: Plan, pool: Pool, setting: Setting, known: Mapping[DrawKey, Floor]) -> Iterator[Floor]:
    cell, seed = next(cell for cell in plan.cells if setting.of(cell) == setting), plan.request.seed
    identity = draw_identity(pool.registry, cell, pool.fingerprint)
    headline = pool.registry.dataset(setting.dataset).metric
    needed = [("dataset", cell.dataset), ("sampler", cell.sampler), ("noise", cell.noise), ("metric", headline)]
    for number in plan.numbers:
        draw = (cell.dataset, cell.sampler, cell.noise, cell.rate, seed, number)
        if draw in known and known[draw].identity == identity != "":
            continue
        asked = {"ask": "floor", "cell": list(astuple(cell)), "seed": pool.options.secrets.get(seed, seed)}
        doing = f"floor of {cell.dataset}"
        frame = pool.questions.ask_judge(({**asked, "trial": number}, []), doing, pool.question, *needed)
        yield Floor(*draw, identity, frame.header["scores"])
