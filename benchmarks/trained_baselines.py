"""The scores in docs/trained.md: Nasdac and DowJons with one or several sets of weights, as markdown.

    python benchmarks/trained_baselines.py shipped released=../shared/data/deep-sc/slf_network.pt
    python benchmarks/trained_baselines.py mine=mine.safetensors --only loss

Each argument is a label, alone for the prior that comes with fieldbench, or with a file of weights. Three
tables: the loss of each prior on fields that its training has not seen, radiomap1 by rate, and radiomap2 by
the strength of the shadowing, which lies beyond what the priors were trained on. Scores are SLNRE, mean
(median) of the maps of base seed 0; about three minutes of one core for each set of weights.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import fieldbench

METHODS = {"nasdac": "Nasdac", "dowjons": "DowJons"}
RATES = (0.05, 0.1, 0.15, 0.2)
ETAS = (9, 10, 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", nargs="+", metavar="LABEL[=FILE]")
    parser.add_argument("--only", choices=["loss", "radiomap1", "radiomap2"], action="append")
    parser.add_argument("--maps", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=None, help="trials at once; by default one for each core")
    wanted = parser.parse_args()
    weights = dict(_labelled(text) for text in wanted.weights)
    parts = wanted.only or ["loss", "radiomap1", "radiomap2"]
    if "loss" in parts:
        rows = [[label, f"{loss(path):.3f}"] for label, path in weights.items()]
        show(["loss on 1024 fields", ""], rows)
    if "radiomap1" in parts:
        frames = scores(weights, ["radiomap1"], RATES, wanted.maps, wanted.jobs)
        show(["radiomap1", *(f"{rate:.0%}" for rate in RATES)], rows_of(frames, "rate", RATES))
        seconds = pd.concat(frames.values()).groupby("method")["seconds"].median()
        print("Seconds a map, median: " + ", ".join(f"{spec} {value:.2f}" for spec, value in seconds.items()) + "\n")
    if "radiomap2" in parts:
        datasets = [f"radiomap2[eta={eta}]" for eta in ETAS]
        frames = scores(weights, datasets, [0.1], wanted.maps, wanted.jobs)
        etas = {label: frame.assign(eta=frame["dataset"].map(_eta)) for label, frame in frames.items()}
        show(["radiomap2", *(f"eta {eta}" for eta in ETAS)], rows_of(etas, "eta", ETAS))


def loss(path: Path | None) -> float:
    """Summed absolute error, mean over fields of the population that priors are trained on by default."""
    import torch

    from fieldbench_methods.cartography import training, weight_files
    from fieldbench_methods.cartography.loss_fields import Fields
    from fieldbench_methods.cartography.prior import LossFieldPrior

    fields = Fields(training.population(LossFieldPrior()), torch.device("cpu"))
    network = weight_files.load(path or weight_files.SHIPPED)
    return training.ValidationSet(*fields.examples(1024, np.random.default_rng(20260101))).loss(network)


def scores(
    weights: dict[str, Path | None], datasets: Sequence[str], rates: Sequence[float], maps: int, jobs: int | None
) -> dict[str, pd.DataFrame]:
    """For each label the trials of both methods."""
    frames = {}
    for label, path in weights.items():
        given = "" if path is None else f"[weights={path.resolve()}]"
        methods = [name + given for name in METHODS]
        results = fieldbench.run(methods, datasets, rates=rates, trials=maps, device="cpu", jobs=jobs, out=False)
        frame = results.frame()
        assert (frame["status"] == "ok").all(), frame["status"].value_counts()
        frames[label] = frame
    return frames


def rows_of(frames: dict[str, pd.DataFrame], factor: str, levels: Sequence[float]) -> list[list[str]]:
    """A row for each method and label: mean (median) at each level of the factor."""
    rows = []
    for name, shown in METHODS.items():
        for label, frame in frames.items():
            own = frame[frame["method"].str.startswith(name)].groupby(factor)["slnre"]
            cells = [f"{own.mean()[level]:.3f} ({own.median()[level]:.3f})" for level in levels]
            rows.append([f"{shown}, {label}", *cells])
    return rows


def show(header: list[str], rows: list[list[str]]) -> None:
    print("\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]) + "\n", flush=True)


def _labelled(text: str) -> tuple[str, Path | None]:
    label, _, path = text.partition("=")
    return label, Path(path) if path else None


def _eta(dataset: str) -> float:
    """The strength of the shadowing, in dB, of a radiomap2 spec; 9 where it is not named."""
    found = re.search(r"eta=([\d.]+)", dataset)
    return float(found[1]) if found else 9.0


if __name__ == "__main__":
    main()
