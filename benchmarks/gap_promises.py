"""Is the promised error that of the gaps? Patterns of gaps in fields whose truth is known, many draws of each.

    python benchmarks/gap_promises.py --out promises.jsonl
    python benchmarks/gap_promises.py --out promises.jsonl --patterns clouds,swaths --draws 40

Every draw has a field and a mask of its own. Candidates are compared as `fieldbench complete` does, on one thread of
this process, and the chosen one, or the chosen mean of several, completes the field. The table has, pooled over the
draws of a pattern, the promised error over the true one (roots of mean squares), how many of the true errors lie in the
90 % interval, the true error of the chosen method or mean over that of the best candidate, and in how many draws the
error was 'beyond what can be checked'; these draws give no number and count in the last two columns only. A draw that
is in the file is not computed again.
"""

from __future__ import annotations

import argparse
import os

# Before numpy is imported, which reads them once.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from tabulate import tabulate

from fieldbench import NullReport, Observation
from fieldbench.completion.bench import FitResult
from fieldbench.completion.comparison import CandidateComparison, mean_of, named, rank
from fieldbench.completion.validation import Validation
from fieldbench.estimate import Estimate, as_estimate
from fieldbench.field import FloatArray, Mask
from fieldbench.registry import Registry
from fieldbench.spec import split

CANDIDATES = "nearest,idw,linear,harmonic,thin-plate[exact=300,neighbours=24]"
#: Draws with this share beyond what can be checked have no column of ratios.
MOST_BEYOND = 0.5

Draw: TypeAlias = Callable[[np.random.Generator], tuple[FloatArray, Mask]]
PATTERNS: dict[str, Draw] = {}


def pattern(draw: Draw) -> Draw:
    PATTERNS[draw.__name__.replace("_", "-")] = draw
    return draw


@pattern
def missing_maps(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """4 of 30 maps of a field that is smooth in space and jumps in time."""
    field = np.stack([smooth((24, 24), 3.0, rng) + rng.normal() for _ in range(30)])
    mask = np.ones(field.shape, dtype=bool)
    mask[rng.choice(30, 4, replace=False)] = False
    return field, mask


@pattern
def last_maps(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """The last 3 of 30 maps."""
    mask = np.ones((30, 16, 16), dtype=bool)
    mask[-3:] = False
    return smooth(mask.shape, 2.8, rng), mask


@pattern
def block_and_scattered(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """A block of 20 x 20 beside half of the entries missing at random."""
    mask = _without_block((60, 60), 20, rng)
    return smooth(mask.shape, 2.3, rng), mask & (rng.random(mask.shape) < 0.5)


@pattern
def block(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """One block of 25 x 25."""
    mask = _without_block((80, 80), 25, rng)
    return smooth(mask.shape, 2.3, rng), mask


@pattern
def clouds(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """55 % under clouds that move and change over ten days."""
    cover = smooth((10, 48, 48), 1.9, rng, (3, 1, 1))
    return smooth(cover.shape, 2.8, rng, (3, 1, 1)), cover < np.quantile(cover, 0.45)


@pattern
def tide_gauges(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """25 stations with series, each with an outage."""
    mask = np.zeros((24, 24, 40), dtype=bool)
    for x, y in zip(*np.unravel_index(rng.choice(576, 25, replace=False), (24, 24)), strict=True):
        mask[x, y] = True
        start = rng.integers(40)
        mask[x, y, start : start + rng.integers(8)] = False
    return smooth(mask.shape, 3.0, rng), mask


@pattern
def swaths(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """Stripes of 20 steps, 16 apart, as a satellite's."""
    x, y = np.indices((64, 64))
    return smooth((64, 64), 2.3, rng), (x + 2 * y + rng.integers(36)) % 36 < 20


@pattern
def second_rows(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """Every second row."""
    mask = np.zeros((48, 48), dtype=bool)
    mask[rng.integers(2) :: 2] = True
    return smooth(mask.shape, 2.3, rng), mask


@pattern
def profiles(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """A section of 60 profiles that end at half to all of the depth."""
    ends = rng.integers(15, 31, size=(60, 1))
    return smooth((60, 30), 2.3, rng), np.arange(30) < ends


@pattern
def scattered(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """10 % of the entries, at random."""
    return smooth((48, 48), 2.3, rng), rng.random((48, 48)) < 0.1


@pattern
def isolated(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """All but 3 % of the entries."""
    return smooth((48, 48), 2.3, rng), rng.random((48, 48)) < 0.97


@pattern
def fibers(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """Whole columns at 10 % of the places."""
    mask = np.repeat(rng.random((24, 24, 1)) < 0.1, 12, axis=2)
    return smooth(mask.shape, 2.8, rng), mask


@pattern
def series(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """One series with 12 outages of up to 14 steps."""
    mask = np.ones(400, dtype=bool)
    for start in rng.integers(400, size=12):
        mask[start : start + rng.integers(2, 15)] = False
    return smooth(mask.shape, 1.5, rng), mask


@pattern
def radar(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """Nothing beyond a range of 22 steps, in 60 x 60."""
    x, y = np.indices((60, 60)) - rng.integers(20, 40, size=(2, 1, 1))
    return smooth(x.shape, 2.3, rng), np.hypot(x, y) < 22


@pattern
def corner(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """Only a corner of 14 x 14, in 48 x 48."""
    mask = np.zeros((48, 48), dtype=bool)
    mask[:14, :14] = True
    return smooth(mask.shape, 2.3, rng), mask


@pattern
def quarter(rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """All but a quarter."""
    mask = np.ones((48, 48), dtype=bool)
    mask[:24, :24] = False
    return smooth(mask.shape, 2.3, rng), mask


def smooth(
    shape: tuple[int, ...], power: float, rng: np.random.Generator, stretch: tuple[float, ...] = ()
) -> FloatArray:
    """A Gaussian field whose amplitudes fall off with a power of the wave number, cut out of a larger one."""
    whole = tuple(2 * size for size in shape)
    waves = np.fft.rfftn(rng.normal(size=whole))
    squares = np.full(waves.shape, 0.5)
    for axis, size in enumerate(whole):
        frequencies = np.fft.rfftfreq(size) if axis == len(whole) - 1 else np.fft.fftfreq(size)
        square = (frequencies * size * (stretch[axis] if stretch else 1)) ** 2
        squares += np.expand_dims(square, [other for other in range(len(whole)) if other != axis])
    waves *= squares ** (-power / 2)
    waves.flat[0] = 0
    field = np.fft.irfftn(waves, s=whole, axes=range(len(whole)))[tuple(slice(size) for size in shape)]
    return np.asarray((field - field.mean()) / field.std())


def _without_block(shape: tuple[int, int], edge: int, rng: np.random.Generator) -> Mask:
    mask = np.ones(shape, dtype=bool)
    x, y = (int(rng.integers(2, size - edge - 1)) for size in shape)
    mask[x : x + edge, y : y + edge] = False
    return mask


class Here:
    """Fits methods in this process, with the questions that a comparison asks."""

    width = 1

    def __init__(self) -> None:
        self._registry = Registry()

    def pointwise(self, method: str) -> bool:
        return self._registry.method(method).pointwise

    def fit(self, method: str, seen: Observation, seed: int, **_: Any) -> FitResult:
        start = time.process_time()
        try:
            made = self._registry.method(method).complete(seen, seed=seed, device="cpu", report=NullReport())
        except Exception as error:  # as a process of its own would
            return FitResult(None, time.process_time() - start, 0.0, repr(error))
        return FitResult(as_estimate(made), time.process_time() - start, 0.0)


def measure(name: str, draw: int, methods: list[str], budget: float) -> dict[str, Any]:
    """One draw: promised and true error of the chosen method, and the smallest true error of all candidates."""
    field, mask = PATTERNS[name](np.random.default_rng([draw, sum(map(ord, name))]))
    observation, here = Observation(np.where(mask, field, np.nan), mask), Here()
    validation = Validation(observation, 0.1, 3, np.random.default_rng(draw))
    comparison = CandidateComparison(here, observation, validation, draw, budget, lambda line: None, lambda work: None)  # type: ignore[arg-type]
    chosen = comparison.best(sorted(comparison.run(methods), key=rank))
    promise = comparison.promise(chosen)
    made = {method: here.fit(method, observation, draw).made for method in methods}
    true = {method: _error(estimate, field, mask) for method, estimate in made.items()}
    mean = mean_of([part for part in map(made.get, chosen) if part], None)
    return {
        "pattern": name,
        "draw": draw,
        "method": named(chosen),
        "promised": promise.expected,
        "low": promise.low,
        "high": promise.high,
        "true": _error(mean, field, mask),
        "best": min(true.values()),
        "checked": validation.checked,
    }


def _error(made: Estimate | None, field: FloatArray, mask: Mask) -> float:
    return np.inf if made is None else float(np.sqrt(np.mean((made.mean - field)[~mask] ** 2)))


def table(rows: list[dict[str, Any]]) -> str:
    """What came of the draws, a line for each pattern."""
    lines = []
    for name in PATTERNS:
        of = [row for row in rows if row["pattern"] == name]
        told = [row for row in of if row["checked"]]
        if not of:
            continue
        beyond = 1 - len(told) / len(of)
        best = _rms(of, "true") / _rms(of, "best")
        numbers = ["-", "-", "-"]
        if beyond <= MOST_BEYOND:
            inside = sum(row["low"] <= row["true"] <= row["high"] for row in told) / len(told)
            width = float(np.median([row["high"] / row["promised"] for row in told]))
            numbers = [f"{_rms(told, 'promised') / _rms(told, 'true'):.2f}", f"{inside:.0%}", f"x {width:.2f}"]
        lines.append([name, len(of), *numbers, f"{best:.2f}", f"{beyond:.0%}"])
    told = [row for row in rows if row["checked"]]
    inside = sum(row["low"] <= row["true"] <= row["high"] for row in told) / max(len(told), 1)
    head = ["gaps", "draws", "promised / true", "in interval", "half width", "chosen / best", "beyond"]
    return tabulate(lines, head, tablefmt="github") + f"\n\nIn the interval, over all: {inside:.0%}"


def _rms(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.sqrt(np.mean([row[name] ** 2 for row in rows])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON for each draw; goes on if it exists")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first draw: other ones have other fields and masks")
    parser.add_argument("--methods", default=CANDIDATES)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of processor time for each comparison")
    wanted = parser.parse_args()
    rows = [json.loads(line) for line in wanted.out.read_text().splitlines()] if wanted.out.exists() else []
    done = {(row["pattern"], row["draw"]) for row in rows}
    for draw in range(wanted.first, wanted.first + wanted.draws):
        for name in wanted.patterns.split(","):
            if (name, draw) not in done:
                rows.append(measure(name, draw, list(split(wanted.methods)), wanted.budget))
                with wanted.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    print(table(rows))


if __name__ == "__main__":
    main()
