"""From a request to trials: pure, lazy and in an order that makes early results comparable."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic import Field as Limited

from fieldbench.errors import RequestError, one_line
from fieldbench.field import Field
from fieldbench.metric import Metric
from fieldbench.registry import Registry
from fieldbench.sensing import observe
from fieldbench.trial import Trial, stream


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str | int | float) else value


#: Frames hold seeds and trial numbers as whole numbers of 64 bits. The number of a trial is that of the first plus
#: less than that of all, so half of them for each is as much as fits.
LARGEST_SEED = 2**63 - 1
MOST_TRIALS = 2**62

Texts = Annotated[list[str], BeforeValidator(_as_list)]


class Request(BaseModel):
    """What is to be compared with what: methods x datasets x rates x noises x selections x trials.

    Attributes:
        methods, datasets: specs, at least one of each.
        rates: sampling rates in (0, 1]; none means each dataset's own.
        noises: noise specs.
        samplers: sampler specs; none means each dataset's own.
        select: selection specs (``final``, ``holdout``, ``oracle``).
        trials: Monte-Carlo repetitions.
        seed: base seed.
        first_trial: number of the first repetition, to spread one plan over machines.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: Texts = Limited(min_length=1)
    datasets: Texts = Limited(min_length=1)
    rates: Annotated[list[float], BeforeValidator(_as_list)] = []
    noises: Texts = Limited(["none"], min_length=1)
    samplers: Texts = []
    select: Texts = Limited(["final"], min_length=1)
    trials: int = Limited(3, ge=1, le=MOST_TRIALS)
    seed: int = Limited(0, ge=0, le=LARGEST_SEED)
    first_trial: int = Limited(0, ge=0, le=MOST_TRIALS)

    def plan(self, registry: Registry) -> Plan:
        """The trials of this request.

        Raises:
            RequestError: if a spec is wrong.
        """
        return Plan(self, registry)


class Plannable(Protocol):
    """Whatever describes trials: a request, or a suite."""

    def plan(self, registry: Registry) -> Plan:
        """Its trials, every spec validated."""


@dataclass(frozen=True)
class Setting:
    """One dataset as it is observed: everything of a trial that is not method or repetition."""

    dataset: str
    sampler: str
    noise: str
    rate: float


class Plan:
    """The validated request: canonical, countable, and iterable any number of times.

    Attributes:
        methods, selections, settings: what is combined, in canonical form.
        units: unit of each dataset's field, once :meth:`prepare` has looked at it.
    """

    def __init__(
        self,
        request: Request,
        registry: Registry,
        pairs: Sequence[tuple[str, Setting]] | None = None,
        metric: Metric | None = None,
    ) -> None:
        """Validate every spec of the request.

        Args:
            request: what to compare.
            registry: where the names are looked up.
            pairs: which method meets which observed dataset, where that is listed one by one (as a suite
                does) and is not the product of the request's methods, datasets, samplers, noises and rates.
            metric: the one that every dataset must have a score by, where there is such a one.

        Raises:
            RequestError: for anything wrong in it, with what would be right.
        """
        self.request = request
        self._registry = registry
        self._metric = metric
        self.selections = _unique(str(registry.selection(text)) for text in request.select)
        chosen = self._product() if pairs is None else pairs
        self._pairs = list(dict.fromkeys(self.canonical(text, setting) for text, setting in chosen))
        self.methods = _unique(method for method, _ in self._pairs)
        self.settings = list(dict.fromkeys(setting for _, setting in self._pairs))
        self.units: dict[str, str] = {}
        self._identities: dict[tuple[str, Setting, str], str] = {}

    @property
    def size(self) -> int:
        """The number of trials."""
        return self.cells * self.request.trials

    @property
    def cells(self) -> int:
        """The number of table cells: combinations of everything but the repetition."""
        return len(self._pairs) * len(self.selections)

    @property
    def identity(self) -> str:
        """Hash of what the plan compares, the number of trials left out: more of them extend a run."""
        cells = [(self._cell_identity(*cell), cell[1].rate) for cell in self.combinations()]
        return _digest([self.request.seed, cells])[:24]

    def __iter__(self) -> Iterator[Trial]:
        """Trials, setting by setting; within a setting repetition by repetition, all methods of one together."""
        start = self.request.first_trial
        for setting in self.settings:
            methods = [method for method, met in self._pairs if met == setting]
            for number in range(start, start + self.request.trials):
                for method, select in itertools.product(methods, self.selections):
                    yield self.trial(method, setting, select, number)

    def trial(self, method: str, setting: Setting, select: str, number: int) -> Trial:
        """One trial of the plan."""
        return Trial(
            method=method,
            dataset=setting.dataset,
            sampler=setting.sampler,
            noise=setting.noise,
            select=select,
            rate=setting.rate,
            trial=number,
            seed=self.request.seed,
            identity=self._cell_identity(method, setting, select),
        )

    def prepare(self) -> None:
        """Make data available and draw each setting's first observation, so that a wrong request fails at once.

        Raises:
            RequestError: if data is missing or not finite, the metric does not apply, a rate observes nothing,
                or a method's parameter contradicts the field's shape.
        """
        for text in _unique(setting.dataset for setting in self.settings):
            dataset = self._registry.dataset(text)
            dataset.prepare()
            try:
                field = dataset.draw(stream("field", self.request.seed, self.request.first_trial, text))
            except Exception as error:
                raise RequestError(f"dataset {text}: {_said(error)}") from error
            if not isinstance(field, Field):
                raise RequestError(f"dataset {text}: draw() returned {type(field).__name__}; it should return a Field")
            if self._metric is not None and not self._metric.applies_to(field):
                raise RequestError(f"metric {self._metric} does not apply to {text}; its own is {dataset.metric}")
            self.units[text] = field.unit
            for setting in self.settings:
                if setting.dataset == text:
                    self._examine(setting, field)

    def _examine(self, setting: Setting, field: Field) -> None:
        sampler, noise = self._registry.sampler(setting.sampler), self._registry.noise(setting.noise)
        place = f"{setting.sampler} sampling of {setting.dataset} at rate {setting.rate:g}"
        try:
            mask = sampler.draw(field.existing, field.axes, setting.rate, stream("examine", self.request.seed))
            observation = observe(field, mask & field.existing, noise.draw(field.shape, stream("examine")))
        except Exception as error:
            where = place if setting.noise == "none" else f"{place} with {setting.noise}"
            raise RequestError(f"{where}: {_said(error)}") from error
        for text in (method for method, met in self._pairs if met == setting):
            method = self._registry.method(text)
            try:
                if method.applicable(observation) is None:
                    method.check_shape(field.shape)
            except ValueError as error:
                raise RequestError(f"{text} on {setting.dataset}: {error}") from None
            except Exception:  # the method's own mistake: each of its trials will be a row that says so
                continue

    def _product(self) -> Iterator[tuple[str, Setting]]:
        for text in self.request.datasets:
            dataset = self._registry.dataset(text)
            samplers = self.request.samplers or [dataset.default_sampler]
            rates = self.request.rates or list(dataset.default_rates)
            for sampler, noise, rate in itertools.product(samplers, self.request.noises, rates):
                for method in self.request.methods:
                    yield method, Setting(text, sampler, noise, rate)

    def canonical(self, method: str, setting: Setting) -> tuple[str, Setting]:
        """A method and a setting in canonical form, defaults filled in.

        Raises:
            RequestError: if a spec is wrong or the rate is outside (0, 1].
        """
        if not 0 < setting.rate <= 1:
            raise RequestError(f"rate {setting.rate:g} is outside (0, 1]; a rate is the share of entries observed")
        dataset = self._registry.dataset(setting.dataset)
        observed = Setting(
            dataset=str(dataset),
            sampler=str(self._registry.sampler(setting.sampler or dataset.default_sampler)),
            noise=str(self._registry.noise(setting.noise)),
            rate=float(setting.rate),
        )
        return str(self._registry.method(method)), observed

    def combinations(self) -> Iterator[tuple[str, Setting, str]]:
        """The table cells: method, setting and selection of each."""
        for (method, setting), select in itertools.product(self._pairs, self.selections):
            yield method, setting, select

    def _cell_identity(self, method: str, setting: Setting, select: str) -> str:
        """Hash of all parameters and versions behind the texts of a cell."""
        cell = (method, setting, select)
        if cell not in self._identities:
            self._identities[cell] = cell_identity(
                self._registry, method, setting.dataset, setting.sampler, setting.noise, select
            )
        return self._identities[cell]


def cell_identity(registry: Registry, method: str, dataset: str, sampler: str, noise: str, select: str) -> str:
    """Hash of all parameters and versions behind the specs of a trial."""
    parts = [
        registry.method(method),
        registry.dataset(dataset),
        registry.sampler(sampler),
        registry.noise(noise),
        registry.selection(select),
    ]
    return _digest([registry.identity(part) for part in parts])[:16]


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _said(error: Exception) -> str:
    """What an error says to whoever made the request: its type only where it is no complaint about a value."""
    return str(error) if isinstance(error, ValueError) else one_line(error)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
