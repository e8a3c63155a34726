"""How well `fieldbench complete --method auto` chooses: its regret against the truth.

    python benchmarks/auto_choice.py --datasets ssf,radiomap1 --trials 10 --budget 90 --jobs 16

For every trial, `complete` chooses as it does for a user: all installed methods, withheld observed entries
alone, the time that `--budget` gives. Then every candidate, those that auto found no time for included,
completes the same observation and is scored against the truth at the entries that were unobserved. The regret is
the error of auto's completion over that of the best candidate, less 1. A candidate that needs longer than
`--patience` for its one completion has no score; the row says so.

Each job is a process that computes on one thread, and auto sees a machine of one core. What a budget buys depends
on the machine, so a row holds only together with it. A row is written as soon as its trial is complete.

In a checkout that is not installed the plugins are found if PYTHONPATH has the checkout, its folders plugins and
datasets, and a folder that says what pyproject.toml does:

    mkdir -p /tmp/points/fieldbench-0.1.0.dist-info && cd /tmp/points/fieldbench-0.1.0.dist-info
    printf 'Metadata-Version: 2.1\\nName: fieldbench\\nVersion: 0.1.0\\n' > METADATA
    printf '[fieldbench]\\nmethods = fieldbench_methods\\ndatasets = fieldbench_datasets\\n' > entry_points.txt
    printf 'samplers = fieldbench.sampler\\nmetrics = fieldbench.metric\\n' >> entry_points.txt
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from fieldbench.completion import AUTO, complete
from fieldbench.completion.bench import Bench
from fieldbench.execution import Options
from fieldbench.execution.machine import THREAD_VARIABLES
from fieldbench.field import FloatArray
from fieldbench.judging import Draw, draw
from fieldbench.method import Method
from fieldbench.plan import Plan, Request
from fieldbench.records import Trial
from fieldbench.registry import Registry


@dataclass(frozen=True)
class Choice:
    """What auto chose in one trial: its method, the error it expected and has, how many methods it compared."""

    method: str
    expected: float
    error: float
    compared: int
    seconds: float


@dataclass(frozen=True)
class Score:
    """One candidate's error against the truth, or why there is none."""

    method: str
    error: float
    reason: str


@dataclass(frozen=True)
class Row:
    """One trial of one dataset, as a row of the table that is written."""

    dataset: str
    trial: int
    rate: float
    seed: int
    budget: float
    metric: str
    chosen: str
    expected: float
    error: float
    best: str
    best_error: float
    regret: float
    compared: int
    seconds: float
    errors: str
    without_error: str


def main() -> None:
    """Print one line a trial, and for each dataset the regret of auto and of each method taken always."""
    wanted = _arguments()
    registry = Registry()
    trials = [trial for dataset in wanted.datasets.split(",") for trial in _trials(dataset, wanted, registry)]
    rows: list[Row] = []
    context = multiprocessing.get_context("spawn")
    with (
        Path(wanted.out).open("w", newline="") as file,
        ProcessPoolExecutor(wanted.jobs, mp_context=context, initializer=_one_thread) as pool,
    ):
        table = csv.DictWriter(file, [field.name for field in fields(Row)])
        table.writeheader()
        # The long ones first, so that the end of the work finds every process busy.
        choices = {trial: pool.submit(_choice, trial, wanted.budget) for trial in trials}
        scores = {
            trial: [pool.submit(_score, trial, name, wanted.patience) for name in _candidates(trial, registry)]
            for trial in trials
        }
        for trial in _as_they_end(choices, scores):
            row = _row(trial, wanted, registry, choices[trial].result(), [one.result() for one in scores[trial]])
            table.writerow(asdict(row))
            file.flush()
            rows.append(row)
            print(
                f"{row.dataset} trial {row.trial}: chose {row.chosen}, expected {row.expected:.3f}, "
                f"has {row.error:.3f}; best {row.best} {row.best_error:.3f}; regret {row.regret:.1%}; "
                f"{row.compared} compared",
                flush=True,
            )
    for dataset in dict.fromkeys(row.dataset for row in rows):
        print(_summary(dataset, [row for row in rows if row.dataset == dataset]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="ssf,radiomap1")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=90.0, help="seconds that auto may compare in each trial")
    parser.add_argument("--patience", type=float, default=90.0, help="seconds for each candidate's own completion")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--out", default="auto_choice.csv")
    return parser.parse_args()


def _trials(dataset: str, wanted: argparse.Namespace, registry: Registry) -> list[Trial]:
    request = Request(
        methods=["nearest"], datasets=[dataset], rates=[wanted.rate], trials=wanted.trials, seed=wanted.seed
    )
    return list(Plan(request, registry))


def _candidates(trial: Trial, registry: Registry) -> list[str]:
    """What auto chooses among, if time does not matter: every installed method that works on such a field."""
    observation = draw(trial, registry).observation
    methods = [registry.method(name) for name, one in registry.entries("method").items() if issubclass(one.cls, Method)]
    return [str(method) for method in methods if method.applicable(observation) is None]


def _as_they_end(choices: dict[Trial, Future[Choice]], scores: dict[Trial, list[Future[Score]]]) -> Iterable[Trial]:
    owner: dict[Future[Any], Trial] = {choice: trial for trial, choice in choices.items()}
    owner.update({score: trial for trial, several in scores.items() for score in several})
    left = {trial: 1 + len(scores[trial]) for trial in choices}
    for future in as_completed(owner):
        left[owner[future]] -= 1
        if left[owner[future]] == 0:
            yield owner[future]


def _one_thread() -> None:
    """Make this process, and what it starts, a machine of one core."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


@cache
def _bench() -> Bench:
    """This process's own bench, so that methods import once; it ends with this process."""
    return Bench(_registry(), Options(device="cpu", jobs=1))


@cache
def _registry() -> Registry:
    return Registry()


def _choice(trial: Trial, budget: float) -> Choice:
    item, start = draw(trial, _registry()), time.monotonic()
    made = complete(item.observation, AUTO, budget=budget, seed=trial.number, device="cpu")
    seconds, compared = time.monotonic() - start, sum(1 for one in made.comparison if one.errors)
    return Choice(made.method, made.expected_error, _error(item, made.values, trial), compared, seconds)


def _score(trial: Trial, method: str, patience: float) -> Score:
    item = draw(trial, _registry())
    fit = _bench().fit(method, item.observation, trial.number, limit=patience)
    if fit.estimate is None:
        return Score(method, math.nan, fit.error)
    return Score(method, _error(item, fit.estimate, trial), "")


def _error(item: Draw, estimate: FloatArray, trial: Trial) -> float:
    """The error at the entries that exist and were unobserved, in the dataset's metric."""
    registry = _registry()
    metric = registry.metric(registry.dataset(trial.cell.dataset).metric).for_field(item.field)
    unobserved = item.field.valid & ~item.mask
    return float(metric.score(estimate[unobserved], item.field.values[unobserved]))


def _row(trial: Trial, wanted: argparse.Namespace, registry: Registry, choice: Choice, scores: Sequence[Score]) -> Row:
    errors = {one.method: one.error for one in scores if math.isfinite(one.error)}
    errors[choice.method] = choice.error
    best = min(errors, key=lambda name: errors[name])
    return Row(
        dataset=trial.cell.dataset,
        trial=trial.number,
        rate=wanted.rate,
        seed=wanted.seed,
        budget=wanted.budget,
        metric=registry.dataset(trial.cell.dataset).metric,
        chosen=choice.method,
        expected=choice.expected,
        error=choice.error,
        best=best,
        best_error=errors[best],
        regret=choice.error / errors[best] - 1,
        compared=choice.compared,
        seconds=round(choice.seconds, 1),
        errors="; ".join(f"{name} {error:.6g}" for name, error in sorted(errors.items(), key=lambda pair: pair[1])),
        without_error="; ".join(f"{one.method}: {one.reason}" for one in scores if one.method not in errors),
    )


def _summary(dataset: str, rows: Sequence[Row]) -> str:
    """Regret of auto, and of taking one method always: what there was to gain by choosing."""
    regrets = [row.regret for row in rows]
    ratios = [row.error / row.expected for row in rows]
    lines = [
        f"{dataset}: auto's regret is {statistics.mean(regrets):.1%} on average, {max(regrets):.1%} at most; "
        f"its error is {statistics.mean(ratios):.2f} times the expected one"
    ]
    always = [dict(part.rsplit(" ", 1) for part in row.errors.split("; ")) for row in rows]
    for name in sorted(set.intersection(*(set(errors) for errors in always))):
        taken = [float(errors[name]) / row.best_error - 1 for errors, row in zip(always, rows, strict=True)]
        lines.append(f"  always {name}: {statistics.mean(taken):.1%}, {max(taken):.1%} at most")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
