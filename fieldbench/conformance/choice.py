"""Which checks a plugin gets: those of its kind, by what it declares about itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TypeVar, cast

import numpy as np

from fieldbench.conformance.check import Check
from fieldbench.conformance.datasets import of_dataset
from fieldbench.conformance.draws import of_noise, of_sampler
from fieldbench.conformance.general import NamedCheck, expected_failures_exist, of_any
from fieldbench.conformance.leaks import beats_no_white_noise
from fieldbench.conformance.methods import of_method
from fieldbench.conformance.metrics import of_metric
from fieldbench.conformance.modifiers import of_modifier
from fieldbench.dataset import Dataset
from fieldbench.errors import RequestError, nearest
from fieldbench.field import Observation
from fieldbench.method import Method, Modifier
from fieldbench.metric import Metric
from fieldbench.noise import Noise
from fieldbench.plugin import Plugin
from fieldbench.registry import KINDS, Registry, validated
from fieldbench.sampler import Sampler, observe
from fieldbench.spec import Part, format_value, parse

P = TypeVar("P", bound=Plugin)


def checks(
    plugin: str | Plugin | type[Plugin],
    *,
    kind: str | None = None,
    observation: Observation | None = None,
    registry: Registry | None = None,
) -> list[Check]:
    """All checks of one plugin.

    Args:
        plugin: an object, a class, or the text of an installed plugin (``"tap"``, ``"tap[window=4]"``,
            ``"tap+tv"``). Parameters left at their defaults take the values of ``conformance_parameters``.
        kind: ``method``, ``dataset``, ``noise``, ``sampler`` or ``metric``; only needed for a text that
            names several plugins of different kinds.
        observation: what a method is tried on, in place of small made-up fields; for methods that need
            something special.
        registry: the other plugins; all installed ones where none is given.

    Returns:
        Checks to call one by one, or to hand to ``pytest.mark.parametrize(..., ids=str)``.

    Raises:
        RequestError: if there is no such plugin, or no such kind.
    """
    registry = Registry() if registry is None else registry
    if isinstance(plugin, str):
        plugin = _named(plugin, kind, registry)
    elif isinstance(plugin, type):
        plugin = _made(plugin)
    plugin = quick(plugin)
    named = [*of_any(plugin), *_of_kind(plugin, registry, observation)]
    names = [name for name, _ in named]
    if plugin.expected_failures:
        named.append(("expected-failures", partial(expected_failures_exist, plugin, names)))
    expected = plugin.expected_failures
    return [Check(str(plugin), name, body, expected.get(name)) for name, body in named]


def quick(plugin: P) -> P:
    """The plugin with ``conformance_parameters`` in place of parameters that are at their defaults.

    Raises:
        RequestError: if ``conformance_parameters`` names what is not a parameter.
    """
    if isinstance(plugin, Method) and plugin.modifiers:
        method = quick(plugin.bare())
        for modifier in plugin.modifiers:
            method = quick(modifier).modify(method)
        return cast(P, method)
    fields = type(plugin).model_fields
    _must_be_parameters(type(plugin))
    cheaper = {
        key: value
        for key, value in plugin.conformance_parameters.items()
        if format_value(getattr(plugin, key)) == format_value(fields[key].default)
    }
    values = {key: getattr(plugin, key) for key in fields}
    return type(plugin)(**{**values, **cheaper}) if cheaper else plugin


def _made(cls: type[P]) -> P:
    """An object of a class with its ``conformance_parameters``.

    Raises:
        RequestError: if these are not its parameters, or another parameter must be given.
    """
    _must_be_parameters(cls)
    return validated(cls, Part(cls.name, cls.conformance_parameters), cls.name)


def _must_be_parameters(cls: type[Plugin]) -> None:
    for key in cls.conformance_parameters:
        if key not in cls.parameter_names():
            raise RequestError(f"{cls.name}: conformance_parameters names {key!r}, which is not a parameter")


def _named(text: str, kind: str | None, registry: Registry) -> Plugin:
    if kind is not None and kind not in KINDS:
        raise RequestError(f"unknown kind {kind!r}{nearest(kind, KINDS)}")
    name = parse(text)[0].name
    kinds = [key for key in KINDS if name in registry.entries(key)] if kind is None else [kind]
    if len(kinds) > 1:
        raise RequestError(f"{text!r} is a {' and a '.join(kinds)}; say which by its kind")
    (found,) = kinds or ["method"]
    if found == "method" and len(parse(text)) == 1 and issubclass(registry.find("method", name).cls, Modifier):
        found = "modifier"
    plugin: Plugin = getattr(registry, found)(text)
    return plugin


def _of_kind(plugin: Plugin, registry: Registry, observation: Observation | None) -> Iterator[NamedCheck]:
    if isinstance(plugin, Method):
        if observation is None and plugin.conformance_dataset is not None:
            observation = _observed(registry.dataset(plugin.conformance_dataset), registry)
        yield from of_method(plugin, observation)
        yield "white-noise", partial(beats_no_white_noise, plugin, registry)
    elif isinstance(plugin, Modifier):
        yield from of_modifier(plugin, list(_installed_methods(registry)), observation)
    elif isinstance(plugin, Dataset):
        yield from of_dataset(plugin, registry)
    elif isinstance(plugin, Noise):
        yield from of_noise(plugin)
    elif isinstance(plugin, Sampler):
        yield from of_sampler(plugin)
    elif isinstance(plugin, Metric):
        yield from of_metric(plugin)


def _observed(dataset: Dataset, registry: Registry) -> Observation:
    """A field of the dataset as it is usually observed, without noise."""
    dataset.prepare()
    field = dataset.draw(np.random.default_rng(1))
    sampler = registry.sampler(dataset.default_sampler)
    mask = sampler.draw(field.valid, field.axes, dataset.default_rates[0], np.random.default_rng(2))
    return observe(field, mask & field.valid, np.zeros(field.shape))


def _installed_methods(registry: Registry) -> Iterator[Method]:
    """All methods that can be made without being told a parameter."""
    for entry in registry.entries("method").values():
        if issubclass(entry.cls, Method):
            with contextlib.suppress(RequestError):
                yield _made(entry.cls)
