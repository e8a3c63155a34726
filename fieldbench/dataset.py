"""The base class of datasets: where fields come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from fieldbench.estimate import Estimate
from fieldbench.field import Field, Observation
from fieldbench.plugin import Plugin


class Dataset(Plugin, ABC):
    """A source of complete fields.

    >>> class Planes(Dataset):
    ...     '''Planes that rise in a random direction.'''
    ...
    ...     name = "planes"
    ...
    ...     def draw(self, rng):
    ...         x, y = np.meshgrid(np.arange(4.0), np.arange(5.0), indexing="ij")
    ...         along_x, along_y = rng.normal(size=2)
    ...         return Field(along_x * x + along_y * y, unit="K", quantity="temperature")
    >>> Planes().draw(np.random.default_rng(0)).shape
    (4, 5)

    Attributes:
        default_sampler: spec of the sampler that this dataset is usually observed with.
        default_rates: sampling rates of a run that names none.
        metric: name of the metric that its tables show.
        fixed_field: whether every trial has the same field, so that trials tell of other masks and not of other fields.
        licence: terms of a measured field, and where they are.
        citation: what to cite.
    """

    default_sampler: ClassVar[str] = "random"
    default_rates: ClassVar[tuple[float, ...]] = (0.1,)
    metric: ClassVar[str] = "rmse"
    fixed_field: ClassVar[bool] = False
    licence: ClassVar[str] = ""
    citation: ClassVar[str] = ""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Field:
        """The field of one trial. A measured field ignores ``rng``; a generator draws from it alone."""

    def floor(self, field: Field, observation: Observation) -> Estimate | None:
        """The best estimate that the generator allows, by this dataset's :attr:`metric` and on average.

        It is asked once a draw, and only where the noise is normal or nothing. A better one shows a leak, so what is
        only nearly the best is not a floor. Measured fields have none.

        Args:
            field: the truth, with what :meth:`draw` left in :attr:`fieldbench.Field.latent`.
            observation: what methods are given of it.
        """
        return None

    def prepare(self) -> None:
        """Fetch and verify what :meth:`draw` needs; called once, before any trial.

        Raises:
            DataUnavailable: if files are missing; the message says in one line how to get them.
        """

    def fingerprint(self) -> str:
        """Identity of data outside the package (a file's hash); part of every trial's key."""
        return ""
