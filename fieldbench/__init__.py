"""fieldbench: an honest, repeatable benchmark for field-completion methods.

All that a plugin author or a notebook needs is here. What needs torch or pandas is imported when used.
"""

from __future__ import annotations

from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from fieldbench.dataset import Dataset
from fieldbench.errors import DataUnavailable, FieldbenchError, RequestError
from fieldbench.field import Axis, Field, Observation
from fieldbench.hookspecs import API_VERSION, hookimpl
from fieldbench.method import Method, Modifier, Report, Silent
from fieldbench.metric import Metric
from fieldbench.noise import Noise
from fieldbench.plugin import Plugin, parameter
from fieldbench.sensing import Sampler

if TYPE_CHECKING:
    from fieldbench.session import Results, run

__version__ = _version("fieldbench")

__all__ = [
    "API_VERSION",
    "Axis",
    "DataUnavailable",
    "Dataset",
    "Field",
    "FieldbenchError",
    "Method",
    "Metric",
    "Modifier",
    "Noise",
    "Observation",
    "Plugin",
    "Report",
    "RequestError",
    "Results",
    "Sampler",
    "Silent",
    "hookimpl",
    "parameter",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in ("run", "Results"):
        from fieldbench import session

        return getattr(session, name)
    raise AttributeError(f"module 'fieldbench' has no attribute {name!r}")
