"""How well and how fast methods fill real gaps, and gaps in large fields.

    FIELDBENCH_DATA=FOLDER python benchmarks/real_gaps.py
    python benchmarks/real_gaps.py --cases cloudy-map,cube-200 --methods kriging,nearest

FOLDER/alboran-sst/alboranSST_small.nc is the example of ten days of sea surface temperature that DINEOF ships
(github.com/aida-alvera/DINEOF, SmallExample). Two sets of its observed entries are withheld, one at a time: 2,258 at
random (as many as DINEOF's rule takes), and the 50,273 that the clouds of two days before would hide. The other cases
are made: random fields whose spectrum falls off as a power of the wave number, observed

    small-map      500 x 500, without 1 % of single entries
    isolated-map   2000 x 2000, without 1 % of single entries
    cloudy-map     2000 x 2000, 60 % under clouds
    year           365 x 201 x 301, under the clouds of those ten days, moved about (the file is needed)
    cube-100       100 x 100 x 100, 5 % of the entries at random
    cube-200       200 x 200 x 200, the same

`--methods default` is what `fieldbench complete` chooses, on all cores: error, seconds by the clock and of the
processor, and the memory of all its processes together. `--methods withholding` is the choice of entries to be withheld
once, with all that tells how hard they are to predict.

Each method completes each case in a process of its own, on one thread. Printed are the root mean square error at the
withheld (or unobserved) entries, processor time without imports, and the most memory that the process held.
"""

from __future__ import annotations

import argparse
import os

# Before numpy is imported, which reads them once.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import contextlib
import math
import multiprocessing
import platform
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from fieldbench import NullReport, Observation, as_estimate
from fieldbench.completion import complete
from fieldbench.completion.validation import Validation
from fieldbench.field import FloatArray, Mask
from fieldbench.files import Selector, read
from fieldbench.registry import Registry
from fieldbench.spec import split

METHODS = (
    "kriging,harmonic,biharmonic,thin-plate,rbf,idw,nearest,linear+slices,biharmonic+slices,thin-plate+slices,dineof"
)


@dataclass(frozen=True)
class Case:
    """A field with gaps, and the entries whose values are known but not shown."""

    observation: Observation
    truth: FloatArray
    judged: Mask


def alboran(withhold: Callable[[Mask, Mask, np.random.Generator], Mask]) -> Case:
    """The ten days of Alboran Sea, with entries withheld: a function of observed, sea and a generator."""
    observation = _alboran()
    judged = withhold(observation.mask, observation.valid, np.random.default_rng(0))
    return Case(observation.without(judged), observation.values, judged)


def at_random(observed: Mask, sea: Mask, rng: np.random.Generator) -> Mask:
    return _some(observed, 2258, rng)


def under_clouds(observed: Mask, sea: Mask, rng: np.random.Generator) -> Mask:
    return observed & np.roll(sea & ~observed, 2, axis=0)


def isolated_map(size: int) -> Case:
    truth = spectral((size, size), 2.5)
    return _case(truth, ~_some(np.ones(truth.shape, dtype=bool), truth.size // 100, np.random.default_rng(1)))


def cloudy_map() -> Case:
    return _case(spectral((2000, 2000), 2.5), _clear((2000, 2000), 0.4))


def year() -> Case:
    days, sea = _alboran(), np.random.default_rng(2)
    shape = (365, *days.shape[1:])
    land = ~days.valid[0]
    observed = np.stack([np.roll(days.mask[day % 10], sea.integers(40, size=2), (0, 1)) for day in range(shape[0])])
    return _case(spectral(shape, 3.0), observed & ~land, np.broadcast_to(~land, shape))


def cube(size: int) -> Case:
    truth = spectral((size,) * 3, 3.5)
    return _case(truth, _some(np.ones(truth.shape, dtype=bool), truth.size // 20, np.random.default_rng(3)))


CASES: dict[str, Callable[[], Case]] = {
    "random": lambda: alboran(at_random),
    "clouds": lambda: alboran(under_clouds),
    "small-map": lambda: isolated_map(500),
    "isolated-map": lambda: isolated_map(2000),
    "cloudy-map": cloudy_map,
    "year": year,
    "cube-100": lambda: cube(100),
    "cube-200": lambda: cube(200),
}


def spectral(shape: tuple[int, ...], power: float, seed: int = 0) -> FloatArray:
    """White noise whose amplitudes are divided by a power of the wave number; of mean 0 and deviation 1."""
    waves = np.fft.rfftn(np.random.default_rng(seed).normal(size=shape))
    squares = np.zeros(waves.shape)
    for axis, size in enumerate(shape):
        frequencies = np.fft.rfftfreq(size) if axis == len(shape) - 1 else np.fft.fftfreq(size)
        squares += np.expand_dims(
            (frequencies * max(shape)) ** 2, [other for other in range(len(shape)) if other != axis]
        )
    squares.flat[0] = np.inf
    waves *= squares ** (-power / 2)
    field = np.fft.irfftn(waves, s=shape, axes=range(len(shape)))
    return np.asarray((field - field.mean()) / field.std())


def _clear(shape: tuple[int, ...], share: float) -> Mask:
    """Where no cloud is: where a rough field is below its quantile."""
    cover = spectral(shape, 1.8, seed=4)
    return np.asarray(cover < np.quantile(cover, share))


def _some(entries: Mask, count: int, rng: np.random.Generator) -> Mask:
    chosen = np.zeros(entries.shape, dtype=bool)
    chosen.ravel()[rng.choice(np.flatnonzero(entries), count, replace=False)] = True
    return chosen


def _case(truth: FloatArray, observed: Mask, valid: Mask | None = None) -> Case:
    valid = np.ones(truth.shape, dtype=bool) if valid is None else valid
    return Case(Observation(np.where(observed, truth, np.nan), observed, valid=valid), truth, valid & ~observed)


def _alboran() -> Observation:
    path = Path(os.environ["FIELDBENCH_DATA"]) / "alboran-sst" / "alboranSST_small.nc"
    return read(path, Selector(variable="SST", valid="mask")).observation()


def measure(case: str, method: str) -> str:
    """One row of the table."""
    made = CASES[case]()
    if method == "withholding":
        start = time.process_time()
        Validation(made.observation, 0.1, 1, np.random.default_rng(0))
        return f"{time.process_time() - start:8.1f} s"
    if method == "default":
        start = time.monotonic()
        with Usage() as used:
            chosen = complete(made.observation)
        error = math.sqrt(np.mean((chosen.values - made.truth)[made.judged] ** 2))
        clock, promised = time.monotonic() - start, chosen.expected_error
        return f"{error:#.3g} ({promised:#.3g} promised) {clock:8.1f} s by the clock, {used} with {chosen.method}"
    completer = Registry().method(method)
    reason = completer.applicable(made.observation)
    if reason is not None:
        return reason
    held = _gibibytes()
    start = time.process_time()
    estimate = as_estimate(completer.complete(made.observation, seed=0, device="cpu", report=NullReport())).mean
    seconds = time.process_time() - start
    error = math.sqrt(np.mean((estimate - made.truth)[made.judged] ** 2))
    missing = int((~np.isfinite(estimate[made.observation.valid])).sum())
    unfilled = f" {missing} not filled" if missing else ""
    return f"{error:#.3g} {seconds:8.1f} s {_gibibytes():6.1f} GiB ({held:.1f} before){unfilled}"


class Usage:
    """Processor time and memory of this process and all below it, looked at a few times a second."""

    def __enter__(self) -> Usage:
        self._ended, self._seconds, self._most = threading.Event(), dict[int, float](), 0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._ended.wait(0.2):
            held = 0
            for process in [own, *own.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    self._seconds[process.pid] = times.user + times.system
                    held += process.memory_full_info().pss
            self._most = max(self._most, held)

    def __str__(self) -> str:
        return f"{sum(self._seconds.values()):.1f} s of the processor, {self._most / 2**30:.1f} GiB"


def _gibibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--methods", default=METHODS)
    wanted = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    for case in wanted.cases.split(","):
        for method in split(wanted.methods):
            # A process each, so that its memory is its own.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                row = alone.submit(measure, case, method).result()
            print(f"{case:13} {method:22} {row}", flush=True)


if __name__ == "__main__":
    main()
