"""The global random generators, which a plugin must neither use nor change, but for a while where a library must."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    """Seed the global generators of Python, NumPy and torch for a while; afterwards they are as before.

    For libraries that know no generator and no seed of their own. Import torch before, if it takes part.

    >>> with seeded(7):
    ...     first = random.random()
    >>> with seeded(7):
    ...     first == random.random()
    True

    Args:
        seed: 32 bits, such as a method is given.
    """
    torch: Any = sys.modules.get("torch")
    with ExitStack() as before:
        before.callback(random.setstate, random.getstate())
        before.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        if torch is not None:
            gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
            before.enter_context(torch.random.fork_rng(gpus, device_type="cuda"))
            torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        yield
