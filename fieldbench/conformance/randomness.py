"""The global random generators, which a plugin must neither use nor touch."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def snapshot() -> dict[str, Any]:
    """The states of the global generators of Python, NumPy and, if it is loaded, torch; comparable with ``==``."""
    legacy: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    kind, keys, *rest = legacy
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": (kind, keys.tobytes(), *rest)}
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Set every global generator to ``seed``, and restore them all afterwards."""
    torch = sys.modules.get("torch")
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch_state = torch.get_rng_state() if torch is not None else None
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(torch_state)
