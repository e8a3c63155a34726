"""This machine: its GPUs, on which runs take turns, the slots in which trials run, and how much memory a process uses.

GPUs are found without importing torch.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from fieldbench.errors import RequestError
from fieldbench.execution.options import Options

_LOG = logging.getLogger("fieldbench")

Lane: TypeAlias = Literal["cpu", "gpu"]

#: Slots and threads that may be asked for; each slot has processes of its own.
MOST = 4096

#: What BLAS, OpenMP, torch, numba and their like read to learn how many threads to use.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "LOKY_MAX_CPU_COUNT",
)  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    """One GPU that may be used.

    Attributes:
        name: its name for the user: ``cuda:N`` counts the visible GPUs, as torch does.
        token: what CUDA_VISIBLE_DEVICES must say so that a process sees this GPU alone.
        model, memory, driver: its product name, its memory in MiB, and the version of the driver.
        inside: what a process that sees this GPU alone calls it.
        uuid: what tells it from all other GPUs, however it was named; empty where that is not known.
    """

    name: str
    token: str
    model: str = ""
    memory: int | None = None
    driver: str = ""
    inside: str = "cuda:0"
    uuid: str = ""


def visible_gpus() -> list[Gpu]:
    """The GPUs that torch would see here, in its order; empty if this torch cannot use any.

    CUDA_VISIBLE_DEVICES is respected: its entries become ``cuda:0``, ``cuda:1`` ... in their order.
    """
    if not torch_has_cuda():
        return []
    installed = installed_gpus()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return installed
    gpus: list[Gpu] = []
    for token in (entry.strip() for entry in visible.split(",")):
        known = next((gpu for gpu in installed if _is_meant(gpu, token)), None)
        if installed and token.startswith("MIG-"):
            known = Gpu("", token, "MIG partition", driver=installed[0].driver, uuid=token)
        if known is None:
            break  # CUDA ignores everything from the first entry that is not a device (-1, for example) on
        gpus.append(replace(known, name=f"cuda:{len(gpus)}", token=token))
    return gpus


def _is_meant(gpu: Gpu, token: str) -> bool:
    """Whether an entry of CUDA_VISIBLE_DEVICES, which may be the beginning of a UUID, means this GPU."""
    return token == gpu.name.removeprefix("cuda:") or (token.startswith("GPU-") and gpu.token.startswith(token))


def installed_gpus() -> list[Gpu]:
    """Every NVIDIA GPU of this machine, in the order of their bus addresses."""
    query = ["nvidia-smi", "--query-gpu=uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    gpus: list[Gpu] = []
    for line in answer.stdout.splitlines():
        token, model, memory, driver = (part.strip() for part in line.split(","))
        gpus.append(
            Gpu(f"cuda:{len(gpus)}", token, model, int(memory) if memory.isdigit() else None, driver, uuid=token)
        )
    return gpus


def torch_has_cuda() -> bool:
    """Whether the installed torch was built for CUDA, judged by the library it then brings."""
    spec = importlib.util.find_spec("torch")
    origin = None if spec is None else spec.origin
    return origin is not None and any((Path(origin).parent / "lib").glob("*torch_cuda*"))


@dataclass(frozen=True)
class Slot:
    """A place for one trial at a time.

    Attributes:
        name, device: as the user knows the device (``cpu``, ``cuda:2``), and as the slot's processes do (``cuda:0``).
        environment: variables of these processes, set before any pool of threads or CUDA exists.
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
    for name in ("jobs", "slots_per_device", "threads", "timeout", "memory_limit"):
        value, most = getattr(options, name), math.inf if name in ("timeout", "memory_limit") else MOST
        if value is not None and not 0 < value <= most:
            allowed = "it must be positive" if not value > 0 else f"{MOST} are the most"
            raise RequestError(f"{name.replace('_', '-')} is {value}; {allowed}")
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
    gpus = visible_gpus()
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


@contextlib.contextmanager
def gpu_lock(slot: Slot, given_up: Callable[[], bool]) -> Iterator[None]:
    """Hold a GPU's slot against other processes, waiting for them to finish a trial. CPU slots are free to all."""
    if not slot.token:
        yield
        return
    folder = Path(tempfile.gettempdir()) / f"fieldbench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / f"{hashlib.sha256(slot.token.encode()).hexdigest()[:16]}.lock").open("a") as lock:
        waiting = False
        while not given_up():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    _LOG.warning("%s is in use by another run of fieldbench; they take turns", slot.name)
                waiting = True
                time.sleep(0.05)
        yield


def reset_peak(pid: int) -> None:
    """Start measuring a process's memory anew, where the system allows it."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_memory(pid: int) -> int | None:
    """Largest resident memory of a process since :func:`reset_peak`, in bytes; None where that is not told."""
    kilobytes = _number_behind(b"VmHWM:", f"/proc/{pid}/status")
    return None if kilobytes is None else kilobytes * 1024


def resident_memory(pid: int) -> int:
    """Resident memory of a process now, in bytes; 0 if it is gone."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def oom_kills() -> int:
    """How many processes this machine's kernel has killed as memory ran out (0 where it does not say)."""
    return _number_behind(b"\noom_kill ", "/proc/vmstat") or 0


def _number_behind(word: bytes, file: str) -> int | None:
    with contextlib.suppress(OSError):
        _, found, rest = Path(file).read_bytes().partition(word)
        return int(rest.split(maxsplit=1)[0]) if found else None
    return None
