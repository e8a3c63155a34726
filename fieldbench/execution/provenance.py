"""What a result's reader may ask about the machine and the programs that made it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import fieldbench
from fieldbench.execution.machine import Slot, cores, installed_gpus
from fieldbench.registry import Registry

#: Distributions whose versions can change numbers or speed.
LIBRARIES = ("numpy", "scipy", "torch", "numba", "scikit-learn", "tensorly", "joblib", "pydantic", "distributed")


def provenance(slots: Sequence[Slot]) -> dict[str, Any]:
    """Versions, machine and source of this process, as the manifest of a run keeps them.

    Args:
        slots: where the run's trials are executed.
    """
    gpus = installed_gpus()
    return {
        # As it was typed, also where the locale cannot say it.
        "command": [os.fsencode(word).decode(errors="replace") for word in sys.argv],
        "fieldbench": fieldbench.__version__,
        "python": platform.python_version(),
        "libraries": {name: version for name in LIBRARIES if (version := distribution_version(name))},
        "host": platform.node(),
        "system": platform.platform(),
        "cpu": cpu_name(),
        "cores": cores(),
        "gpus": [{"name": gpu.model, "memory_mib": gpu.memory} for gpu in gpus],
        "driver": gpus[0].driver if gpus else None,
        "slots": dict(Counter(slot.name for slot in slots)),
        "threads_per_slot": next((slot.environment.get("OMP_NUM_THREADS") for slot in slots), None),
        "git": {
            "fieldbench": git_state(Path(fieldbench.__file__).parent),
            "working_directory": git_state(Path.cwd()),
        },
    }


def what_runs(registry: Registry) -> dict[str, str]:
    """What decides numbers beside data and parameters: hashes of fieldbench and of plugins, versions of libraries."""
    found = {name: version for name in LIBRARIES if (version := distribution_version(name))}
    found["python"] = platform.python_version()
    found["code of fieldbench"] = code_hash([Path(fieldbench.__file__).parent])
    for label, version in registry.distributions.items():
        found[Path(label).name] = version
    for name in sorted({cls.__module__.partition(".")[0] for cls in registry.classes()}):
        folders = getattr(sys.modules.get(name), "__path__", None)
        if folders:
            found[f"code of {name}"] = code_hash([Path(folder) for folder in folders])
    return found


def code_hash(folders: Sequence[Path]) -> str:
    """A hash of all Python files in some folders, by their names below them."""
    import joblib

    files = [(folder, path) for folder in folders for path in sorted(folder.rglob("*.py"))]
    return str(joblib.hash([(path.relative_to(folder).as_posix(), path.read_bytes()) for folder, path in files]))


@cache
def machine() -> str:
    """Twelve hex digits that tell this machine from others and say nothing else of it."""
    about = f"{platform.node()} {cpu_name()}"
    with contextlib.suppress(OSError):
        about = Path("/etc/machine-id").read_text().strip() or about
    return hashlib.sha256(f"fieldbench {about}".encode()).hexdigest()[:12]


def cpu_name() -> str:
    """The product name of the CPU, as well as the system tells it."""
    with contextlib.suppress(OSError):
        _, found, rest = Path("/proc/cpuinfo").read_text().partition("model name\t: ")
        if found:
            return rest.splitlines()[0].strip()
    return platform.processor() or platform.machine()


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the checkout that holds a folder and whether tracked files differ from it; None outside of any.

    Only a folder with tracked files counts: packages installed somewhere below a checkout are not part of it.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit or not _git(folder, "ls-files", "--", "."):
        return None
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}


def _git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def distribution_version(distribution: str) -> str | None:
    """The installed version of a distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
