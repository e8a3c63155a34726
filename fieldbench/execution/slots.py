"""Slots: the places of this machine where a trial can run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from fieldbench.errors import RequestError
from fieldbench.execution.options import Options


@dataclass(frozen=True)
class Slot:
    """A place for one trial at a time.

    Attributes:
        name: the device as the user knows it: ``cpu``, ``cuda:2``.
        device: the device as the slot's worker sees it: ``cpu``, ``cuda:0``.
        environment: variables of the slot's worker, set before it imports anything.
    """

    name: str
    device: str
    environment: dict[str, str] = field(default_factory=dict)


def slots(options: Options) -> list[Slot]:
    """The slots of this machine.

    Raises:
        RequestError: for a device that is not there.
    """
    if options.device not in ("auto", "cpu"):
        raise RequestError(f"device {options.device!r} is not on this machine; there is: cpu")
    return [Slot("cpu", "cpu")] * (options.jobs or os.cpu_count() or 1)
