"""How well `fieldbench complete --method auto` chooses: its regret against the truth.

For every trial of a dataset the candidates are compared as `complete` compares them, on held-out observed
entries alone. Then each candidate completes the whole observation and is scored against the truth. The
regret is the score of the chosen one over the score of the best one, less 1.

    python benchmarks/auto_choice.py --datasets ssf,radiomap1 --among nearest,thin-plate,rbf --trials 10
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from fieldbench.completion import complete
from fieldbench.completion.bench import Bench, Task
from fieldbench.execution import Options, slots
from fieldbench.metric import Metric
from fieldbench.plan import Plan, Request
from fieldbench.registry import Registry, Sources
from fieldbench.trial import Trial, draw


def main() -> None:
    """Print one line a trial, and the mean regret of each dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="ssf,radiomap1")
    parser.add_argument("--among", required=True, help="candidates, separated by commas")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=300.0)
    wanted = parser.parse_args()
    registry = Registry()
    among = [str(registry.method(text)) for text in wanted.among.split(",")]
    for dataset in wanted.datasets.split(","):
        request = Request(
            methods=among[:1], datasets=[dataset], rates=[wanted.rate], trials=wanted.trials, seed=wanted.seed
        )
        metric = registry.metric(registry.dataset(dataset).metric)
        regrets = [_trial(trial, among, wanted.budget, metric, registry) for trial in Plan(request, registry)]
        print(f"{dataset}: mean regret {np.mean(regrets):.1%}, largest {np.max(regrets):.1%}", flush=True)


def _trial(trial: Trial, among: Sequence[str], budget: float, metric: Metric, registry: Registry) -> float:
    item = draw(trial, registry)
    made = complete(item.observation, candidates=among, budget=budget, seed=trial.trial, device="cpu")
    hidden = item.field.existing & ~item.mask
    metric = metric.for_field(item.field)
    scores = {}
    with Bench(slots(Options(device="cpu", jobs=1))[0], Sources()) as bench:
        for candidate in made.comparison:
            if candidate.errors:
                fit = bench.fit(Task(candidate.method, item.observation, trial.trial))
                if fit.estimate is not None:
                    scores[candidate.method] = metric.score(fit.estimate[hidden], item.field.values[hidden])
    scores[made.method] = metric.score(made.values[hidden], item.field.values[hidden])
    best = min(scores, key=lambda name: scores[name])
    regret = scores[made.method] / scores[best] - 1
    print(
        f"{trial.dataset} trial {trial.trial}: chose {made.method}, expected {made.expected_error:.3f}, "
        f"has {scores[made.method]:.3f}; best {best} {scores[best]:.3f}; regret {regret:.1%}",
        flush=True,
    )
    return float(regret)


if __name__ == "__main__":
    main()
