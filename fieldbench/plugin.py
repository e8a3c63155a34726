"""What every plugin is: a name, a summary and declared, validated, immutable parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from fieldbench.search import Log, Search, as_search
from fieldbench.spec import Value, format_part


def parameter(
    default: Any = ...,
    meaning: str = "",
    *,
    source: str = "",
    unit: str = "",
    search: tuple[float, float] | Log | list[Any] | None = None,
    **constraints: Any,
) -> Any:
    """Declare one parameter of a plugin: its default, meaning, source, bounds and what tuning may try.

    >>> class Example(Plugin):
    ...     '''An example.'''
    ...     name = "example"
    ...     sigma: float = parameter(0.1, "standard deviation of the noise", unit="m/s", gt=0)
    >>> str(Example()), str(Example(sigma=0.3))
    ('example', 'example[sigma=0.3]')

    Args:
        default: value where none is given; without one the parameter must be given.
        meaning: what it does, in one line.
        source: where the default comes from, such as a paper's section.
        unit: of the value, such as ``m/s``.
        search: a range ``(2, 9)``, a logarithmic one ``Log(1e-4, 1)``, or a list of values; a range of whole numbers
            holds whole numbers alone.
        **constraints: pydantic's (``gt``, ``ge``, ``lt``, ``le``, ``min_length`` ...). Numbers are finite, unless the
            default is not or ``allow_inf_nan=True`` is among them.
    """
    extra: dict[str, Any] = {"source": source, "unit": unit}
    if search is not None:
        extra["search"] = as_search(search)
    if isinstance(default, float) and not math.isfinite(default):
        constraints.setdefault("allow_inf_nan", True)
    return Field(default, description=meaning, json_schema_extra=extra, **constraints)


class Plugin(BaseModel):
    """Base of methods, modifiers, datasets, noises, samplers and metrics.

    A subclass sets ``name`` (lower case, digits, hyphens), declares its parameters with
    :func:`parameter`, and has a docstring whose first line is its summary.

    >>> class Window(Plugin):
    ...     '''A moving window.'''
    ...
    ...     name = "window"
    ...     width: float = parameter(1.0, "width of the window", unit="m", gt=0)
    >>> Window.summary(), Window().parameters(), str(Window(width=2.5))
    ('A moving window.', {'width': 1.0}, 'window[width=2.5]')

    Attributes:
        name: what people type to get it.
        revision: set this to a text that you change whenever the numbers change; it stands for this class and
            none derived from it. Without it, the version of an installed distribution or else all code that
            the class reaches stands for it, so that an edit is never mistaken for results already computed.
        expected_failures: names of conformance checks that this plugin cannot pass, each with the reason.
        requires: modules that it imports and fieldbench does not bring, each with what pip is to install for it:
            ``{"skimage": "scikit-image"}``. Where one is missing, the plugin is listed, and a request for it is
            answered with the command.
        conformance_parameters: values that the conformance checks use in place of defaults, to be quick
            (``{"epochs": 3}``).
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_default=True, allow_inf_nan=False
    )

    name: ClassVar[str]
    revision: ClassVar[str | None] = None
    expected_failures: ClassVar[dict[str, str]] = {}
    requires: ClassVar[Mapping[str, str]] = {}
    conformance_parameters: ClassVar[dict[str, Value]] = {}

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0].strip()

    def parameters(self) -> dict[str, Value]:
        """Every parameter with its value, in the order of declaration."""
        return {key: getattr(self, key) for key in type(self).parameter_names()}

    @classmethod
    def parameter_names(cls) -> list[str]:
        """The declared parameters, in order."""
        return list(cls.model_fields)

    @classmethod
    def search_space(cls) -> dict[str, Search]:
        """What may be tuned: by the name of a parameter, the values that may be tried."""
        extras = {key: cls.model_fields[key].json_schema_extra for key in cls.parameter_names()}
        found = {key: extra.get("search") for key, extra in extras.items() if isinstance(extra, dict)}
        return {key: cast(Search, search) for key, search in found.items() if search is not None}

    def __str__(self) -> str:
        """The canonical text form: the name, and the parameters that differ from their defaults."""
        fields = type(self).model_fields
        changed = {key: value for key, value in self.parameters().items() if not same_value(value, fields[key].default)}
        return format_part(self.name, changed)

    def __eq__(self, other: object) -> bool:
        """Whether class and parameters are the same, modifiers of a method included."""
        if not isinstance(other, Plugin) or not super().__eq__(other):
            return False
        theirs = other.parameters()
        return all(same_value(value, theirs[key]) for key, value in self.parameters().items())


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same: true is not the number 1, though Python has them equal."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
