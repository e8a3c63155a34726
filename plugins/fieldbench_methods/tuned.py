"""Parameters by the tree-structured Parzen estimator of Optuna."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import fieldbench
from fieldbench import Choice, Log, Space, Try

#: Points in a row that were tried before, which cost no seconds, after which the estimator knows of no better one.
_REPETITIONS = 100


class Tuned(fieldbench.Tuner):
    """Parameters chosen in each trial by errors at withheld observed entries, with Optuna.

    A tree-structured Parzen estimator says which point to try next (Bergstra et al. 2011; Akiba et al. 2019).
    """

    name = "tuned"
    revision = "1"
    requires: ClassVar[Mapping[str, str]] = {"optuna": "fieldbench-completion[tune]"}

    def search(self, space: Space, attempt: Try, seed: int) -> None:
        import optuna

        logging.getLogger("optuna").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
        study = optuna.create_study(sampler=sampler)
        ways = {key: _distribution(search) for key, search in space.searches.items()}
        tried, again = set[tuple[Any, ...]](), 0
        if all(space.start[key] in search for key, search in space.searches.items()):
            tried.add(tuple(space.start.values()))
            study.add_trial(
                optuna.trial.create_trial(
                    params={key: _inward(space.searches[key], value) for key, value in space.start.items()},
                    distributions=ways,
                    value=attempt(space.start),
                )
            )
        while len(tried) < _points(space) and again < _REPETITIONS:
            trial = study.ask(ways)
            point = {key: _outward(space.searches[key], value) for key, value in trial.params.items()}
            values = tuple(point[key] for key in space.start)
            again = again + 1 if values in tried else 0
            tried.add(values)
            study.tell(trial, attempt(point))


def _points(space: Space) -> float:
    """How many different points there are."""
    return math.prod(map(_values, space.searches.values()))


def _values(search: fieldbench.Range | Choice) -> float:
    if isinstance(search, Choice):
        return len(search.values)
    return search.high - search.low + 1 if search.is_whole else math.inf


def _distribution(search: fieldbench.Range | Choice) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(search, Choice):
        return CategoricalDistribution(range(len(search.values)))
    kind = IntDistribution if search.is_whole else FloatDistribution
    return kind(search.low, search.high, log=isinstance(search, Log))


def _inward(search: fieldbench.Range | Choice, value: Any) -> Any:
    """A value as Optuna has it: of a choice, its index."""
    return search.values.index(value) if isinstance(search, Choice) else value


def _outward(search: fieldbench.Range | Choice, value: Any) -> Any:
    return search.values[value] if isinstance(search, Choice) else value
