"""What a table must know besides the records: directions, units, headline metrics, parameters.

Metadata are collected while a run's plugins are at hand and kept in its manifest, so that a table can be made
later and elsewhere, without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fieldbench.errors import RequestError, first_complaint
from fieldbench.method import Tuner
from fieldbench.plan import Plan
from fieldbench.plugin import Plugin
from fieldbench.registry import Registry
from fieldbench.spec import format_value, parse
from fieldbench.store.files import MANIFEST
from fieldbench.store.manifest import Manifest
from fieldbench.store.merge import joined_metadata

#: Columns of a record that are not metrics but can be tabled like one, each with its unit.
MEASURES: dict[str, str] = {"seconds": "s", "peak_memory": "bytes"}


@dataclass(frozen=True)
class RunMetadata:
    """What tables must know of the specs of a run.

    Attributes:
        trials: repetitions of each seed that were asked for in each cell; empty where unknown.
        size: trials that were asked for in all; 0 where unknown.
        order: specs in the order in which they were asked for.
        first: levels of factors that the reader wants before all others, in this order.
        headline: the metric that tables of a dataset show, by dataset.
        units: unit of a dataset's field, by dataset.
        higher_is_better: names of the metrics where more is better.
        targets: the value that is best, by name of the metrics where more and less are both worse.
        with_unit: names of the metrics that are in the field's unit.
        logarithmic: names of the metrics that are of logarithms where the field has a ``log_floor``.
        trained: methods that rest on training data beyond the observation.
        tuned: methods whose parameters are chosen in each trial, with what that is allowed in words.
        fixed: datasets whose field is the same in every trial.
        refitted: methods that are fitted several times in each trial, as a modifier asks.
        parameters: for each spec its parameters, defaults included, as text: ``{"tap.epochs": "1000"}``.
    """

    trials: Mapping[int, int] = field(default_factory=dict)
    size: int = 0
    order: tuple[str, ...] = ()
    first: Mapping[str, Sequence[object]] = field(default_factory=dict)
    headline: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    higher_is_better: tuple[str, ...] = ()
    targets: Mapping[str, float] = field(default_factory=dict)
    with_unit: tuple[str, ...] = ("rmse", "mae")
    logarithmic: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    tuned: Mapping[str, str] = field(default_factory=dict)
    refitted: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    parameters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """A form for the manifest, readable as JSON: all but the counts, which are those of the plans beside it."""
        return {key: value for key, value in asdict(self).items() if key not in ("trials", "size", "first")}

    @classmethod
    def of_run(cls, *manifests: Manifest) -> RunMetadata:
        """The metadata of a stored run: what :meth:`as_dict` gave its manifest, and what was asked for in all.

        What is missing or unknown is left out; so is the size of several runs, which may share trials.

        Raises:
            RequestError: if the manifest has other things in place of metadata.
        """
        try:
            known = _METADATA.validate_python(joined_metadata(manifest.metadata for manifest in manifests))
        except ValidationError as error:
            raise RequestError(f"the metadata in {MANIFEST} are damaged: {first_complaint(error)}") from None
        trials: Counter[int] = Counter()
        cells = [planned for manifest in manifests for planned in manifest.cells]
        for planned in cells:
            for seed, spans in planned.trials.items():
                trials[seed] = max(trials[seed], sum(count for _, count in spans))
        size = sum(planned.count() for planned in cells) if len(manifests) == 1 else 0
        return replace(known, trials=trials, size=size)

    def headline_of(self, dataset: str) -> str:
        """The metric that tables of a dataset show; RMSE where that is not known."""
        return self.headline.get(dataset, "rmse")

    def unit(self, metric: str, dataset: str) -> str:
        """The unit of a metric (or of seconds and memory) on a dataset, or an empty text."""
        if metric in MEASURES:
            return MEASURES[metric]
        name, own = (text.partition(".")[0].partition("[")[0] for text in (metric, self.headline.get(dataset, "")))
        # A dataset whose own metric is of logarithms has fields with a log_floor.
        if name not in self.with_unit or {name, own} <= set(self.logarithmic):
            return ""
        return self.units.get(dataset, "")

    def lower_is_better(self, metric: str) -> bool:
        """The direction of a metric; ``rmse.unobserved`` has that of ``rmse``."""
        return metric.partition(".")[0] not in self.higher_is_better

    def rank(self, metric: str, score: float) -> float:
        """A number that is the smaller, the better a score is."""
        target = self.targets.get(metric)
        if target is not None:
            return abs(score - target)
        return score if self.lower_is_better(metric) else -score

    def parameters_of(self, text: str) -> Mapping[str, str]:
        """The parameters of a spec: all of them where known, else those that the text names."""
        if text in self.parameters:
            return self.parameters[text]
        written = ((part.name, part.parameters) for part in parse(text))
        return {f"{name}.{key}": format_value(value) for name, own in written for key, value in own.items()}


_METADATA = TypeAdapter(RunMetadata)


def collect(plan: Plan, registry: Registry, units: Mapping[str, str] | None = None) -> RunMetadata:
    """The metadata of a plan, but for the counts: a run may have several plans.

    Args:
        plan: the plan.
        registry: where its plugins are.
        units: the unit of each dataset's field, as far as it is known.
    """
    datasets = list(dict.fromkeys(setting.dataset for setting in plan.settings))
    specs: dict[str, Mapping[str, str]] = {}
    for text in plan.methods:
        method = registry.method(text)
        specs[text] = _parameters([method, *method.modifiers])
    for setting in plan.settings:
        for text, find in (
            (setting.dataset, registry.dataset),
            (setting.sampler, registry.sampler),
            (setting.noise, registry.noise),
        ):
            if text not in specs:
                specs[text] = _parameters([find(text)])
    for text in plan.selections:
        specs[text] = _parameters([registry.selection(text)])
    metrics = registry.metrics()
    return RunMetadata(
        order=tuple(specs),
        headline={text: registry.dataset(text).metric for text in datasets},
        units=dict(units or {}),
        higher_is_better=tuple(metric.name for metric in metrics if not metric.lower_is_better),
        targets={metric.name: metric.target for metric in metrics if metric.target is not None},
        with_unit=tuple(metric.name for metric in metrics if metric.has_unit),
        logarithmic=tuple(metric.name for metric in metrics if metric.logarithmic),
        trained=tuple(text for text in plan.methods if registry.method(text).trained),
        tuned={
            text: modifier.allowance
            for text in plan.methods
            for modifier in registry.refits(text)
            if isinstance(modifier, Tuner)
        },
        refitted=tuple(
            text for text in plan.methods if any(not isinstance(modifier, Tuner) for modifier in registry.refits(text))
        ),
        fixed=tuple(text for text in datasets if registry.dataset(text).fixed_field),
        parameters=specs,
    )


def _parameters(parts: Iterable[Plugin]) -> dict[str, str]:
    return {f"{part.name}.{key}": format_value(value) for part in parts for key, value in part.parameters().items()}
