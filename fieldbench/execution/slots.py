"""Slots: the places of this machine where a trial can run, each with the environment of its worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fieldbench.errors import RequestError
from fieldbench.execution import devices
from fieldbench.execution.devices import Gpu
from fieldbench.execution.options import Options

Lane: TypeAlias = Literal["cpu", "gpu"]

#: What BLAS, OpenMP, torch, numba and their like read to learn how many threads to use.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)


@dataclass(frozen=True)
class Slot:
    """A place for one trial at a time.

    Attributes:
        name: the device as the user knows it: ``cpu``, ``cuda:2``.
        device: the device as the slot's worker sees it: ``cpu``, ``cuda:0``.
        environment: variables of the slot's worker, set before it imports anything.
        token: what tells a GPU's slot from all others on this machine; empty for the CPU.
    """

    name: str
    device: str
    environment: dict[str, str] = field(default_factory=dict)
    token: str = ""

    @property
    def lane(self) -> Lane:
        """``cpu`` or ``gpu``: which methods the slot is for."""
        return "cpu" if self.device == "cpu" else "gpu"


def slots(options: Options) -> list[Slot]:
    """The slots of this machine, GPUs first.

    Besides the GPUs there are always CPU slots, for methods that cannot use a GPU: as many as ``jobs``, or
    one for each core that no GPU slot keeps busy.

    Raises:
        RequestError: for a device that is not there, or a count below one.
    """
    _check_counts(options)
    threads = {name: str(options.threads) for name in THREAD_VARIABLES}
    gpus = _chosen(options.device)
    if options.timing:
        gpus = gpus[:1]
    per_device = 1 if options.timing else options.slots_per_device
    places = [
        Slot(gpu.name, gpu.inside, {**threads, "CUDA_VISIBLE_DEVICES": gpu.token}, f"{gpu.uuid or gpu.token}-{number}")
        for number in range(per_device)
        for gpu in gpus
    ]
    jobs = 1 if options.timing else options.jobs or max(1, cores() // options.threads - len(places))
    return places + [Slot("cpu", "cpu", {**threads, "CUDA_VISIBLE_DEVICES": ""})] * jobs


def cores() -> int:
    """The cores that this process may use, as affinity and container limits have it."""
    import joblib

    return int(joblib.cpu_count())


def _chosen(device: str) -> list[Gpu]:
    if device == "cpu":
        return []
    gpus = devices.visible_gpus()
    if device == "auto" or (device == "cuda" and gpus):
        return gpus
    known = {gpu.name: gpu for gpu in gpus}
    chosen = []
    for name in dict.fromkeys(part.strip() for part in device.split(",")):
        if name in ("auto", "cpu", "cuda") and "," in device:
            raise RequestError(f"device {device!r}: {name!r} stands alone; list GPUs by number, such as cuda:0,cuda:2")
        if name not in known:
            there = ", ".join(["cpu", *known])
            raise RequestError(f"device {name!r} is not there; this machine has: {there}")
        chosen.append(known[name])
    return chosen


def _check_counts(options: Options) -> None:
    for name in ("jobs", "slots_per_device", "threads", "timeout", "memory_limit"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise RequestError(f"{name.replace('_', '-')} is {value}; it must be positive")
