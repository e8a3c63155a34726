"""Two slots on a real GPU, where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldbench.execution import Options, Stop, execute, slots
from fieldbench.execution.machine import visible_gpus
from fieldbench.plan import Plan, Request
from fieldbench.records import Record
from fieldbench.registry import Registry, Sources

PLUGIN = '''
import time
import numpy as np
import fieldbench
from fieldbench.field import Field, grid_axes

class Wave(fieldbench.Dataset):
    """A plane wave of random phase."""
    name = "wave"
    def draw(self, rng):
        return Field(np.sin(np.arange(30.0).reshape(6, 5) + 6 * rng.random()), grid_axes((6, 5)))

class OnGpu(fieldbench.Method):
    """The mean of what is observed, by way of the GPU."""
    name = "on-gpu"
    uses_gpu = True
    hoard: int = fieldbench.parameter(0, "GiB of GPU memory to take at once")
    def complete(self, observation, *, seed, device, report):
        import torch
        values = torch.tensor(observation.values, device=device)
        known = torch.tensor(observation.mask, device=device)
        torch.empty(self.hoard, 2**30, dtype=torch.uint8, device=device)
        time.sleep(0.3)
        return values[known].mean().expand(values.shape)

class OnCpu(OnGpu):
    """The same without it."""
    name = "on-cpu"
    uses_gpu = False

@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Wave]

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [OnGpu, OnCpu]
'''

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="there is no GPU that torch could use")


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    file = tmp_path / "on_gpu.py"
    file.write_text(PLUGIN)
    return Sources(files=(str(file),))


def run(sources: Sources, methods: list[str], options: Options) -> list[Record]:
    plan = Plan(Request(methods=methods, datasets="wave", rates=[0.3], trials=6), Registry(sources))
    return list(execute(iter(plan), sources, options, Stop()))


def test_two_slots_share_a_gpu_while_the_cpu_works(sources: Sources) -> None:
    options = Options(device="cuda:0", slots_per_device=2, jobs=1)
    assert [slot.name for slot in slots(options)] == ["cuda:0", "cuda:0", "cpu"]
    found = run(sources, ["on-gpu", "on-cpu"], options)
    assert {record.status for record in found} == {"ok"}
    assert {(record.trial.cell.method, record.device) for record in found} == {("on-gpu", "cuda:0"), ("on-cpu", "cpu")}
    assert max(record.slots for record in found) == 3
    assert all(record.diagnostics["peak_gpu_memory"] > 0 for record in found if record.device == "cuda:0")
    scores = {method: {r.trial.number: r.metrics["rmse"] for r in found if r.trial.cell.method == method} for method in
              ("on-gpu", "on-cpu")}  # fmt: skip
    assert scores["on-gpu"] == pytest.approx(scores["on-cpu"], rel=1e-12)


def test_running_out_of_gpu_memory_costs_one_method(sources: Sources) -> None:
    found = run(sources, ["on-gpu", "on-gpu[hoard=4000]"], Options(device="cuda:0", slots_per_device=2, jobs=1))
    assert {record.trial.cell.method: record.status for record in found} == {
        "on-gpu": "ok",
        "on-gpu[hoard=4000]": "out-of-memory",
    }
