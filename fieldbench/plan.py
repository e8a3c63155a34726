"""From a request to trials: pure, lazy and in an order that makes early results comparable."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic import Field as Limited

from fieldbench.errors import RequestError, as_reason
from fieldbench.identity import cell_identity
from fieldbench.method import Tuner
from fieldbench.metric import Metric
from fieldbench.plugin import Plugin
from fieldbench.plugin_code import faults
from fieldbench.records import LARGEST, Cell, Trial, canonical
from fieldbench.registry import Registry, asked_here, text_of


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str | int | float) else value


#: The number of a trial is that of the first plus less than that of all, so half of the largest for each fits.
MOST_TRIALS = (LARGEST + 1) // 2

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
    seed: int = Limited(0, ge=0, le=LARGEST)
    first_trial: int = Limited(0, ge=0, le=MOST_TRIALS)

    def plan(self, registry: Registry) -> Plan:
        """The trials of this request.

        Raises:
            RequestError: if a spec is wrong.
        """
        return Plan(self, registry)


@dataclass(frozen=True)
class Setting:
    """One dataset as it is observed: everything of a trial that is not method or repetition."""

    dataset: str
    sampler: str
    noise: str
    rate: float

    def cell(self, method: str, select: str) -> Cell:
        """The cell of a method, observed in this way, with the rule that chooses its estimate."""
        return Cell(method, self.dataset, self.sampler, self.noise, select, self.rate)

    @classmethod
    def of(cls, cell: Cell) -> Setting:
        """What a cell observes."""
        return cls(cell.dataset, cell.sampler, cell.noise, cell.rate)


class Plan:
    """The validated request: canonical, countable, and iterable any number of times.

    Attributes:
        request: what was asked for.
        cells: what is computed, in the order asked for.
        methods, selections, settings: what the cells are made of.
        metric: the one that every dataset must have a score by, where there is such a one.
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
            pairs: which method meets which observed dataset, where that is listed one by one (as a suite
                does) and is not the product of the request's methods, datasets, samplers, noises and rates.

        Raises:
            RequestError: for anything wrong in it, with what would be right.
        """
        self.request = request
        self.metric = metric
        self._registry = registry
        self._usuals: dict[str, tuple[str, list[float]]] = {}
        self.selections = list(dict.fromkeys(str(registry.selection(text)) for text in request.select))
        chosen = self._product() if pairs is None else pairs
        met = list(dict.fromkeys(self.canonical(text, setting) for text, setting in chosen))
        self.methods = list(dict.fromkeys(method for method, _ in met))
        self.settings = list(dict.fromkeys(setting for _, setting in met))
        self._check_refits()
        self.cells = [
            setting.cell(method, select) for (method, setting), select in itertools.product(met, self.selections)
        ]
        self._identities: dict[Cell, str] = {}
        #: How a plugin's fingerprint is asked for. Whoever runs plugins in processes of their own asks there.
        self.fingerprint: Callable[[Plugin], str] = asked_here

    def _check_refits(self) -> None:
        """Refuse a tuner that has nothing to choose, and a choice among estimates of a method that is fitted often."""
        selects = any(text.partition("[")[0] != "final" for text in self.selections)
        for text in self.methods:
            refits = self._registry.refits(text)
            tuners = [refit for refit in refits if isinstance(refit, Tuner) and refit.fits_again]
            if tuners and not self._registry.space(text).searches:
                raise RequestError(f"{text}: its parameters are given, so that +{tuners[0].name} has nothing to choose")
            if refits and selects:
                raise RequestError(f"{text}: +{refits[0].name} has no estimates to select from; use --select final")

    @property
    def size(self) -> int:
        """The number of trials."""
        return len(self.cells) * self.request.trials

    @property
    def numbers(self) -> range:
        """The numbers of the repetitions."""
        return range(self.request.first_trial, self.request.first_trial + self.request.trials)

    @property
    def digest(self) -> str:
        """Hash of what is compared, in whatever order; more trials and edited plugins leave it as it is."""
        compared = [self.request.seed, sorted(astuple(cell) for cell in self.cells)]
        return hashlib.sha256(canonical(compared).encode()).hexdigest()[:24]

    def __iter__(self) -> Iterator[Trial]:
        """Trials, setting by setting; within a setting repetition by repetition, all methods of one together."""
        for setting in self.settings:
            cells = [cell for cell in self.cells if setting.of(cell) == setting]
            for number in self.numbers:
                for cell in cells:
                    yield self.trial(cell, number)

    def trial(self, cell: Cell, number: int) -> Trial:
        """One trial of the plan."""
        return Trial(cell, self.request.seed, number, self.identity(cell))

    def identity(self, cell: Cell) -> str:
        """Hash of all parameters and versions behind the texts of a cell."""
        if cell not in self._identities:
            self._identities[cell] = cell_identity(self._registry, cell, self.fingerprint)
        return self._identities[cell]

    def _product(self) -> Iterator[tuple[str, Setting]]:
        for text in self.request.datasets:
            sampler, usual_rates = self._usual(text)
            samplers, rates = self.request.samplers or [sampler], self.request.rates or usual_rates
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
        observed = Setting(
            dataset=text_of(self._registry.dataset(setting.dataset)),
            sampler=text_of(self._registry.sampler(setting.sampler or self._usual(setting.dataset)[0])),
            noise=text_of(self._registry.noise(setting.noise)),
            rate=float(setting.rate),
        )
        return text_of(self._registry.method(method), method), observed

    def _usual(self, text: str) -> tuple[str, list[float]]:
        """The sampler and rates that a dataset is usually observed with; they and its tables' metric must be there."""
        if text not in self._usuals:
            dataset = self._registry.dataset(text)
            what = f"dataset {text} has no usual sampler, rates and metric"
            with faults(lambda error: RequestError(f"{what}: {as_reason(error)}")):
                sampler, rates = str(dataset.default_sampler), [float(rate) for rate in dataset.default_rates]
                self._registry.sampler(sampler)
                self._registry.metric(str(dataset.metric))
            if not rates or not all(0 < rate <= 1 for rate in rates):
                raise RequestError(f"dataset {text}: its default_rates are {rates}; name one or more in (0, 1]")
            self._usuals[text] = sampler, rates
        return self._usuals[text]
