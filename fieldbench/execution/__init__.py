"""Where trials run: the parent plans and writes, a judge draws and scores, a method's process computes."""

from fieldbench.execution.machine import Slot, slots
from fieldbench.execution.options import Options, Stop
from fieldbench.execution.pool import Pool
from fieldbench.execution.run import check_backend, execute

__all__ = ["Options", "Pool", "Slot", "Stop", "check_backend", "execute", "slots"]
