"""Where trials run: joblib picks the machine, a slot picks the device, a worker process runs the trial."""

from fieldbench.execution.options import Options
from fieldbench.execution.scheduling import check_backend, execute
from fieldbench.execution.slots import Slot, slots
from fieldbench.execution.stop import Stop

__all__ = ["Options", "Slot", "Stop", "check_backend", "execute", "slots"]
