"""A look at the data before a run: what cannot work fails at once, and not in every trial."""

from __future__ import annotations

from fieldbench.errors import RequestError, one_line
from fieldbench.field import Field
from fieldbench.plan import Plan, Setting
from fieldbench.registry import Registry
from fieldbench.sensing import observe
from fieldbench.trial import stream


def examine(plan: Plan, registry: Registry) -> dict[str, str]:
    """Make data available and draw each setting's first observation.

    Returns:
        The unit of each dataset's field.

    Raises:
        RequestError: if data is missing or not finite, the plan's metric does not apply, a rate observes nothing,
            or a method's parameter contradicts the field's shape.
    """
    units: dict[str, str] = {}
    for text in dict.fromkeys(setting.dataset for setting in plan.settings):
        dataset = registry.dataset(text)
        dataset.prepare()
        try:
            field = dataset.draw(stream("field", plan.request.seed, plan.request.first_trial, text))
        except Exception as error:
            raise RequestError(f"dataset {text}: {_said(error)}") from error
        if not isinstance(field, Field):
            raise RequestError(f"dataset {text}: draw() returned {type(field).__name__}; it should return a Field")
        if plan.metric is not None and not plan.metric.applies_to(field):
            raise RequestError(f"metric {plan.metric} does not apply to {text}; its own is {dataset.metric}")
        units[text] = field.unit
        for setting in plan.settings:
            if setting.dataset == text:
                _examine(plan, registry, setting, field)
    return units


def _examine(plan: Plan, registry: Registry, setting: Setting, field: Field) -> None:
    sampler, noise = registry.sampler(setting.sampler), registry.noise(setting.noise)
    place = f"{setting.sampler} sampling of {setting.dataset} at rate {setting.rate:g}"
    try:
        mask = sampler.draw(field.existing, field.axes, setting.rate, stream("examine", plan.request.seed))
        observation = observe(field, mask & field.existing, noise.draw(field.shape, stream("examine")))
    except Exception as error:
        where = place if setting.noise == "none" else f"{place} with {setting.noise}"
        raise RequestError(f"{where}: {_said(error)}") from error
    for text in dict.fromkeys(cell.method for cell in plan.cells if Setting.of(cell) == setting):
        method = registry.method(text)
        try:
            if method.applicable(observation) is None:
                method.check_shape(field.shape)
        except ValueError as error:
            raise RequestError(f"{text} on {setting.dataset}: {error}") from None
        except Exception:  # the method's own mistake: each of its trials will be a row that says so
            continue


def _said(error: Exception) -> str:
    """What an error says to whoever made the request: its type only where it is no complaint about a value."""
    return str(error) if isinstance(error, ValueError) else one_line(error)
