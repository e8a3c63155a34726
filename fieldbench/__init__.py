"""fieldbench: an honest, repeatable benchmark for field-completion methods.

All that a plugin author or a notebook needs is here. Each name is imported when it is first used, so that
``fieldbench --help`` need not wait for numpy, and nobody waits for torch or pandas in vain.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fieldbench.completion.data import CompletedData, complete
    from fieldbench.dataset import Dataset
    from fieldbench.errors import DataUnavailable, FieldbenchError, RequestError
    from fieldbench.estimate import Estimate
    from fieldbench.field import Axis, Field, Observation
    from fieldbench.hookspecs import API_VERSION, hookimpl
    from fieldbench.method import Method, Modifier, NullReport, Refit, Report
    from fieldbench.metric import Metric
    from fieldbench.noise import Noise
    from fieldbench.plugin import Plugin, parameter
    from fieldbench.results import Results
    from fieldbench.sampler import Sampler
    from fieldbench.session import run

    __version__: str

__all__ = [
    "API_VERSION",
    "Axis",
    "CompletedData",
    "DataUnavailable",
    "Dataset",
    "Estimate",
    "Field",
    "FieldbenchError",
    "Method",
    "Metric",
    "Modifier",
    "Noise",
    "NullReport",
    "Observation",
    "Plugin",
    "Refit",
    "Report",
    "RequestError",
    "Results",
    "Sampler",
    "complete",
    "hookimpl",
    "parameter",
    "run",
]

_HOMES = {
    "completion.data": ["CompletedData", "complete"],
    "dataset": ["Dataset"],
    "errors": ["DataUnavailable", "FieldbenchError", "RequestError"],
    "estimate": ["Estimate"],
    "field": ["Axis", "Field", "Observation"],
    "hookspecs": ["API_VERSION", "hookimpl"],
    "method": ["Method", "Modifier", "Refit", "Report", "NullReport"],
    "metric": ["Metric"],
    "noise": ["Noise"],
    "plugin": ["Plugin", "parameter"],
    "sensing": ["Sampler"],
    "results": ["Results"],
    "session": ["run"],
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fieldbench")
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"fieldbench.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'fieldbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
