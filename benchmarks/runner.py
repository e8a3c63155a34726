"""What the harness itself costs: per trial, until the first trial, per million records, and from 1 to 2 slots.

    python benchmarks/runner.py                 all of it, on an otherwise idle machine
    python benchmarks/runner.py --only records --records 1000000

Trials are of a method that does nothing (or works for a fixed time, for scaling), so that what is measured
is the harness. Every figure is printed with what it is a figure of; the aims are those of the project.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOYS = '''
import time
import numpy as np
import fieldbench
from fieldbench.field import Field, grid_axes

class Small(fieldbench.Dataset):
    """A small field."""
    name = "small"
    def draw(self, rng):
        return Field(rng.normal(size=(8, 8)), grid_axes((8, 8)))

class Cube(fieldbench.Dataset):
    """A field of the size of the sound speed fields."""
    name = "cube"
    def draw(self, rng):
        return Field(rng.normal(size=(20, 20, 20)), grid_axes((20, 20, 20)))

class Nothing(fieldbench.Method):
    """Zero everywhere."""
    name = "nothing"
    def complete(self, observation, *, seed, device, report):
        return np.zeros(observation.values.shape)

class Work(fieldbench.Method):
    """Computes for a fixed amount of arithmetic on one core."""
    name = "work"
    rounds: int = fieldbench.parameter(100, "matrix products")
    def complete(self, observation, *, seed, device, report):
        square = np.random.default_rng(seed).normal(size=(150, 150))
        for _ in range(self.rounds):
            square = square @ square
            square /= np.abs(square).max()
        return np.zeros(observation.values.shape)

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Nothing, Work]

@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Small, Cube]
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["trial", "first", "records", "scaling"], action="append")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    wanted = arguments.only or ["trial", "first", "scaling", "records"]
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder) / "toys.py"
        plugin.write_text(TOYS)
        if "trial" in wanted:
            cost_of_a_trial(plugin, Path(folder), arguments.repeats)
        if "first" in wanted:
            time_to_first_trial(plugin, Path(folder), arguments.repeats)
        if "scaling" in wanted:
            scaling(plugin, arguments.repeats)
        if "records" in wanted:
            million_records(plugin, Path(folder), arguments.records)


def cost_of_a_trial(plugin: Path, folder: Path, repeats: int, trials: int = 1000) -> None:
    """Wall-clock time of a trial that does nothing, through judge and method's process, record on disk."""
    from fieldbench.execution import Options, Stop, execute
    from fieldbench.judging import draw
    from fieldbench.metric import score_all
    from fieldbench.store.run import RunStore

    for dataset, size in (("small", "8 x 8"), ("cube", "20 x 20 x 20")):
        plan, sources, registry = planned(plugin, "nothing", trials + 50, dataset=dataset)
        costs, bare = [], []
        for repeat in range(repeats):
            with RunStore.open(folder / f"cost-{dataset}-{repeat}", plan) as store:
                stream = execute(iter(plan), sources, Options(device="cpu", jobs=1), Stop())
                for record in itertools.islice(stream, 50):
                    store.append(record)
                start = time.perf_counter()
                for record in stream:
                    store.append(record)
                costs.append((time.perf_counter() - start) / trials)
        sample = list(itertools.islice(plan, 300))
        for _ in range(repeats):
            start = time.perf_counter()
            for trial in sample:
                drawn = draw(trial, registry)
                score_all(registry.metrics(), 0 * drawn.field.values, drawn.field, drawn.mask)
            bare.append((time.perf_counter() - start) / len(sample))
        total, alone = statistics.median(costs) * 1e3, statistics.median(bare) * 1e3
        say(f"a trial of {size}, warm processes, record on disk", f"{total:.2f} ms")
        say("  of it: drawing, observing and scoring", f"{alone:.2f} ms")
        say("  of it: scheduling, judge, method's process, store", f"{total - alone:.2f} ms", "aim: under 2 ms")


def time_to_first_trial(plugin: Path, folder: Path, repeats: int) -> None:
    """From the start of `fieldbench run` to the first record on disk, for a plan of a million trials."""
    times = []
    for repeat in range(repeats):
        out = folder / f"first-{repeat}"
        command = ["run", "--methods", "nothing", "--datasets", "small", "--trials", "1000000", "--device", "cpu"]
        start_main = [sys.executable, "-c", "from fieldbench.cli.main import main; main()"]
        start = time.perf_counter()
        process = subprocess.Popen(
            [*start_main, *command, "--out", str(out), "--plugin", str(plugin)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        file = out / "trials.jsonl"
        while not (file.exists() and file.stat().st_size):
            time.sleep(0.002)
        times.append(time.perf_counter() - start)
        process.kill()
        process.wait()
    say("from the command to the first record of 1,000,000", f"{statistics.median(times):.2f} s")


def scaling(plugin: Path, repeats: int, trials: int = 60) -> None:
    """Throughput of one-core work in two slots over that in one, start-up of the workers left out."""
    from fieldbench.execution import Options, Stop, execute

    plan, sources, _ = planned(plugin, "work[rounds=200]", trials)
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(repeats):
        for jobs, found in speeds.items():
            stream = execute(iter(plan), sources, Options(device="cpu", jobs=jobs), Stop())
            for _ in range(4):
                next(stream)
            start = time.perf_counter()
            count = sum(1 for _ in stream)
            found.append(count / (time.perf_counter() - start))
    one, two = statistics.median(speeds[1]), statistics.median(speeds[2])
    say("trials a second in 1 and 2 slots", f"{one:.1f}, {two:.1f}", f"{two / one:.2f}x; aim: 1.9x")


def million_records(plugin: Path, folder: Path, count: int) -> None:
    """Planning, opening and tabling a run of many records, each in a process of its own."""
    run = folder / "many"
    cells, trials = 100, count // 100
    write_run(plugin, run, cells, trials)
    size = (run / "trials.jsonl").stat().st_size / 2**20
    say("records written", f"{cells * trials:,}", f"{size:.0f} MiB")
    for name in ("plan", "open", "table"):
        command = [sys.executable, __file__, "--measure", name, str(plugin), str(run), str(cells), str(trials)]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        aim = "aim: under 10 s and 1 GiB" if name == "table" else ""
        what = {
            "plan": "plan them: make every trial and its key",
            "open": "open the run: learn what is finished",
            "table": "table them: read, group, format",
        }[name]
        say(what, f"{answer['seconds']:.1f} s, {answer['memory'] / 2**20:.0f} MiB", aim)


def write_run(plugin: Path, run: Path, cells: int, trials: int) -> None:
    from fieldbench.records import Record, encode
    from fieldbench.store.run import RunStore

    plan, _, _ = planned(plugin, *many(cells, trials))
    RunStore.open(run, plan).close()
    with (run / "trials.jsonl").open("wb") as file:
        for number, trial in enumerate(plan):
            score = 1 + (number * 7919 % 10007) / 10007
            names = ("mae", "nmse", "rmse")
            metrics = dict.fromkeys((*names, *(f"{name}.unobserved" for name in names)), score)
            curve = {"step": list(range(0, 500, 25)), "rmse": [score] * 20}
            diagnostics = {"curve": curve, "observed": 9, "batch": 1}
            record = Record(trial, "ok", "", metrics, score / 100, "cpu", 5 * 10**7, diagnostics=diagnostics)
            file.write(encode(record.as_row()))


def measure(name: str, plugin: Path, run: Path, cells: int, trials: int) -> None:
    """Do one thing and print what it took; the imports, which every command pays anyway, come first."""
    from fieldbench.results import Results
    from fieldbench.store.run import RunStore

    plan, _, _ = planned(plugin, *many(cells, trials))
    if name == "table":
        import pandas  # noqa: F401
    start = time.perf_counter()
    if name == "plan":
        for trial in plan:
            trial.key  # noqa: B018
    elif name == "open":
        RunStore.open(run, plan).close()
    else:
        str(Results(run).table())
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def many(cells: int, trials: int) -> tuple[str, int, list[float]]:
    return "nothing", trials, [round((number + 1) / (2 * cells), 6) for number in range(cells)]


def planned(  # type: ignore[no-untyped-def]
    plugin: Path, method: str, trials: int, rates: list[float] | None = None, dataset: str = "small"
):
    from fieldbench.plan import Plan, Request
    from fieldbench.registry import Registry, Sources

    sources = Sources(files=(str(plugin),))
    registry = Registry(sources)
    request = Request(methods=method, datasets=dataset, trials=trials, rates=rates or [0.3])
    return Plan(request, registry), sources, registry


def say(what: str, figure: str, note: str = "") -> None:
    print(f"{what:<58} {figure:>18}  {note}".rstrip(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        _, _, name, plugin, run, cells, trials = sys.argv
        measure(name, Path(plugin), Path(run), int(cells), int(trials))
    else:
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
        main()
