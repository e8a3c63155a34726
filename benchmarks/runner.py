"""What the harness itself costs: per trial, until the first trial, per million records, and from 1 to 2 slots.

    python benchmarks/runner.py                 all of it, on an otherwise idle machine
    python benchmarks/runner.py --only records --records 1000000
    python benchmarks/runner.py --only trial --only scaling --only table --against HEAD~20

With ``--against`` the same figures are taken of another commit as well, by turns, and their ratio is printed. What is
called here is what commits from 4fd8557 on have in common.

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
import tomllib
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
    parser.add_argument("--only", choices=["trial", "first", "table", "scaling", "records"], action="append")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trials", type=int, default=1000, help="of which the cost of a trial is the mean")
    parser.add_argument("--against", metavar="COMMIT", help="take the figures of this commit as well")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each of the two")
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    global _RAW
    _RAW = arguments.raw
    wanted = arguments.only or ["trial", "first", "table", "scaling", "records"]
    if arguments.against:
        what = [*(f"--only={name}" for name in wanted), f"--trials={arguments.trials}"]
        compare(arguments.against, arguments.rounds, [*what, f"--records={arguments.records}"])
        return
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder) / "toys.py"
        plugin.write_text(TOYS)
        if "trial" in wanted:
            cost_of_a_trial(plugin, Path(folder), arguments.repeats, arguments.trials)
        if "first" in wanted:
            time_to_first_trial(plugin, Path(folder), arguments.repeats)
        if "table" in wanted:
            first_table(Path(folder), arguments.repeats)
        if "scaling" in wanted:
            scaling(plugin, arguments.repeats)
        if "records" in wanted:
            million_records(plugin, Path(folder), arguments.records)


def compare(commit: str, rounds: int, what: list[str]) -> None:
    """Figures of this tree and of another commit, by turns: medians, and how many times the other's they are."""
    here = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", here, "archive", commit], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        trees = {"before": Path(folder), "after": here}
        paths = {name: python_path(tree, Path(folder) / name) for name, tree in trees.items()}
        found: dict[str, dict[str, list[float]]] = {}
        units: dict[str, str] = {}
        for _ in range(rounds):
            for name, path in paths.items():
                answer = subprocess.run(
                    [sys.executable, __file__, *what, "--raw", "--repeats", "1"],
                    env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},  # nothing of where this is called
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                for line in answer.stdout.splitlines():
                    figure, value, units[figure], _ = json.loads(line)
                    found.setdefault(figure, {}).setdefault(name, []).append(value)
    print(f"{'':<58} {commit[:12]:>12} {'here':>12}   ratio")
    for figure, values in found.items():
        before, after = (statistics.median(values.get(name, [float("nan")])) for name in ("before", "after"))
        print(f"{figure:<58} {before:>12.2f} {after:>12.2f}   {after / before:.2f}  {units[figure]}")


def python_path(tree: Path, installed: Path) -> str:
    """PYTHONPATH under which a checkout is what is imported, and its entry points are those that are found."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    points = [f"{name} = {module}" for name, module in project["entry-points"]["fieldbench"].items()]
    # The first hides the distribution that is installed; older commits had another name.
    for name, lines in {"fieldbench-completion": [], project["name"]: ["[fieldbench]", *points]}.items():
        metadata = installed / f"{name.replace('-', '_')}-0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 0\n")
        (metadata / "entry_points.txt").write_text("\n".join(lines))
    return os.pathsep.join(map(str, [installed, tree, tree / "plugins", tree / "datasets"]))


def cost_of_a_trial(plugin: Path, folder: Path, repeats: int, trials: int) -> None:
    """Wall-clock time of a trial that does nothing, through judge and method's process, record on disk."""
    import fieldbench
    from fieldbench.execution import Options, Stop, execute
    from fieldbench.judging import draw
    from fieldbench.metric import score_all
    from fieldbench.store.run import RunStore

    as_estimate = getattr(fieldbench, "Estimate", lambda array: array)  # older commits score plain arrays
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
                score_all(registry.metrics(), as_estimate(0.0 * drawn.field.values), drawn.field, drawn.mask)
            bare.append((time.perf_counter() - start) / len(sample))
        total, alone = statistics.median(costs) * 1e3, statistics.median(bare) * 1e3
        say(f"a trial of {size}, warm processes, record on disk", total, "ms")
        say(f"  of it, {size}: drawing, observing and scoring", alone, "ms")
        say(f"  of it, {size}: scheduling, processes, store", total - alone, "ms", "aim: under 2 ms")


def time_to_first_trial(plugin: Path, folder: Path, repeats: int) -> None:
    """From the start of `fieldbench run` to the first record on disk, for a plan of a million trials."""
    times = []
    for repeat in range(repeats):
        out = folder / f"first-{repeat}"
        command = ["run", "--methods", "nothing", "--datasets", "small", "--trials", "1000000", "--device", "cpu"]
        start_main = [sys.executable, "-c", "from fieldbench.cli.main import main; main()"]
        start = time.perf_counter()
        said, file = folder / "said", out / "trials.jsonl"
        with said.open("w") as stream:
            process = subprocess.Popen(
                [*start_main, *command, "--out", str(out), "--plugin", str(plugin)], stdout=stream, stderr=stream
            )
        while not (file.exists() and file.stat().st_size):
            time.sleep(0.002)
            assert process.poll() is None, f"it ended before its first record: {said.read_text()}"
        times.append(time.perf_counter() - start)
        process.kill()
        process.wait()
    say("from the command to the first record of 1,000,000", statistics.median(times), "s")


def first_table(folder: Path, repeats: int) -> None:
    """From the command to its table, two cheap methods on a simulated field."""
    times = []
    for repeat in range(repeats):
        command = ["run", "--methods", "nearest,thin-plate", "--datasets", "ssf-synthetic", "--device", "cpu"]
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fieldbench", *command, "--out", str(folder / f"table-{repeat}")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        times.append(time.perf_counter() - start)
    say("from the command to the table of nearest,thin-plate", statistics.median(times), "s", "aim: within 5 s")


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
    say("trials a second in 1 slot", one, "")
    say("trials a second in 2 slots", two, "")
    say("  in 2 slots, times those in 1", two / one, "x", "aim: 1.9")


def million_records(plugin: Path, folder: Path, count: int) -> None:
    """Planning, opening and tabling a run of many records, each in a process of its own."""
    run = folder / "many"
    cells, trials = 100, count // 100
    write_run(plugin, run, cells, trials)
    size = (run / "trials.jsonl").stat().st_size / 2**20
    say(f"{cells * trials:,} records on disk", size, "MiB")
    for name in ("plan", "open", "table", "again"):
        command = [sys.executable, __file__, "--measure", name, str(plugin), str(run), str(cells), str(trials)]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        aims = {"table": ("aim: 10 s a million", "aim: under 1 GiB a million"), "again": ("aim: 6 s a million", "")}
        time_aim, memory_aim = aims.get(name, ("", ""))
        what = {
            "plan": "plan them: make every trial and its key",
            "open": "open the run: learn what is finished",
            "table": "table them: read, keep as columns, group, format",
            "again": "table them again: from the columns",
        }[name]
        say(what, answer["seconds"], "s", time_aim)
        say(f"  memory of it: {name}", answer["memory"] / 2**20, "MiB", memory_aim)


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
    if name in ("table", "again"):
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


_RAW = False


def say(what: str, figure: float, unit: str, aim: str = "") -> None:
    line = json.dumps([what, figure, unit, aim]) if _RAW else f"{what:<58} {figure:>12.2f} {unit:<4} {aim}".rstrip()
    print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        _, _, name, plugin, run, cells, trials = sys.argv
        measure(name, Path(plugin), Path(run), int(cells), int(trials))
    else:
        if "--raw" not in sys.argv:
            print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
        main()
