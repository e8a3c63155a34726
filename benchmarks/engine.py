"""Timings of the training engines of tap, mhtap and tnn: plain twin, fast engine, batches.

    python benchmarks/engine.py speed          one epoch of every engine on the same work, with ratios
    python benchmarks/engine.py roofline       what each loop of the fast CPU engine does and reaches
    python benchmarks/engine.py profile tap    where an epoch's time goes
    python benchmarks/engine.py errors         final errors of plain twin and fast engine over seeds
    python benchmarks/engine.py memory         a 100 x 100 x 100 field with 4913 cubes

On the CPU everything runs on one thread, and times are processor times of the thread, so that whatever
else the machine does distorts them less; with --device cuda times are wall-clock, synchronised.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from fieldbench import NullReport
from fieldbench_methods.fieldformer import engine as engine_module
from fieldbench_methods.fieldformer import kernels
from fieldbench_methods.fieldformer.design import Design, Schedule
from fieldbench_methods.fieldformer.engine import Engine
from fieldbench_methods.fieldformer.fit import fit_fast, fit_on_gpu, fit_plain
from fieldbench_methods.fieldformer.methods import MHTAP, TAP
from fieldbench_methods.fieldformer.network import TensorAttention
from fieldbench_methods.fieldformer.sparsemax import sorted_sparsemax
from fieldbench_methods.fieldformer.training import train
from fieldbench_methods.scaling import Scaling
from fieldbench_methods.self_supervised import Problem, Relay
from fieldbench_methods.tnn import TNN
from fieldbench_methods.tnn.engine import TNNEngine as TensorEngine
from fieldbench_methods.tnn.fit import fit_plain as fit_plain_tnn
from fieldbench_methods.tnn.network import TensorNetwork
from fieldbench_methods.tv.penalty import Smoothness

SOUND_SPEED, RADIO_MAP = (20, 20, 20), (51, 51, 64)
try:
    from sparsemax import Sparsemax

    by_sorting, SORTED_BY = Sparsemax(dim=-1), "the package sparsemax"
except ImportError:
    by_sorting, SORTED_BY = (
        sorted_sparsemax,
        "fieldbench's own SparseMax by sorting",
    )

CASES: dict[str, tuple[Any, tuple[int, ...], bool]] = {
    "tap": (TAP(), SOUND_SPEED, False),
    "mhtap": (MHTAP(), SOUND_SPEED, False),
    "tap-softmax": (TAP(activation="softmax"), SOUND_SPEED, False),
    "tap-radio": (TAP(), RADIO_MAP, False),
    "tap-radio-tv": (TAP(), RADIO_MAP, True),
    "mhtap-radio": (MHTAP(), RADIO_MAP, False),
}
WARM = 60
"""Epochs before timing, after which the support has found its size."""


def field_of(shape: Sequence[int]) -> np.ndarray:
    """A smooth field in [-1, 1]."""
    grids = np.meshgrid(*(np.linspace(0, 1, size) for size in shape), indexing="ij")
    return np.sin(6 * grids[0] + 2 * grids[1]) * np.cos(5 * grids[2]) * (1 - 0.5 * grids[1])


def problem_of(shape: tuple[int, ...], rate: float, seed: int, variation: bool = False) -> Problem:
    """A share of the field observed: fibers along the last axis for radio maps, scattered entries else."""
    generator = np.random.default_rng(seed)
    mask = generator.random(shape) < rate
    if shape == RADIO_MAP:
        mask = np.repeat(generator.random((*shape[:2], 1)) < rate, shape[2], axis=2)
    smoothness = Smoothness("second-order", (0, 1), 0.03) if variation else None
    return Problem(np.where(mask, field_of(shape), 0.0), mask, seed, Relay(NullReport(), Scaling(0.0, 1.0)), smoothness)


def cubes_of(design: Design, problem: Problem) -> np.ndarray:
    return design.geometry.extract(problem.target.astype(np.float32))


class StandIn(TensorAttention):
    """The released program's way, for comparison: SparseMax by sorting, torch's own dropout, autograd."""

    def attention(self, query: torch.Tensor, key: torch.Tensor, step: torch.Tensor | None) -> torch.Tensor:
        design, drop = self.design, torch.nn.functional.dropout
        queries = torch.nn.functional.normalize(torch.einsum("bnk,bkhm->bhnm", self.cubes, query), dim=-1)
        keys = torch.nn.functional.normalize(torch.einsum("bnk,bkhm->bhnm", self.cubes, key), dim=-1)
        scores = (queries @ keys.transpose(-1, -2)).transpose(1, 2).flatten(2) * design.score_scale
        scores = drop(scores, design.dropout, step is not None)
        weights = by_sorting(scores) if design.activation == "sparsemax" else scores.softmax(-1)
        return drop(weights, design.core_dropout, step is not None)


def stand_in(
    design: Design, cubes: Sequence[np.ndarray], problems: Sequence[Problem], schedule: Schedule, device: str
) -> list[np.ndarray]:
    seeds = [problem.seed for problem in problems]
    network = StandIn(design, torch.from_numpy(np.stack(cubes)).to(device), seeds, schedule.epochs)
    return train(network, [design.initial(seed) for seed in seeds], problems, schedule, device)


def seconds(work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.thread_time) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return statistics.median(times)


def an_epoch(run: Callable[[Schedule], object], epochs: int, device: str = "cpu") -> float:
    """Seconds an epoch of a whole training run: a longer run less a shorter one, so that its start does not count."""
    clock = time.thread_time if device == "cpu" else synchronised
    run(Schedule(2, 4e-3, 0.01))
    short, long = (seconds(lambda n=n: run(Schedule(n, 4e-3, 0.01)), 3, clock) for n in (2, 2 + epochs))
    return (long - short) / epochs


def synchronised() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def warm_engine(case: str) -> Engine:
    method, shape, variation = CASES[case]
    design, problem = method.design(shape), problem_of(shape, 0.1, 0, variation)
    engine = Engine(design, cubes_of(design, problem), problem, Schedule(10_000, 4e-3, 0.01))
    for _ in range(WARM):
        engine.step()
    return engine


def speed(options: argparse.Namespace) -> None:
    """Milliseconds an epoch and trial; ratios to the stand-in of the released program on the same device."""
    rows = on_gpu_rows if options.device != "cpu" else on_cpu_rows
    print(f"milliseconds an epoch and trial, {machine(options.device)}")
    print(f"the stand-in of the released program sorts with {SORTED_BY}")
    for case in options.cases or ["tap", "mhtap", "tap-radio", "mhtap-radio", "tnn"]:
        found = rows(case)
        for what, value in found.items():
            ratio = next(iter(found.values())) / value
            print(f"{case:12s} {what:36s} {1e3 * value:9.3f} ms   x {ratio:6.2f}", flush=True)


def machine(device: str) -> str:
    if device == "cpu":
        return "one CPU thread"
    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


def on_cpu_rows(case: str) -> dict[str, float]:
    if case == "tnn":
        network, problems = tensor_networks()
        engine = TensorEngine(network, network.uniform(0), problems[0], Schedule(100_000, 4e-3, 0.01))
        engine.step()
        return {
            "plain twin": an_epoch(lambda s: fit_plain_tnn(network, network.uniform, problems[:1], s, "cpu"), 100),
            "plain twin, batch of 10": an_epoch(
                lambda s: fit_plain_tnn(network, network.uniform, problems, s, "cpu"), 50
            )
            / 10,
            "fast engine": seconds(engine.step, 500),
        }
    design, problems, cubes = trials_of(case, 1)
    return {
        "stand-in": an_epoch(lambda s: stand_in(design, cubes, problems, s, "cpu"), 4),
        "plain twin": an_epoch(lambda s: fit_plain(design, cubes, problems, s, "cpu"), 4),
        "fast engine": seconds(warm_engine(case).step, 60),
    }


def on_gpu_rows(case: str) -> dict[str, float]:
    if case == "tnn":
        network, problems = tensor_networks()

        def run(size: int, recorded: bool) -> float:
            part = problems[:size]
            work = lambda s: fit_plain_tnn(network, network.uniform, part, s, "cuda", recorded=recorded)  # noqa: E731
            return an_epoch(work, 500, "cuda") / size

        return {
            "plain twin": run(1, False),
            "recorded": run(1, True),
            "recorded, batch of 10": run(10, True),
        }
    design, problems, cubes = trials_of(case, 10)
    first, one = cubes[:1], problems[:1]
    return {
        "stand-in": an_epoch(lambda s: stand_in(design, first, one, s, "cuda"), 100, "cuda"),
        "plain twin": an_epoch(lambda s: fit_plain(design, first, one, s, "cuda"), 100, "cuda"),
        "plain twin, batch of 10": an_epoch(lambda s: fit_plain(design, cubes, problems, s, "cuda"), 50, "cuda") / 10,
        "fused and recorded": an_epoch(lambda s: fit_on_gpu(design, first, one, s, "cuda"), 500, "cuda"),
        "fused and recorded, batch of 10": an_epoch(
            lambda s: fit_on_gpu(design, cubes, problems, s, "cuda"), 500, "cuda"
        )
        / 10,
    }


def trials_of(case: str, size: int) -> tuple[Design, list[Problem], list[np.ndarray]]:
    method, shape, variation = CASES[case]
    design, problems = method.design(shape), [problem_of(shape, 0.1, seed, variation) for seed in range(size)]
    return design, problems, [cubes_of(design, problem) for problem in problems]


def tensor_networks() -> tuple[TensorNetwork, list[Problem]]:
    """TNN on the sound speed field's shape."""
    return TNN().network(SOUND_SPEED), [problem_of(SOUND_SPEED, 0.1, seed) for seed in range(10)]


def slots_of(starts: np.ndarray, rows: np.ndarray) -> int:
    return int((starts[rows + 1] - starts[rows]).sum())


OPERATIONS: dict[str, Callable[..., float]] = {
    "dot": lambda left, right, **_: 2 * left.size * right.shape[1],
    "put_grouped_product": lambda rows, starts, counts, *given: 2 * (np.diff(rows) * counts).sum() * given[-1].shape[1],
    "put_product": lambda starts, ends, skipped, columns, values, dense, result: (
        2 * int((ends[-1] - starts[: ends.shape[1]])[skipped : skipped + len(result)].sum()) * result.shape[1]
    ),
    "contract": lambda starts, *given: 2 * starts[-1] * given[-2],
    "contract_gradient": lambda starts, *given: 4 * slots_of(starts, given[6]) * given[8],
    "contract_lines": lambda tensor, factor, others, *_: 2 * len(others) * tensor[..., 0].size,
    "contract_lines_gradient": lambda tensor, factor, others, *_: 4 * len(others) * tensor[..., 0].size,
}
"""Floating-point operations of the products, from what they are given."""


def roofline(options: argparse.Namespace) -> None:
    """For each loop of an epoch: time, operations, bytes of the arrays it is given (each once), and their rates."""
    left, right = (np.random.default_rng(0).random(shape, dtype=np.float32) for shape in ((800, 288), (288, 800)))
    out, groups = left @ right, engine_module.GroupedMatrix(left)
    for name, work in ("numpy", lambda: np.dot(left, right, out=out)), ("own", lambda: groups.times(right, out)):
        peak = 2 * left.size * 800 / min(seconds(work, 1) for _ in range(30)) / 1e9
        print(f"single-precision matrix product, 800 x 288 x 800, one thread, {name}: {peak:.0f} GFLOP/s")
    for size in (1 << 16, 1 << 20, 1 << 25):
        source, target = np.zeros(size, np.float32), np.ones(size, np.float32)
        moved = 8 * size / min(seconds(lambda s=source, t=target: np.copyto(t, s), 1) for _ in range(30)) / 1e9
        print(f"copying {4 * size / 1e6:.1f} MB: {moved:.0f} GB/s read and written")
    for case in options.cases or ["tap-radio", "mhtap-radio"]:
        total, spent = watched(case)
        flop, size = (sum(counts.values()) for counts in (spent.operations, spent.bytes))
        print(
            f"{case}: {1e3 * total:.2f} ms an epoch, {flop / 1e6:.0f} MFLOP in products, "
            f"{flop / total / 1e9:.0f} GFLOP/s"
        )
        print("      ms  share  MFLOP  GFLOP/s     MB   GB/s")
        for name, duration in spent.seconds.most_common(16):
            flop, size = spent.operations[name], spent.bytes[name]
            print(
                f"{1e3 * duration:8.3f} {duration / total:6.1%} {flop / 1e6:6.1f} {flop / duration / 1e9:8.0f} "
                f"{size / 1e6:6.1f} {size / duration / 1e9:6.0f}  {name}",
                flush=True,
            )


class Spent:
    """Seconds, operations and bytes of each function, of an epoch."""

    def __init__(self) -> None:
        self.seconds, self.operations, self.bytes = Counter[str](), Counter[str](), Counter[str]()


class Stopwatch:
    """Stands in for a module and adds up the time of each of its functions."""

    def __init__(self, module: Any, only: Sequence[str], spent: Spent, rounds: int) -> None:
        self._module, self._only, self._spent, self._rounds = module, only, spent, rounds

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)
        if name not in self._only:
            return function

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            result = function(*arguments, **options)
            duration = time.thread_time() - start
            arrays = [value for value in (*arguments, *options.values()) if isinstance(value, np.ndarray)]
            for counter, amount in (
                (self._spent.seconds, duration),
                (self._spent.operations, OPERATIONS.get(name, lambda *_: 0)(*arguments, **options)),
                (self._spent.bytes, sum(array.nbytes for array in arrays)),
            ):
                counter[name] += amount / self._rounds  # type: ignore[assignment]
            return result

        return timed


def watched(case: str, rounds: int = 50) -> tuple[float, Spent]:
    """Seconds of an epoch of the fast engine, and what its functions spend."""
    names = [name for name in vars(kernels) if callable(getattr(kernels, name)) and not name.startswith("_")]
    engine, spent = warm_engine(case), Spent()
    total = seconds(engine.step, rounds)
    engine_module.kernels = Stopwatch(kernels, names, spent, rounds)  # type: ignore[assignment]
    engine_module.np = Stopwatch(np, ["dot"], spent, rounds)  # type: ignore[assignment]
    for _ in range(rounds):
        engine.step()
    engine_module.kernels, engine_module.np = kernels, np
    return total, spent


def profile(options: argparse.Namespace) -> None:
    """Where one epoch's time goes before (the stand-in of the released program) and after."""
    for case in options.cases or ["tap"]:
        design, problems, cubes = trials_of(case, 10 if options.device != "cpu" else 1)
        before = lambda s: stand_in(design, cubes, problems, s, options.device)  # noqa: E731, B023
        profile_torch(f"{case}, stand-in", before, options.device)
        if options.device == "cpu":
            total, spent = watched(case)
            print_profile(f"{case}, fast engine", spent.seconds, total)
        else:
            after = lambda s: fit_on_gpu(design, cubes, problems, s, "cuda")  # noqa: E731, B023
            profile_torch(f"{case}, fused and recorded", after, "cuda")


def profile_torch(name: str, run: Callable[[Schedule], object], device: str) -> None:
    """The operations, or kernels, of an epoch: those of a longer training less those of a shorter one."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    epochs = 10 if device == "cpu" else 50
    activity = ProfilerActivity.CPU if device == "cpu" else ProfilerActivity.CUDA
    run(Schedule(2, 4e-3, 0.01))
    spent = Counter[str]()
    for number, sign in ((2, -1), (2 + epochs, 1)):
        with recording(activities=[activity]) as found:
            run(Schedule(number, 4e-3, 0.01))
        for event in found.key_averages():
            duration = event.self_cpu_time_total if device == "cpu" else event.self_device_time_total
            spent[event.key] += sign * duration / epochs / 1e6  # type: ignore[assignment]
    print_profile(name, spent, sum(spent.values()))


def print_profile(name: str, spent: Counter[str], total: float) -> None:
    print(f"{name}: {1e3 * total:.2f} ms an epoch")
    for what, duration in spent.most_common(12):
        print(f"  {1e3 * duration:8.3f} ms {duration / total:5.1%}  {what[:90]}")


def errors(options: argparse.Namespace) -> None:
    """Error of the final estimate over all entries, in the field's unit, of every engine on the same trials.

    The stand-in draws its dropout from torch, so that its trials are others; the rest share every seed.
    """
    from joblib import Parallel, delayed

    from fieldbench.registry import Registry, Sources
    from fieldbench.sampler import RandomEntries, observe

    field = Registry(Sources()).dataset(options.dataset).draw(np.random.default_rng(1000))
    schedule = Schedule(options.epochs, 4e-3, 0.01)
    print(
        f"{options.dataset}, 10 % observed, {options.epochs} epochs, {options.seeds} seeds, {machine(options.device)}"
    )
    for method in (TAP(), MHTAP()):
        design, problems, scalings = method.design(field.shape), [], []
        for seed in range(1000, 1000 + options.seeds):
            mask = RandomEntries().draw(field.valid, field.axes, 0.1, np.random.default_rng(seed))
            values = observe(field, mask, np.zeros(field.shape)).filled(0.0)
            scaling = Scaling(0.0, np.abs(values).max())
            scalings.append(scaling)
            problems.append(Problem(scaling.forward(values), mask, seed, Relay(NullReport(), scaling)))
        cubes = [cubes_of(design, problem) for problem in problems]
        fast = delayed(fit_fast)
        estimates = {
            "stand-in": stand_in(design, cubes, problems, schedule, options.device),
            "plain twin": [] if options.without_plain else fit_plain(design, cubes, problems, schedule, options.device),
            "fast engine, CPU": Parallel(options.jobs)(
                fast(design, *trial, schedule) for trial in zip(cubes, problems, strict=True)
            ),
        }
        if options.device != "cpu":
            estimates["fused and recorded, GPU"] = fit_on_gpu(design, cubes, problems, schedule, options.device)
        for name, found in estimates.items():
            if not found:
                continue
            scores = [
                float(np.sqrt(np.mean((scaling.inverse(estimate) - field.values) ** 2)))
                for estimate, scaling in zip(found, scalings, strict=True)
            ]
            print(
                f"{method.name:6s} {name:24s} {np.mean(scores):.4f} ({np.std(scores, ddof=1):.4f})  "
                + " ".join(f"{score:.4f}" for score in scores),
                flush=True,
            )


def memory(options: argparse.Namespace) -> None:
    """A 100 x 100 x 100 field with more and more cubes: time and peak memory of the fast engine."""
    shape, problem = (100, 100, 100), problem_of((100, 100, 100), 0.05, 0)
    for stride in (10, 8, 6, 5):
        design = TAP(window=20, stride=stride, latent=64).design(shape)
        count = design.geometry.cubes
        engine = Engine(design, cubes_of(design, problem), problem, Schedule(100, 4e-3, 0.01))
        seconds(engine.step, 4)
        duration = seconds(engine.step, 5)
        print(
            f"{count} cubes, density {engine.density:.3f}: {duration:.3f} s an epoch, "
            f"{1e9 * duration / count**2:.0f} ns for each pair of cubes; the attention map alone would be "
            f"{4 * count**2 / 1e6:.0f} MB, peak resident memory so far "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["speed", "roofline", "profile", "errors", "memory"])
    parser.add_argument("cases", nargs="*", help=f"some of: {', '.join(CASES)}")
    parser.add_argument("--epochs", type=int, default=1000, help="of the errors mode")
    parser.add_argument("--seeds", type=int, default=10, help="of the errors mode")
    parser.add_argument("--dataset", default="ssf", help="of the errors mode")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; of all but the fast CPU engine")
    parser.add_argument("--without-plain", action="store_true", help="leave the plain twin out of the errors mode")
    parser.add_argument("--jobs", type=int, default=1, help="processes of the fast CPU engine in the errors mode")
    options = parser.parse_args()
    torch.set_num_threads(1)
    threadpool_limits(1)
    {"speed": speed, "roofline": roofline, "profile": profile, "errors": errors, "memory": memory}[options.mode](
        options
    )


if __name__ == "__main__":
    main()
