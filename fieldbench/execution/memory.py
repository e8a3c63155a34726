"""How much memory this process has used at most, and since when."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path


def reset_peak() -> None:
    """Start measuring anew: host memory where Linux allows it, GPU memory if torch is in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def peak_memory() -> int:
    """Largest resident memory since :func:`reset_peak`, in bytes (since the start where it cannot be reset)."""
    with contextlib.suppress(OSError):
        _, found, rest = Path("/proc/self/status").read_bytes().partition(b"VmHWM:")
        if found:
            return int(rest.split(maxsplit=1)[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
