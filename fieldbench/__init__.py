"""fieldbench: an honest, repeatable benchmark for field-completion methods.

All that a plugin author or a notebook needs is here. Each name is imported when it is first used, so that
``fieldbench --help`` does not wait for numpy, nor anything for torch or pandas that it does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fieldbench.calibration import LEVELS, Fold, calibrate, calibrated
    from fieldbench.completion.data import CompletedData, complete
    from fieldbench.datafile import DataPath, expanded, folder_files, located
    from fieldbench.dataset import Dataset
    from fieldbench.errors import DataUnavailable, FieldbenchError, RequestError
    from fieldbench.estimate import MOST_ARRAYS, Estimate, as_estimate, as_field_array, in_domain
    from fieldbench.field import Axis, Field, FloatArray, Mask, Observation, grid_axes
    from fieldbench.files import SUFFIXES, Selector, read
    from fieldbench.gap_holdout import withhold_like_gaps
    from fieldbench.hookspecs import API_VERSION, hookimpl
    from fieldbench.method import (
        Fit,
        Method,
        Modifier,
        NullReport,
        PriorTraining,
        Refit,
        Report,
        TrainingProgress,
        Try,
        Tuner,
        Withhold,
    )
    from fieldbench.metric import Metric
    from fieldbench.noise import Noise
    from fieldbench.plugin import Plugin, parameter
    from fieldbench.registry import make
    from fieldbench.results import Results
    from fieldbench.sampler import Fibers, RandomEntries, Sampler, is_fiber_mask, observe
    from fieldbench.search import Choice, Log, Range, Space
    from fieldbench.seeding import seeded
    from fieldbench.session import run
    from fieldbench.spec import Value
    from fieldbench.wrapper import MethodParameter, Wrapper

    __version__: str

__all__ = [
    "API_VERSION",
    "LEVELS",
    "MOST_ARRAYS",
    "SUFFIXES",
    "Axis",
    "Choice",
    "CompletedData",
    "DataPath",
    "DataUnavailable",
    "Dataset",
    "Estimate",
    "Fibers",
    "Field",
    "FieldbenchError",
    "Fit",
    "FloatArray",
    "Fold",
    "Log",
    "Mask",
    "Method",
    "MethodParameter",
    "Metric",
    "Modifier",
    "Noise",
    "NullReport",
    "Observation",
    "Plugin",
    "PriorTraining",
    "RandomEntries",
    "Range",
    "Refit",
    "Report",
    "RequestError",
    "Results",
    "Sampler",
    "Selector",
    "Space",
    "TrainingProgress",
    "Try",
    "Tuner",
    "Value",
    "Withhold",
    "Wrapper",
    "as_estimate",
    "as_field_array",
    "calibrate",
    "calibrated",
    "complete",
    "expanded",
    "folder_files",
    "grid_axes",
    "hookimpl",
    "in_domain",
    "is_fiber_mask",
    "located",
    "make",
    "observe",
    "parameter",
    "read",
    "run",
    "seeded",
    "withhold_like_gaps",
]

#: The public names, by the module in which they are.
_HOMES = {
    "calibration": "LEVELS Fold calibrate calibrated",
    "completion.data": "CompletedData complete",
    "datafile": "DataPath expanded folder_files located",
    "dataset": "Dataset",
    "errors": "DataUnavailable FieldbenchError RequestError",
    "field": "Axis Field FloatArray Mask Observation grid_axes",
    "files": "SUFFIXES Selector read",
    "gap_holdout": "withhold_like_gaps",
    "estimate": "MOST_ARRAYS Estimate as_estimate as_field_array in_domain",
    "hookspecs": "API_VERSION hookimpl",
    "method": "Fit Method Modifier NullReport PriorTraining Refit Report TrainingProgress Try Tuner Withhold",
    "metric": "Metric",
    "noise": "Noise",
    "plugin": "Plugin parameter",
    "registry": "make",
    "sampler": "Fibers RandomEntries Sampler is_fiber_mask observe",
    "results": "Results",
    "search": "Choice Log Range Space",
    "seeding": "seeded",
    "session": "run",
    "spec": "Value",
    "wrapper": "MethodParameter Wrapper",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fieldbench-completion")
    for home, names in _HOMES.items():
        if name in names.split():
            value = getattr(import_module(f"fieldbench.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'fieldbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
