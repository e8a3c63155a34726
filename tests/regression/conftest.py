"""Scores made of numbers, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest

from fieldbench.regression.reference import COLUMNS, Scores

Make: TypeAlias = Callable[..., Scores]

#: Datasets and noises of the cells of each method.
CELLS = [(dataset, noise) for dataset in ("sea", "city") for noise in ("none", "gaussian")]


@pytest.fixture
def make() -> Make:
    """``make(["tap"], draw)``: scores of methods on all cells, ``draw(rng, method, dataset)`` each."""

    def make(
        methods: Sequence[str] = ("tap", "tnn"),
        draw: Callable[[np.random.Generator], float] = lambda rng: float(np.exp(0.1 * rng.normal())),
        *,
        rng: int = 1000,
        seed: int = 0,
        trials: int = 4,
        rtol: float = np.nan,
        **origin: str,
    ) -> Scores:
        generator = np.random.default_rng(rng)
        rows: list[dict[str, Any]] = [
            {
                "method": method, "dataset": dataset, "sampler": "random", "noise": noise, "select": "final",
                "rate": 0.1, "seed": seed, "trial": trial, "status": "ok", "metric": "rmse", "rtol": rtol,
                "memory_mib": 300.0, "device": "cpu",
            }
            for method in methods for dataset, noise in CELLS for trial in range(trials)
        ]  # fmt: skip
        for row in rows:
            row["score"] = draw(generator)
            row["unobserved"] = 1.1 * row["score"]
        return Scores(pd.DataFrame(rows, columns=list(COLUMNS)), origin)

    return make


@pytest.fixture
def changed() -> Callable[..., Scores]:
    """``changed(scores, where, score=...)``: a copy in which chosen rows have another value."""

    def changed(scores: Scores, where: Any = slice(None), **values: Any) -> Scores:
        frame = scores.frame.copy()
        for name, value in values.items():
            frame.loc[where, name] = value(frame.loc[where, name]) if callable(value) else value
        return Scores(frame, scores.origin)

    return changed
