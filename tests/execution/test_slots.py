"""Devices that are found, the slots made of them, and what their workers are like."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from fieldbench.errors import RequestError
from fieldbench.execution import Options, Stop, execute, machine, slots
from fieldbench.execution.machine import Gpu, Slot, cores, gpu_lock, visible_gpus
from tests.execution.conftest import SOURCES, plan, records

NVIDIA_SMI = """#!/bin/sh
echo "GPU-aaaa, NVIDIA H100, 81559, 550.54"
echo "GPU-bbbb, NVIDIA H100, 81559, 550.54"
echo "GPU-cccc, NVIDIA A2, 15356, 550.54"
"""


@pytest.fixture
def three_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with three GPUs, as far as can be seen without using one."""
    program = tmp_path / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(machine, "torch_has_cuda", lambda: True)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[Gpu]:
    """Devices ``sim:0`` to ``sim:3``: workers that are told to use a GPU, on a machine that need not have any."""
    gpus = [Gpu(f"sim:{number}", str(number), inside="sim:0") for number in range(4)]
    monkeypatch.setattr(machine, "visible_gpus", lambda: gpus)
    return gpus


@pytest.mark.usefixtures("three_gpus")
class TestGpus:
    @pytest.mark.parametrize(
        ("visible", "tokens"),
        [
            (None, ["GPU-aaaa", "GPU-bbbb", "GPU-cccc"]),
            ("2,0", ["2", "0"]),
            ("GPU-bbbb", ["GPU-bbbb"]),
            ("GPU-bb,2", ["GPU-bb", "2"]),  # the beginning of a UUID will do for CUDA
            ("", []),
            ("-1", []),
            ("1,-1,2", ["1"]),  # CUDA reads no further than an entry that is not a device
            ("7", []),
        ],
    )
    def test_the_visible_ones_are_found(
        self, monkeypatch: pytest.MonkeyPatch, visible: str | None, tokens: list[str]
    ) -> None:
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        found = visible_gpus()
        assert [gpu.token for gpu in found] == tokens
        assert [gpu.name for gpu in found] == [f"cuda:{number}" for number in range(len(tokens))]

    def test_a_gpu_has_one_lock_whatever_it_is_called(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = set()
        for visible in ("GPU-bbbb", "GPU-bb", "1"):
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
            names.add(slots(Options(device="cuda", jobs=1))[0].token)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        names.add(slots(Options(device="cuda:1", jobs=1))[0].token)
        assert names == {"GPU-bbbb-0"}

    def test_a_visible_one_keeps_its_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
        assert [gpu.model for gpu in visible_gpus()] == ["NVIDIA A2", "NVIDIA H100"]

    def test_a_torch_without_cuda_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "torch_has_cuda", lambda: False)
        assert visible_gpus() == []

    def test_some_of_them_can_be_chosen(self) -> None:
        chosen = slots(Options(device="cuda:0,cuda:2", slots_per_device=2, jobs=1))
        assert [slot.name for slot in chosen] == ["cuda:0", "cuda:2", "cuda:0", "cuda:2", "cpu"]
        assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in chosen] == [
            *("GPU-aaaa", "GPU-cccc", "GPU-aaaa", "GPU-cccc"),
            "",
        ]
        assert {slot.device for slot in chosen} == {"cuda:0", "cpu"}

    def test_auto_takes_all(self) -> None:
        assert [slot.name for slot in slots(Options(jobs=1))] == ["cuda:0", "cuda:1", "cuda:2", "cpu"]

    def test_the_cpu_alone_can_be_chosen(self) -> None:
        assert {slot.name for slot in slots(Options(device="cpu", jobs=3))} == {"cpu"}

    def test_timing_has_one_slot_of_each_kind(self) -> None:
        assert [slot.name for slot in slots(Options(timing=True, slots_per_device=3, jobs=4))] == ["cuda:0", "cpu"]

    def test_one_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(RequestError, match=r"'cuda:7' is not there; this machine has: cpu, cuda:0, cuda:1"):
            slots(Options(device="cuda:7"))


def test_a_machine_without_gpus_refuses_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "visible_gpus", list)
    with pytest.raises(RequestError, match="'cuda' is not there; this machine has: cpu"):
        slots(Options(device="cuda"))
    assert [slot.name for slot in slots(Options(device="auto"))] == ["cpu"] * cores()


@pytest.mark.parametrize("option", ["jobs", "threads", "slots_per_device", "timeout", "memory_limit"])
def test_limits_must_be_positive(option: str) -> None:
    with pytest.raises(RequestError, match=rf"{option.replace('_', '-')} is 0; it must be positive"):
        slots(Options(device="cpu", **{option: 0}))


def curves(found: Any) -> list[dict[str, float]]:
    """What the probe saw, one dictionary for each trial."""
    return [{name: values[0] for name, values in record.diagnostics["curve"].items()} for record in found]


def test_a_worker_has_its_threads_no_gpu_and_stays_warm() -> None:
    found = records("probe", 3, jobs=1, threads=3)
    seen = curves(found)
    assert {(probe["threads"], probe["numba"], probe["visible"], probe["gpu"]) for probe in seen} == {(3, 3, -1, 0)}
    assert len({probe["pid"] for probe in seen}) == 1
    assert [probe["calls"] for probe in seen] == [1, 2, 3]
    assert {record.device for record in found} == {"cpu"}
    assert {record.slots for record in found} == {1}


def test_every_simulated_device_gets_workers_of_its_own(simulated: list[Gpu]) -> None:
    options = Options(device="auto", jobs=1)
    found = list(execute(iter(plan("probe", 24)), SOURCES, options, Stop()))
    assert {record.status for record in found} == {"ok"}
    seen = curves(found)
    assert {probe["gpu"] for probe in seen} == {1}
    names = {f"sim:{number:g}" for number in {probe["visible"] for probe in seen}}
    assert {record.device for record in found} == names
    for record, probe in zip(found, seen, strict=True):
        assert record.device == f"sim:{probe['visible']:g}"
    assert len({probe["pid"] for probe in seen}) == len(names)
    assert 1 < max(record.slots for record in found) <= len(simulated)


def test_cpu_methods_work_while_gpus_are_busy(
    simulated: list[Gpu], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU's trials come first and end only when a CPU method has been at work."""
    monkeypatch.setenv("TOY_MARK", str(tmp_path / "mark"))
    options = Options(device="sim:0", jobs=1)
    found = list(execute(iter(plan(["waits-for-cpu", "marks-cpu"], 2)), SOURCES, options, Stop()))
    assert sorted((record.device, record.status) for record in found) == [
        *[("cpu", "ok")] * 2,
        *[("sim:0", "ok")] * 2,
    ]


def test_numbers_do_not_depend_on_the_number_of_slots() -> None:
    one, two = (
        {record.trial.key: record.metrics for record in records(["steady", "batched"], 6, jobs=jobs)} for jobs in (1, 2)
    )
    assert one == two


def test_timing_runs_one_at_a_time_after_a_trial_for_nothing() -> None:
    found = records(["probe", "batched"], 3, timing=True)
    assert [record.trial for record in found] == list(plan(["probe", "batched"], 3))
    assert [probe["calls"] for probe in curves(found[::2])] == [2, 3, 4]
    assert {record.diagnostics["batch"] for record in found} == {1}
    assert {record.slots for record in found} == {1}


def test_batches_are_computed_together() -> None:
    found = records("batched", 9, jobs=1)
    assert sorted(record.diagnostics["batch"] for record in found) == [1, *[4] * 8]


def test_runs_take_turns_on_a_gpu() -> None:
    """One holds the slot; the other gets it when it is given back."""
    slot = Slot("cuda:0", "cuda:0", token=f"test-{os.getpid()}")
    entered = threading.Event()

    def other() -> None:
        with gpu_lock(slot, lambda: False):
            entered.set()

    thread = threading.Thread(target=other)
    with gpu_lock(slot, lambda: False):
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(10)
    thread.join()


def test_one_who_waits_for_a_gpu_can_be_stopped() -> None:
    slot = Slot("cuda:0", "cuda:0", token=f"test-stop-{os.getpid()}")
    stop = Stop()
    stop.at_once()
    with gpu_lock(slot, lambda: False), gpu_lock(slot, lambda: stop.now):
        pass
