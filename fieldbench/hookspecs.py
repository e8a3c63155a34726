"""The hooks by which plugins announce what they bring: one for each kind.

A plugin is a module (or any object) with one or more functions of these names, marked with
``@fieldbench.hookimpl`` and found through the entry-point group ``fieldbench``, through a single file
(``--plugin``, ``FIELDBENCH_PLUGINS``), or handed to :func:`fieldbench.run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from fieldbench.dataset import Dataset
    from fieldbench.method import Method, Modifier
    from fieldbench.metric import Metric
    from fieldbench.noise import Noise
    from fieldbench.sampler import Sampler

#: Version of the plugin interface. A plugin module may say which it was written for with
#: ``FIELDBENCH_API = 1``; another number than this one is reported as a broken plugin.
API_VERSION = 1

PROJECT = "fieldbench"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def fieldbench_register_methods() -> list[type[Method] | type[Modifier]]:  # type: ignore[empty-body]
    """Classes of completion methods, and of modifiers that compose with them (``tap+tv``)."""


@hookspec
def fieldbench_register_datasets() -> list[type[Dataset]]:  # type: ignore[empty-body]
    """Classes of datasets: each draws complete fields."""


@hookspec
def fieldbench_register_noises() -> list[type[Noise]]:  # type: ignore[empty-body]
    """Classes of additive measurement noise."""


@hookspec
def fieldbench_register_samplers() -> list[type[Sampler]]:  # type: ignore[empty-body]
    """Classes of samplers: each chooses which entries are observed."""


@hookspec
def fieldbench_register_metrics() -> list[type[Metric]]:  # type: ignore[empty-body]
    """Classes of metrics: each scores an estimate against the truth."""
