"""Modifiers that hold a method: they change what goes into it and what comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any, ClassVar, TypeAlias

from numpy.typing import ArrayLike
from pydantic import BeforeValidator, PrivateAttr, ValidationInfo

from fieldbench.errors import RequestError
from fieldbench.estimate import Estimate
from fieldbench.field import Observation
from fieldbench.method import Method, Modifier, OfFits, Report
from fieldbench.registry import Registry


def _method_of(given: Any, info: ValidationInfo) -> Any:
    """A method from its spec, looked up in the registry that reads the spec around it."""
    if isinstance(given, str):
        registry = info.context if isinstance(info.context, Registry) else Registry()
        given = registry.method(given)
    if isinstance(given, Method):
        apart = next((modifier for modifier in given.modifiers if isinstance(modifier, OfFits)), None)
        if apart is not None:
            raise ValueError(f"+{apart.name} is of whole trials; write it behind all others")
    return given


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
            method: the method that is modified; hand it the seed and device.
            observation, seed, device: as in :meth:`Method.complete`.
            report: likewise; estimates that the method reports to it count as they are.

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
            observations, seeds, device, reports: as there.
        """
        return [
            self.complete(method, observation, seed=seed, device=device, report=report)
            for observation, seed, report in zip(observations, seeds, reports, strict=True)
        ]

    def batch_size(self, method: Method, shape: Sequence[int], device: str) -> int:
        """As :meth:`Method.batch_size`.

        Args:
            method: that is wrapped.
            shape, device: as there.
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

    # What a class declares is here what the method within declares, or it and the methods among the parameters.
    name = property(attrgetter("_method.name"))
    accepts = property(attrgetter("_method.accepts"))
    conformance_dataset = property(attrgetter("_method.conformance_dataset"))
    expected_failures = property(attrgetter("_method.expected_failures"))
    trained = property(lambda self: any(method.trained for method in self._all))
    uses_gpu = property(lambda self: any(method.uses_gpu for method in self._all))
    scale_equivariant = property(lambda self: all(item.scale_equivariant for item in [self._wrapper, *self._all]))
    pointwise = property(lambda self: all(item.pointwise for item in [self._wrapper, *self._all]))
    orders = property(lambda self: self._wrapper.orders(self._method))

    @property
    def libraries(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(library for method in self._all for library in method.libraries))

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
