"""Which GPUs this machine has and the run may use, found without importing torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Gpu:
    """One GPU that may be used.

    Attributes:
        name: its name for the user: ``cuda:N`` counts the visible GPUs, as torch does.
        token: what CUDA_VISIBLE_DEVICES must say so that a process sees this GPU alone.
        model: its product name.
        memory: its memory in MiB.
        driver: version of the driver.
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
    if not _torch_has_cuda():
        return []
    installed = installed_gpus()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return installed
    gpus: list[Gpu] = []
    for token in (entry.strip() for entry in visible.split(",")):
        known = next((gpu for gpu in installed if _is_meant(gpu, token)), None)
        partition = token.startswith("MIG-") and bool(installed)
        if known is None and not partition:
            break  # CUDA ignores everything from the first entry that is no device (-1, for example) on
        model = known.model if known else "MIG partition"
        memory, driver = (known.memory, known.driver) if known else (None, installed[0].driver)
        gpus.append(Gpu(f"cuda:{len(gpus)}", token, model, memory, driver, uuid=known.uuid if known else token))
    return gpus


def _is_meant(gpu: Gpu, token: str) -> bool:
    """Whether an entry of CUDA_VISIBLE_DEVICES, which may be the beginning of a UUID, means this GPU."""
    return token == gpu.name.removeprefix("cuda:") or (token.startswith("GPU-") and gpu.token.startswith(token))


def installed_gpus() -> list[Gpu]:
    """Every NVIDIA GPU of this machine, in the order of their bus addresses."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = "--query-gpu=uuid,name,memory.total,driver_version"
    try:
        answer = subprocess.run(
            [program, query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    gpus: list[Gpu] = []
    for line in answer.stdout.splitlines():
        token, model, memory, driver = (part.strip() for part in line.split(","))
        size = int(memory) if memory.isdigit() else None
        gpus.append(Gpu(f"cuda:{len(gpus)}", token, model, size, driver, uuid=token))
    return gpus


def _torch_has_cuda() -> bool:
    """Whether the installed torch was built for CUDA, judged by the library it then brings."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    return any((Path(spec.origin).parent / "lib").glob("*torch_cuda*"))
