"""The base class of field-completion methods, and of the modifiers that compose with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from numpy.typing import ArrayLike
from pydantic import Field as _PydanticField
from pydantic import SerializeAsAny, ValidationError

from fieldbench.errors import RequestError, first_complaint
from fieldbench.estimate import Estimate
from fieldbench.field import Mask, Observation
from fieldbench.plugin import Plugin, parameter, same_value
from fieldbench.search import Search, Space, plain
from fieldbench.spec import Value, parse_value, split


class Report(Protocol):
    """What a method may tell the harness while it works. The harness scores; the method never sees a score.

    >>> class Printed(NullReport):
    ...     def due(self, step):
    ...         return step % 2 == 0
    ...
    ...     def __call__(self, step, estimate, **diagnostics):
    ...         print(step, diagnostics)
    >>> report = Printed()
    >>> for step in range(4):  # as a method does
    ...     if report.due(step):
    ...         report(step, [0.0, 0.0], loss=1 / (step + 1))
    0 {'loss': 1.0}
    2 {'loss': 0.3333333333333333}
    """

    @property
    def threads(self) -> int:
        """CPU threads that this trial may use now.

        One (or what ``--threads`` says) while all slots have work; more for the last trials of a run, to which
        idle slots lend theirs, and that in their midst: look again now and then. A method may ignore it, and
        what it computes must not depend on it.
        """

    def due(self, step: int) -> bool:
        """Whether an estimate at this step is wanted; cheap, ask before computing one."""

    def __call__(self, step: int, estimate: ArrayLike | Estimate, **diagnostics: float) -> None:
        """Hand over the estimate at ``step`` (a copy is taken) and any named numbers worth a curve."""


class NullReport:
    """A report that wants nothing, and allows one thread.

    >>> NullReport().due(0), NullReport().threads
    (False, 1)
    """

    threads = 1

    def due(self, step: int) -> bool:
        return False

    def __call__(self, step: int, estimate: ArrayLike | Estimate, **diagnostics: float) -> None:
        return None


#: Points that a tuner tries where nothing is said.
BUDGET = 30

#: What :meth:`Method.complete` is called with where nothing is said.
_DEFAULTS = {"seed": 0, "device": "cpu", "report": NullReport()}


class TrainingProgress(Protocol):
    """Told how far a training has come; ``numbers`` are worth showing beside it.

    >>> def printed(step, steps, **numbers):
    ...     print(f"step {step} of {steps}", numbers)
    >>> progress: TrainingProgress = printed
    >>> progress(1, 100, loss=0.5)
    step 1 of 100 {'loss': 0.5}
    """

    def __call__(self, step: int, steps: int, **numbers: float) -> None: ...


class PriorTraining(Plugin, ABC):
    """How the prior of a trained method is made; its parameters are the settings of the training.

    >>> from fieldbench import parameter
    >>> class Dry(PriorTraining):
    ...     '''A training that only counts its steps.'''
    ...
    ...     name = "dry"
    ...     steps: int = parameter(2, "steps of the training", ge=1)
    ...
    ...     def run(self, out, *, seed, device, progress, resume):
    ...         for step in range(self.steps):
    ...             progress(step + 1, self.steps)
    >>> Dry(steps=3).run(Path("prior.safetensors"), seed=0, device="cpu", progress=print, resume=False)
    1 3
    2 3
    3 3
    """

    @abstractmethod
    def run(self, out: Path, *, seed: int, device: str, progress: TrainingProgress, resume: bool) -> None:
        """Train, and write the weights to ``out`` and a card beside it.

        Args:
            out: file to write. What an unfinished training needs to go on lies beside it.
            seed: the only source of randomness.
            device: ``"cpu"`` or ``"cuda:0"``.
            progress: call it after every step.
            resume: go on with an unfinished training of the same settings if there is one.

        Raises:
            RequestError: if ``out`` exists, or an unfinished training does and ``resume`` is off.
        """


class Method(Plugin, ABC):
    """A field-completion method: an observation goes in, a complete field comes out.

    >>> import numpy as np
    >>> class Mean(Method):
    ...     '''The mean of what was observed, everywhere.'''
    ...
    ...     name = "mean"
    ...
    ...     def complete(self, observation, *, seed, device, report):
    ...         return np.full(observation.shape, observation.observed.mean())
    >>> observation = Observation([1.0, 3.0, 0.0], [True, True, False])
    >>> Mean().complete(observation)
    array([2., 2., 2.])

    Attributes:
        uses_gpu: whether the method can work on a GPU; one that cannot is given CPU slots.
        trained: whether it rests on training data beyond the observation; tables mark it.
        orders: the tensor orders it works on, or None for any.
        accepts: names of the modifiers it works into its own training (``tap+tv``).
        scale_equivariant: whether values in another unit, c times as large, give an estimate c times as
            large; say False where a parameter has the field's unit.
        conformance_dataset: spec of a dataset whose fields the conformance checks use in place of small
            made-up ones, for a method that is made for particular fields.
        libraries: of ``numba`` and ``torch``, what it imports; loaded once for all processes, they cost its own
            process no time.
        pointwise: whether an entry is estimated from the observations alone and not from its missing neighbours; a
            comparison then asks for withheld entries only, and says of all others that they do not exist.
    """

    uses_gpu: ClassVar[bool] = False
    trained: ClassVar[bool] = False
    orders: ClassVar[tuple[int, ...] | None] = None
    accepts: ClassVar[frozenset[str]] = frozenset()
    prior_training: ClassVar[type[PriorTraining] | None] = None
    scale_equivariant: ClassVar[bool] = True
    conformance_dataset: ClassVar[str | None] = None
    libraries: ClassVar[tuple[str, ...]] = ()
    pointwise: ClassVar[bool] = False

    modifiers: tuple[SerializeAsAny[Modifier], ...] = _PydanticField(default=(), repr=False)

    def __init_subclass__(cls, **options: Any) -> None:
        """Let :meth:`complete` be called with an observation alone, whoever wrote it."""
        super().__init_subclass__(**options)
        complete = vars(cls).get("complete")
        if isinstance(complete, FunctionType):
            complete.__kwdefaults__ = {**_DEFAULTS, **(complete.__kwdefaults__ or {})}

    @abstractmethod
    def complete(self, observation: Observation, *, seed: int, device: str, report: Report) -> ArrayLike | Estimate:
        """Reconstruct the whole field, and say how sure it is if the method knows.

        A subclass need give no defaults; called without them, ``seed`` is 0, ``device`` is ``"cpu"`` and ``report``
        is a :class:`NullReport`.

        Args:
            observation: values (NaN where unobserved), mask (True = observed) and axes. Not to be modified.
            seed: the only source of randomness; the same seed gives the same numbers.
            device: ``"cpu"`` or, for a method that ``uses_gpu``, ``"cuda:0"``.
            report: call it with intermediate estimates where :meth:`Report.due` says so.

        Returns:
            A real array of the observation's shape, finite everywhere, in the observation's unit; or an
            :class:`fieldbench.Estimate` with such an array and its deviation, members or quantiles.
        """

    def complete_batch(
        self, observations: Sequence[Observation], *, seeds: Sequence[int], device: str, reports: Sequence[Report]
    ) -> Sequence[ArrayLike | Estimate]:
        """Reconstruct several fields of one shape; each result equals that of :meth:`complete` alone.

        Args:
            observations, seeds, reports: one of each for a field.
            device: as in :meth:`complete`.
        """
        return [
            self.complete(observation, seed=seed, device=device, report=report)
            for observation, seed, report in zip(observations, seeds, reports, strict=True)
        ]

    def batch_size(self, shape: Sequence[int], device: str) -> int:
        """How many trials of fields of this shape are worth computing at once on ``device``."""
        return 1

    def fingerprint(self) -> str:
        """Identity of data outside the source code (the hash of a weights file); part of every trial's key."""
        return ""

    def applicable(self, observation: Observation) -> str | None:
        """Why this method cannot work on such an observation, or None if it can."""
        if self.orders is not None and observation.ndim not in self.orders:
            known = ", ".join(f"{order}-D" for order in self.orders)
            return f"{self.name} works on {known} fields; this one is {observation.ndim}-D"
        return None

    def check_shape(self, shape: Sequence[int]) -> None:
        """Raise ValueError if a parameter contradicts a field of this shape (a window larger than it)."""

    def modifier(self, name: str) -> Modifier | None:
        """The modifier of this name that was added, or None."""
        return next((modifier for modifier in self.modifiers if modifier.name == name), None)

    def bare(self) -> Method:
        """The method without its modifiers."""
        return self.model_copy(update={"modifiers": ()})

    def taking(self, modifier: Modifier) -> Method:
        """The method with one more modifier that it works into its own computation."""
        return self.model_copy(update={"modifiers": (*self.modifiers, modifier)})

    def tunable(self) -> dict[str, Search]:
        """What may be tuned, of its modifiers as well: ``window``, ``tv.weight``."""
        found = type(self.bare()).search_space()
        for modifier in self.modifiers:
            found |= {f"{modifier.name}.{key}": search for key, search in modifier.search_space().items()}
        return found

    def space(self) -> Space:
        """What is left to tune: all that is :meth:`tunable` and has its default."""
        own = {"": self.bare(), **{f"{modifier.name}.": modifier for modifier in self.modifiers}}
        start, defaults = dict[str, Any](), dict[str, Any]()
        for prefix, plugin in own.items():
            start |= {prefix + key: value for key, value in plugin.parameters().items()}
            defaults |= {prefix + key: field.default for key, field in type(plugin).model_fields.items()}
        free = {key: search for key, search in self.tunable().items() if same_value(start[key], defaults[key])}
        return Space(free, {key: plain(start[key]) for key in free})

    def with_values(self, values: Mapping[str, Value]) -> Method:
        """The same method with other values of some parameters, named as in :meth:`tunable`.

        Raises:
            RequestError: if a name is of a modifier that the method does not have.
            ValueError: if a value is not allowed.
        """
        for key in values:
            name, dot, _ = key.partition(".")
            if dot and self.modifier(name) is None:
                raise RequestError(f"{key}: {self} has no modifier {name}")
        method = _with_values(self.bare(), {key: value for key, value in values.items() if "." not in key})
        for modifier in self.modifiers:
            own = {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{modifier.name}.")}
            method = _with_values(modifier, own).modify(method)
        return method

    @classmethod
    def parameter_names(cls) -> list[str]:
        return [key for key in cls.model_fields if key != "modifiers"]

    def __add__(self, modifier: Modifier) -> Method:
        return modifier.modify(self)

    def __str__(self) -> str:
        return "+".join([super().__str__(), *map(str, self.modifiers)])


class Modifier(Plugin):
    """Something that composes with methods and is written behind a ``+``: ``tap+tv[weight=0.1]``.

    Registered by the same hook as methods. By default it is handed to methods that name it in
    ``accepts``; one that takes any method is a :class:`fieldbench.Wrapper`.

    >>> import fieldbench
    >>> fieldbench.make("tap+tv[weight=0.1]").modifier("tv").weight
    0.1
    """

    def modify(self, method: Method) -> Method:
        """The modified method.

        Raises:
            RequestError: if ``method`` cannot take this modifier, or has it already.
        """
        if self.name not in method.accepts:
            raise RequestError(f"{method.name} does not take +{self.name}")
        if method.modifier(self.name) is not None:
            raise RequestError(f"{method.name}: +{self.name} is given twice; give it once")
        return method.taking(self)


Fit: TypeAlias = Callable[[Observation, int], Estimate]
"""Fits a method to an observation, with a seed of 32 bits, in the method's own process."""

Withhold: TypeAlias = Callable[[float, int], Mask]
"""Draws fold number k of a share of the observed entries, as the sampler chooses them (True = withheld)."""


class OfFits(Modifier, ABC):
    """A modifier that has a method fitted several times.

    It works where trials are judged and never in the method's process, so that what it withholds is not known there.
    It stands behind all other modifiers.
    """

    def modify(self, method: Method) -> Method:
        if method.modifier(self.name) is not None:
            raise RequestError(f"{method.name}: +{self.name} is given twice; give it once")
        modified = method.model_copy(update={"modifiers": (*method.modifiers, self)})
        if not str(modified).endswith(f"+{self}"):
            raise RequestError(f"{method.name} does not take +{self.name}: its text form leaves modifiers out")
        return modified


class Refit(OfFits):
    """A modifier that makes one estimate of several fits: ``nearest+conformal``.

    >>> class Twice(Refit):
    ...     '''The mean of two fits with different seeds.'''
    ...
    ...     name = "twice"
    ...
    ...     def complete(self, observation, fit, withhold, seed):
    ...         return Estimate((fit(observation, seed).mean + fit(observation, seed + 1).mean) / 2)
    >>> import fieldbench
    >>> str(fieldbench.make("nearest") + Twice())
    'nearest+twice'
    """

    @abstractmethod
    def complete(self, observation: Observation, fit: Fit, withhold: Withhold, seed: int) -> Estimate:
        """Make an estimate of fits.

        Args:
            observation: all that was observed.
            fit: fits the method; hand it :meth:`Observation.without` what is to be withheld.
            withhold: draws what to withhold from ``observation``.
            seed: the one that the method has when it is fitted once.

        Raises:
            RequestError: if too little is observed, or the method cannot be refitted so.
        """


Try: TypeAlias = Callable[[Mapping[str, Value]], float]
"""Tries values of parameters: the error at withheld entries of a fit with them, infinite where there is none."""


class Tuner(OfFits):
    """A modifier that chooses a method's parameters: ``tap+tuned[budget=30]``.

    In each trial, a share of the observed entries is withheld as the sampler withholds, the method is fitted to the
    rest with every point that is tried, and the point with the least error at the withheld entries is fitted to all
    that was observed. The harness withholds, fits, scores and chooses; a tuner says which point to try next, and
    learns of each its error alone. The method's own values are tried first.

    >>> class Corners(Tuner):
    ...     '''The ends of every range, one parameter at a time.'''
    ...
    ...     name = "corners"
    ...
    ...     def search(self, space, attempt, seed):
    ...         for key, search in space.searches.items():
    ...             for value in search.corners:
    ...                 attempt({key: value})
    >>> import fieldbench
    >>> str(fieldbench.make("lrtc") + Corners(budget=10))
    'lrtc+corners[budget=10]'
    """

    budget: int | None = parameter(
        None, "points that are tried, the method's own first; none: 30, or as many as the seconds allow", ge=1
    )
    seconds: float | None = parameter(None, "seconds of fits after which no other point is tried", unit="s", gt=0)
    share: float = parameter(0.2, "share of the observed entries (or fibers) withheld each time", gt=0, lt=1)
    folds: int = parameter(1, "times that entries are withheld; each is one more fit of every point", ge=1)

    trying: str = parameter(
        "", "other values while points are tried, such as epochs=100; the chosen point is fitted without them"
    )

    #: Whether the chosen point is fitted to all that was observed. Otherwise its last fit without a fold is kept.
    fits_again: ClassVar[bool] = True

    @property
    def allowance(self) -> str:
        """What a search is allowed, in words: ``30 points``."""
        points = [] if self.points is None else [f"{self.points} points"]
        seconds = [] if self.seconds is None else [f"{self.seconds:g} s of fits"]
        tried = f", tried with {self.trying}" if self.trying else ""
        return " and at most ".join([*points, *seconds]) + tried

    @property
    def while_trying(self) -> dict[str, Value]:
        """The values of :attr:`trying`.

        Raises:
            RequestError: if it is none.
        """
        found = dict[str, Value]()
        for item in split(self.trying) if self.trying else ():
            key, equals, text = (piece.strip() for piece in item.partition("="))
            if not (key and equals and text):
                raise RequestError(f"+{self.name}: trying={self.trying!r} is not understood; write epochs=100")
            found[key] = parse_value(text)
        return found

    @property
    def points(self) -> int | None:
        """How many points it may try; None for as many as its seconds allow."""
        return BUDGET if self.budget is None and self.seconds is None else self.budget

    @abstractmethod
    def search(self, space: Space, attempt: Try, seed: int) -> None:
        """Try points until nothing more is worth trying, or the budget is spent, which ends this call.

        Args:
            space: what may be tuned, and the values that the method has.
            attempt: tries a point; what it does not name is as in ``space.start``. A point that was tried before is
                not fitted again, and counts again.
            seed: the only source of randomness.
        """

    def modify(self, method: Method) -> Method:
        refits = [modifier.name for modifier in method.modifiers if isinstance(modifier, OfFits)]
        if refits and self.name not in refits:
            raise RequestError(f"{method.name}: +{self.name} stands before +{refits[0]}")
        if not method.tunable():
            raise RequestError(f"{method.name} has nothing for +{self.name} to choose: no parameter declares a search")
        try:
            method.with_values(self.while_trying)
        except ValidationError as error:
            raise RequestError(f"{method.name}+{self.name}: trying={self.trying}: {first_complaint(error)}") from None
        return super().modify(method)


def parts(plugin: Plugin) -> list[Plugin]:
    """The plugins that one is made of: of a method it and its modifiers, and the methods among their parameters."""
    own = [plugin.bare(), *plugin.modifiers] if isinstance(plugin, Method) else [plugin]
    held: list[Any] = [value for part in own for value in part.parameters().values()]
    return [*own, *(part for value in held if isinstance(value, Plugin) for part in parts(value))]


P = TypeVar("P", bound=Plugin)


def _with_values(plugin: P, values: Mapping[str, Value]) -> P:
    return type(plugin)(**{**plugin.parameters(), **values}) if values else plugin


Method.model_rebuild()
