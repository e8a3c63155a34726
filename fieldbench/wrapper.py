"""Modifiers that hold a method: they change what goes into it and what comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

from numpy.typing import ArrayLike
from pydantic import BeforeValidator, PrivateAttr, ValidationInfo

from fieldbench.errors import RequestError
from fieldbench.estimate import Estimate
from fieldbench.field import Observation
from fieldbench.method import Method, Modifier, Report
from fieldbench.registry import Registry


def _method_of(given: Any, info: ValidationInfo) -> Any:
    """A method from its spec, looked up in the registry that reads the spec around it."""
    if not isinstance(given, str):
        return given
    registry = info.context if isinstance(info.context, Registry) else Registry()
    return registry.method(given)


MethodParameter: TypeAlias = Annotated[Method, BeforeValidator(_method_of)]
"""The type of a parameter that is a method; its spec is accepted: ``residual[of=kriging]``."""


class Wrapper(Modifier, ABC):
    """A modifier that takes any method and calls it: ``nearest+log``.

    The modified method has the name, parameters, modifiers, marks and needs of the method within. Those of the methods
    among a wrapper's parameters are added.

    >>> import fieldbench
    >>> class Doubled(Wrapper):
    ...     '''Twice what the method says.'''
    ...
    ...     name = "doubled"
    ...
    ...     def complete(self, method, observation, *, seed, device, report):
    ...         return 2 * method.complete(observation, seed=seed, device=device, report=report)
    >>> str(fieldbench.make("nearest") + Doubled())
    'nearest+doubled'

    Attributes:
        scale_equivariant: whether it keeps a method so that is.
        pointwise: whether it keeps a method so that is.
    """

    scale_equivariant: ClassVar[bool] = True
    pointwise: ClassVar[bool] = False

    @abstractmethod
    def complete(
        self, method: Method, observation: Observation, *, seed: int, device: str, report: Report
    ) -> ArrayLike | Estimate:
        """Reconstruct the whole field with the help of ``method``.

        Args:
            method: the method that is modified.
            observation: as in :meth:`Method.complete`.
            seed: the only source of randomness, for the method as well.
            device: hand it to the method.
            report: as in :meth:`Method.complete`; estimates that the method reports to it count as they are.

        Returns:
            What :meth:`Method.complete` returns.
        """

    def complete_batch(
        self,
        method: Method,
        observations: Sequence[Observation],
        *,
        seeds: Sequence[int],
        device: str,
        reports: Sequence[Report],
    ) -> Sequence[ArrayLike | Estimate]:
        """As :meth:`Method.complete_batch`; to be overridden together with :meth:`batch_size`.

        Args:
            method: that is wrapped.
            observations: of one shape.
            seeds: one for each observation.
            device: as in :meth:`Method.complete`.
            reports: one listener for each observation.
        """
        return [
            self.complete(method, observation, seed=seed, device=device, report=report)
            for observation, seed, report in zip(observations, seeds, reports, strict=True)
        ]

    def batch_size(self, method: Method, shape: Sequence[int], device: str) -> int:
        """How many trials of fields of this shape are worth computing at once on ``device``.

        Args:
            method: that is wrapped.
            shape: of the fields.
            device: where they are computed.
        """
        return 1

    def orders(self, method: Method) -> tuple[int, ...] | None:
        """The tensor orders that the modified method works on, or None for any."""
        return method.orders

    def applicable(self, method: Method, observation: Observation) -> str | None:
        """Why the modified method cannot work on such an observation, or None if it can."""
        return method.applicable(observation)

    def check_shape(self, method: Method, shape: Sequence[int]) -> None:
        """Raise ValueError if a parameter, of the method's as well, contradicts a field of this shape."""
        method.check_shape(shape)

    def modify(self, method: Method) -> Method:
        if method.modifier(self.name) is not None:
            raise RequestError(f"{method.name}: +{self.name} is given twice; give it once")
        return _Wrapped(method, self)


class _Wrapped(Method):
    """A method within a wrapper: it is called, described and known like the method within."""

    revision = "1"  # the wrapper and the method within have identities of their own

    _method: Method = PrivateAttr()
    _wrapper: Wrapper = PrivateAttr()

    def __init__(self, method: Method, wrapper: Wrapper) -> None:
        super().__init__(modifiers=(*method.modifiers, wrapper))
        self._method, self._wrapper = method, wrapper

    def complete(self, observation: Observation, *, seed: int, device: str, report: Report) -> ArrayLike | Estimate:
        return self._wrapper.complete(self._method, observation, seed=seed, device=device, report=report)

    def complete_batch(
        self, observations: Sequence[Observation], *, seeds: Sequence[int], device: str, reports: Sequence[Report]
    ) -> Sequence[ArrayLike | Estimate]:
        return self._wrapper.complete_batch(self._method, observations, seeds=seeds, device=device, reports=reports)

    def batch_size(self, shape: Sequence[int], device: str) -> int:
        return self._wrapper.batch_size(self._method, shape, device)

    def applicable(self, observation: Observation) -> str | None:
        reason = super().applicable(observation)
        return (
            reason.replace(self.name, str(self), 1) if reason else self._wrapper.applicable(self._method, observation)
        )

    def check_shape(self, shape: Sequence[int]) -> None:
        self._wrapper.check_shape(self._method, shape)

    @property
    def name(self) -> str:  # type: ignore[override]  # what a class declares is here what the method within declares
        return self._method.name

    @property
    def orders(self) -> tuple[int, ...] | None:  # type: ignore[override]
        return self._wrapper.orders(self._method)

    @property
    def accepts(self) -> frozenset[str]:  # type: ignore[override]
        return self._method.accepts

    @property
    def trained(self) -> bool:  # type: ignore[override]
        return any(method.trained for method in self._all)

    @property
    def uses_gpu(self) -> bool:  # type: ignore[override]
        return any(method.uses_gpu for method in self._all)

    @property
    def libraries(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(library for method in self._all for library in method.libraries))

    @property
    def scale_equivariant(self) -> bool:  # type: ignore[override]
        return self._wrapper.scale_equivariant and all(method.scale_equivariant for method in self._all)

    @property
    def pointwise(self) -> bool:  # type: ignore[override]
        return self._wrapper.pointwise and all(method.pointwise for method in self._all)

    @property
    def conformance_dataset(self) -> str | None:  # type: ignore[override]
        return self._method.conformance_dataset

    @property
    def expected_failures(self) -> dict[str, str]:  # type: ignore[override]
        return self._method.expected_failures

    @property
    def _all(self) -> list[Method]:
        """The method within, and those among the wrapper's parameters."""
        values: list[Any] = list(self._wrapper.parameters().values())
        return [self._method, *(value for value in values if isinstance(value, Method))]

    def parameters(self) -> dict[str, Any]:
        return self._method.parameters()

    def bare(self) -> Method:
        return self._method.bare()

    def taking(self, modifier: Modifier) -> Method:
        """The method within takes the modifier: it stands before the wrapper."""
        return self._wrapper.modify(modifier.modify(self._method))

    def __str__(self) -> str:
        return "+".join(map(str, [self.bare(), *self.modifiers]))
