"""Checks of datasets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from fieldbench.conformance.check import NotChecked, fail, no_error
from fieldbench.conformance.general import NamedCheck, named, of_draws
from fieldbench.dataset import Dataset
from fieldbench.errors import DataUnavailable, RequestError
from fieldbench.estimate import Estimate
from fieldbench.field import Axis, Field
from fieldbench.metric import for_field, score_one
from fieldbench.registry import Registry
from fieldbench.sampler import observe


def of_dataset(dataset: Dataset, registry: Registry) -> Iterator[NamedCheck]:
    """The checks of a dataset."""
    yield from named([_draws_a_field], dataset)
    yield from of_draws(f"drawing a field of {dataset}", partial(_draw, dataset), _same)
    yield from named([_fixed_field, _fingerprint], dataset)
    floor = [_floor] * (type(dataset).floor is not Dataset.floor)
    yield from named([_defaults_exist, _observable, *floor], dataset, registry)


def _draw(dataset: Dataset, seed: int = 1) -> Field:
    done = f"drawing a field of {dataset}"
    try:
        dataset.prepare()
    except DataUnavailable as error:
        raise NotChecked(str(error)) from None
    with no_error(done, "returns a fieldbench.Field"):
        field = dataset.draw(np.random.default_rng(seed))
    if not isinstance(field, Field):
        fail(done, f"draw() returned a {type(field).__name__}", "returns a fieldbench.Field")
    return field


def _draws_a_field(dataset: Dataset) -> None:
    field = _draw(dataset)
    if not field.quantity:
        fail(f"drawing a field of {dataset}", "its quantity is empty", "says what is measured: Field(quantity=...)")
    if field.valid.sum() < 2:
        fail(f"drawing a field of {dataset}", "it has fewer than two valid entries", "draws a field worth completing")


def _fixed_field(dataset: Dataset) -> None:
    fields = [_draw(dataset, seed).values for seed in (1, 2, 3)]
    alike = all(np.array_equal(fields[0], other, equal_nan=True) for other in fields[1:])
    if alike != dataset.fixed_field:
        found = "they are the same" if alike else "they differ"
        wanted = "is True where draws ignore the generator, else False, since tables say what trials tell of"
        fail(f"comparing the fields of {dataset} from three seeds", f"{found}, and fixed_field is {not alike}", wanted)


def _defaults_exist(dataset: Dataset, registry: Registry) -> None:
    for attribute, find in (("default_sampler", registry.sampler), ("metric", registry.metric)):
        text = getattr(dataset, attribute)
        try:
            find(text)
        except RequestError as error:
            fail(f"looking up {attribute} of {dataset.name}", str(error), f"names a {attribute} that is installed")
    rates = dataset.default_rates
    named = isinstance(rates, tuple | list) and bool(rates) and all(isinstance(rate, float | int) for rate in rates)
    if not named or not all(0 < rate <= 1 for rate in rates):
        done, right = f"reading default_rates of {dataset.name}", "names rates in (0, 1], at least one: (0.1, 0.2)"
        fail(done, f"they are {rates!r}", right)


def _observable(dataset: Dataset, registry: Registry) -> None:
    _defaults_exist(dataset, registry)
    field, sampler = _draw(dataset), registry.sampler(dataset.default_sampler)
    for rate in dataset.default_rates:
        done = f"observing a field of {dataset} by {dataset.default_sampler} sampling at rate {rate:g}"
        right = "has default rates that observe something"
        try:
            mask = sampler.draw(field.valid, field.axes, rate, np.random.default_rng(1)) & field.valid
        except RequestError as error:
            fail(done, str(error), right)
        if not mask.any():
            fail(done, "nothing is observed", right)
    metric = registry.metric(dataset.metric)
    if not metric.applies_to(field):
        fail(
            f"asking {metric.name}, the metric of {dataset.name}, whether it applies to a field of it",
            "it does not",
            "names a metric that means something for its fields",
        )


def _fingerprint(dataset: Dataset) -> None:
    _draw(dataset)
    first, second = dataset.fingerprint(), dataset.fingerprint()
    if not isinstance(first, str) or first != second:
        fail(
            f"calling fingerprint() of {dataset} twice",
            f"it returned {first!r} and {second!r}",
            "returns one text that identifies its data, or an empty one",
        )


def _floor(dataset: Dataset, registry: Registry) -> None:
    """Over a few fields the floor must be lower than the mean of what was observed, or it is none."""
    metric, sampler = registry.metric(dataset.metric), registry.sampler(dataset.default_sampler)
    done, scores = f"asking {dataset} for its floor", []
    for seed in range(3):
        field = _draw(dataset, seed)
        rng = np.random.default_rng(seed)
        mask = sampler.draw(field.valid, field.axes, dataset.default_rates[0], rng) & field.valid
        observation = observe(field, mask, np.zeros(field.shape))
        made = dataset.floor(field, observation)
        if made is None:
            return
        if not isinstance(made, Estimate):
            fail(done, f"floor() returned a {type(made).__name__}", "returns a fieldbench.Estimate or None")
        mean = Estimate(np.full(field.shape, observation.observed.mean()))
        try:
            both = [estimate.checked(field.valid) for estimate in (made, mean)]
        except ValueError as error:
            fail(done, str(error), "returns an estimate of the whole field")
        own = for_field(metric, field)
        scores.append([own.rank(score_one(own, estimate, field, field.valid, mask)) for estimate in both])
    floor, plain = np.mean(scores, axis=0)
    if floor > plain:
        fail(done, "it is worse than the mean of what was observed", "returns the best estimate that there can be")


def _same(first: Field, second: Field, done: str) -> None:
    right = "draws from the given generator alone and keeps nothing from one draw to the next"
    if first.shape != second.shape:
        fail(done, f"the shapes are {first.shape} and {second.shape}", right)
    elsewhere = int((first.valid != second.valid).sum())
    if elsewhere:
        fail(done, f"{elsewhere} of {first.values.size} entries exist in one alone (valid)", right)
    for name in ("axes", "unit", "quantity", "log_floor", "metadata"):
        if not _equal(getattr(first, name), getattr(second, name)):
            fail(done, f"{name} is {getattr(first, name)!r:.80} and {getattr(second, name)!r:.80}", right)
    if list(first.covariates) != list(second.covariates):
        fail(done, f"the covariates are {list(first.covariates)} and {list(second.covariates)}", right)
    for name, values in first.covariates.items():
        if (values != second.covariates[name])[first.valid].any():
            fail(done, f"the covariate {name!r} differs", right)
    different = int((first.values[first.valid] != second.values[first.valid]).sum())
    if different:
        fail(done, f"{different} of {first.values.size} entries differ", right)


def _equal(first: Any, second: Any) -> bool:
    """Whether two attributes of a field are the same; axes are compared by all that they hold."""
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, Axis):
        return (first.name, first.unit) == (second.name, second.unit) and np.array_equal(
            first.coordinates, second.coordinates
        )
    return bool(first == second)
