"""Fields and observations: what is measured, and what a method may see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.floating]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of a field: its name, unit and the coordinate of every index along it.

    >>> depth = Axis("depth", [0.0, 10.0, 30.0], "m")
    >>> len(depth), depth.spacing
    (3, 15.0)

    Attributes:
        name: its name.
        coordinates: one number for each index, in ``unit``.
        unit: unit of the coordinates.
        period: for a closed axis (longitudes around the earth, hours of a day) the distance after which it
            comes back to the same position, in ``unit``; None for an open one.
    """

    name: str
    coordinates: FloatArray
    unit: str = ""
    period: float | None = None

    def __post_init__(self) -> None:
        coordinates = np.array(self.coordinates, dtype=float, ndmin=1)
        if coordinates.ndim != 1 or not np.isfinite(coordinates).all():
            raise ValueError(f"axis {self.name!r}: coordinates must be a finite vector")
        coordinates.setflags(write=False)
        object.__setattr__(self, "coordinates", coordinates)

    @classmethod
    def regular(cls, name: str, size: int, spacing: float = 1.0, unit: str = "", origin: float = 0.0) -> Axis:
        """An axis of ``size`` equally spaced points, ``spacing`` apart in ``unit``.

        Args:
            name: of the axis, such as ``depth``.
            size: number of points.
            spacing: distance of neighbouring points, in ``unit``.
            unit: of the coordinates.
            origin: the first coordinate, in ``unit``.
        """
        return cls(name, origin + spacing * np.arange(size), unit)

    @property
    def spacing(self) -> float:
        """The mean distance between neighbouring points, in :attr:`unit` (1 for a single point)."""
        if len(self) < 2:
            return 1.0
        return float(abs(self.coordinates[-1] - self.coordinates[0]) / (len(self) - 1))

    def __len__(self) -> int:
        return len(self.coordinates)


def grid_axes(shape: Sequence[int]) -> tuple[Axis, ...]:
    """Axes of unit spacing for an array that comes without any: x, y, z, then axis3, axis4, ...

    >>> [(axis.name, axis.coordinates.tolist()) for axis in grid_axes((2, 3))]
    [('x', [0.0, 1.0]), ('y', [0.0, 1.0, 2.0])]
    """
    names = ["x", "y", "z"]
    return tuple(Axis.regular(names[index] if index < 3 else f"axis{index}", size) for index, size in enumerate(shape))


@dataclass(frozen=True, eq=False)
class Field:
    """A physical field on a grid, complete wherever it exists.

    >>> sea = Field([[20.5, 21.0], [20.0, 0.0]], unit="K", valid=[[True, True], [True, False]])
    >>> sea.shape, [axis.name for axis in sea.axes]
    ((2, 2), ['x', 'y'])

    Attributes:
        values: array of any order (2-D, 3-D, 4-D ...), in ``unit``.
        axes: one :class:`Axis` for each dimension of ``values``.
        unit: unit of the values, such as ``"m/s"``.
        quantity: what is measured, such as ``"sound speed anomaly"``.
        valid: boolean array, True where the field exists (False on land or inside buildings); where None is
            given it exists everywhere.
        log_floor: for a positive quantity that varies over decades (radio power), the value added before
            taking logarithms; None for a quantity that is compared on its linear scale.
        metadata: numbers about the field that its dataset gives to methods, such as the number of emitters. One that
            knows the standard deviation of its measurement noise, in ``unit``, calls it ``noise_deviation``.
        covariates: other fields that are known at every valid entry, by name: the depth of the sea floor, the distance
            to an emitter. Each is an array that numpy broadcasts to the shape of ``values``.
        latent: what the generator knows of the field beyond its values, for its own floor; no method sees it.

    Raises:
        ValueError: if shapes disagree, the field exists nowhere, or a valid entry is NaN or infinite, of a covariate
            as well.
    """

    values: FloatArray
    axes: tuple[Axis, ...] = ()
    unit: str = ""
    quantity: str = ""
    valid: Mask = None  # type: ignore[assignment]  # a boolean array of the field's shape once it is made
    log_floor: float | None = None
    metadata: Mapping[str, float] = field(default_factory=dict)
    latent: Any = None
    covariates: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = _frozen_floats(self.values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "axes", _checked_axes(self.axes, values.shape))
        object.__setattr__(self, "valid", _checked_valid(self.valid, values.shape))
        object.__setattr__(self, "covariates", _checked_covariates(self.covariates, self.valid))
        count = int((~np.isfinite(values[self.valid])).sum())
        if count:
            raise ValueError(
                f"the field has {count} NaN or infinite entries; mark entries that do not exist as not valid"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


@dataclass(frozen=True, eq=False)
class Observation:
    """What a method may see: values at observed entries, and where they are.

    >>> seen = Observation([[1.0, 2.0], [3.0, 4.0]], [[True, False], [False, True]])
    >>> seen.values.tolist(), seen.observed.tolist(), seen.rate
    ([[1.0, nan], [nan, 4.0]], [1.0, 4.0], 0.5)

    Attributes:
        values: array of the field's shape; unobserved entries are NaN, so that using them is noticed. Whatever
            is given there is replaced by NaN.
        mask: boolean array of the same shape, True = observed.
        axes, unit, quantity, valid, log_floor, metadata, covariates: as in :class:`Field`.

    Raises:
        ValueError: if shapes disagree, the mask is not boolean, nothing is observed, or an observed
            entry is NaN or infinite or lies where the field does not exist.
    """

    values: FloatArray
    mask: Mask
    axes: tuple[Axis, ...] = ()
    unit: str = ""
    quantity: str = ""
    valid: Mask = None  # type: ignore[assignment]  # a boolean array of the field's shape once it is made
    log_floor: float | None = None
    metadata: Mapping[str, float] = field(default_factory=dict)
    covariates: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values, mask = _frozen_floats(self.values), np.array(self.mask)
        if mask.dtype != np.bool_:
            raise ValueError(f"the mask must be boolean with True = observed; this one is {mask.dtype}")
        if mask.shape != values.shape:
            raise ValueError(f"the mask has shape {mask.shape}, the values have {values.shape}")
        if not mask.any():
            raise ValueError("no entry is observed; a method needs at least one")
        if not np.isfinite(values[mask]).all():
            raise ValueError("an observed entry is NaN or infinite; mark it as unobserved instead")
        valid = _checked_valid(self.valid, values.shape)
        if (mask & ~valid).any():
            raise ValueError("an entry is observed where the field does not exist (valid is False)")
        if not np.isnan(values[~mask]).all():
            values = _frozen_floats(np.where(mask, values, np.nan))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "mask", unchangeable(mask))
        object.__setattr__(self, "valid", valid)
        object.__setattr__(self, "axes", _checked_axes(self.axes, values.shape))
        object.__setattr__(self, "covariates", _checked_covariates(self.covariates, valid))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def noise_deviation(self) -> float | None:
        """Standard deviation of the measurement noise in :attr:`unit`, where the dataset knows it."""
        return self.metadata.get("noise_deviation")

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @cached_property
    def observed(self) -> FloatArray:
        """The observed values as a vector of length n, in C order of their indices."""
        return self.values[self.mask]

    @cached_property
    def indices(self) -> NDArray[np.intp]:
        """Indices of the observed entries, shape (n, ndim), in the order of :attr:`observed`."""
        return np.argwhere(self.mask)

    @property
    def rate(self) -> float:
        """The share of valid entries that is observed."""
        return float(self.mask.sum() / self.valid.sum())

    def filled(self, fill: float = 0.0) -> FloatArray:
        """A writable copy of the values with ``fill`` at every unobserved entry."""
        return np.where(self.mask, self.values, fill)

    def without(self, withheld: Mask) -> Observation:
        """The same observation with the entries of ``withheld`` (True = withheld) unobserved as well."""
        return self.replaced(self.values, self.mask & ~withheld)

    def replaced(self, values: ArrayLike, mask: Mask | None = None) -> Observation:
        """The same geometry with other values, and another mask where one is given."""
        mask = self.mask if mask is None else mask
        return replace(self, values=np.where(mask, values, np.nan), mask=mask)

    def part(self, box: tuple[slice, ...]) -> Observation:
        """What lies in a box, one slice an axis; an axis that is cut is open."""
        axes = []
        for axis, along in zip(self.axes, box, strict=True):
            coordinates = axis.coordinates[along]
            whole = len(coordinates) == len(axis)
            axes.append(replace(axis, coordinates=coordinates, period=axis.period if whole else None))
        return replace(
            self,
            values=self.values[box],
            mask=self.mask[box],
            valid=self.valid[box],
            axes=tuple(axes),
            covariates={name: array[box] for name, array in self.covariates.items()},
        )


def _frozen_floats(values: ArrayLike) -> FloatArray:
    if isinstance(values, np.ma.MaskedArray):  # what lies under a mask is not a measurement
        values = np.ma.filled(values.astype(float), np.nan)
    array = np.array(values)
    if array.ndim == 0 or array.size == 0:
        raise ValueError("a field needs at least one dimension and one entry")
    if not np.issubdtype(array.dtype, np.floating):
        if not (np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_):
            raise ValueError(f"a field holds real numbers; this array is {array.dtype}")
        array = array.astype(float)
    return unchangeable(array)


def unchangeable(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that nobody can write to, not even after asking numpy for it: it lies over bytes."""
    whole = np.ascontiguousarray(array)
    return np.frombuffer(whole.tobytes(), whole.dtype).reshape(whole.shape)


def _checked_axes(axes: Sequence[Axis], shape: tuple[int, ...]) -> tuple[Axis, ...]:
    axes = tuple(axes) or grid_axes(shape)
    sizes = tuple(len(axis) for axis in axes)
    if sizes != shape:
        raise ValueError(f"the axes have sizes {sizes}, the values have shape {shape}")
    return axes


def _checked_valid(valid: ArrayLike | None, shape: tuple[int, ...]) -> Mask:
    array = np.ones(shape, dtype=bool) if valid is None else np.array(valid)
    if array.dtype != np.bool_ or array.shape != shape:
        raise ValueError(f"valid must be a boolean array of shape {shape}")
    if not array.any():
        raise ValueError("the field exists nowhere: no entry is valid")
    return unchangeable(array)


def _checked_covariates(covariates: Mapping[str, ArrayLike], valid: Mask) -> dict[str, FloatArray]:
    found = {}
    for name, values in covariates.items():
        array = _frozen_floats(values)
        if array.shape != valid.shape:
            try:
                array = unchangeable(np.broadcast_to(array, valid.shape))
            except ValueError:
                raise ValueError(
                    f"covariate {name!r} has shape {array.shape}, which does not broadcast to that of the field, "
                    f"{valid.shape}"
                ) from None
        if not np.isfinite(array[valid]).all():
            raise ValueError(f"covariate {name!r} is NaN or infinite where the field exists")
        found[name] = array
    return found
