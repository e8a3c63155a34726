"""How a run is to be executed, and when to end it. None of this enters a trial's key: it changes when, not what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """Where and within which limits trials run.

    Attributes:
        device: ``auto`` (all GPUs, else the CPU), ``cpu``, ``cuda`` (all GPUs) or some of them: ``cuda:0,cuda:2``.
        jobs: CPU slots; none means one a core.
        slots_per_device: trials that may run at once on each GPU.
        threads: CPU threads of each process (BLAS, OpenMP, torch and numba alike). One by default, so
            that numbers do not depend on how many slots there are. A method that asks may use those of idle
            slots too, once nothing waits for them.
        timeout: seconds that a trial may take, from the drawing of its field to its scores.
        memory_limit: bytes of resident host memory that a process may use.
        backend: ``local`` or ``dask``.
        scheduler: address of a Dask scheduler, ``tcp://host:port``.
        save_fields: a run's folder, to keep truth, observation and estimate of every trial in its ``fields``.
            Only the machine that runs the command writes there.
        timing: run one trial at a time, unbatched and warmed up, so that seconds can be compared.
        secrets: secret base seeds by the labels that trials know them by; only judges are told.
    """

    device: str = "auto"
    jobs: int | None = None
    slots_per_device: int = 1
    threads: int = 1
    timeout: float | None = None
    memory_limit: int | None = None
    backend: str = "local"
    scheduler: str | None = None
    save_fields: str | None = None
    timing: bool = False
    secrets: Mapping[int, int] = field(default_factory=dict, repr=False)


class Stop:
    """A request to stop that grows more urgent when it is repeated (the first and the second Ctrl-C)."""

    def __init__(self) -> None:
        #: Whether no new trial should be started, and whether running trials should be given up.
        self.asked = self.now = False

    def request(self) -> None:
        """Ask: the first time to finish what is running, the second time to end at once."""
        self.asked, self.now = True, self.asked

    def at_once(self) -> None:
        """Ask to end now; trials that are running are given up and leave no record."""
        self.asked = self.now = True
