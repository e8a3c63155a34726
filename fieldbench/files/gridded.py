"""What a file is asked for, and what was found in it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldbench.errors import RequestError, nearest
from fieldbench.field import Axis, Field, FloatArray, Mask, Observation
from fieldbench.files.axes import arranged, periods
from fieldbench.files.codes import classes_of, coded, suspicions

#: Where a gridded field sits in the whole array of a file: fixed positions, whole dimensions, or for dimensions
#: that are out of order an open mesh of positions.
Region: TypeAlias = tuple[int | slice | NDArray[np.intp], ...]


@dataclass(frozen=True)
class Selector:
    """What is asked of a file.

    >>> from tempfile import TemporaryDirectory
    >>> from fieldbench import read
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "sea.npz", sst=[[20.5, -999.0], [21.0, 20.0]], sea=[[1, 1], [1, 0]])
    ...     sst = read(Path(folder) / "sea.npz", Selector("sst", valid="sea", missing=(-999,)))
    >>> sst.values.tolist(), sst.valid.tolist()
    ([[20.5, nan], [21.0, 20.0]], [[True, True], [True, False]])

    Attributes:
        variable: name of the variable (column, path in an HDF5 file); none if there is but one.
        coordinates: names of the variables with the coordinates of each dimension; for a table, of the
            columns that say where a row is.
        grid: for a table, number of grid points along each coordinate; none if its rows lie on a grid.
        step: for a table, in place of ``grid``, the step of the grid along each coordinate (one for all), in its unit.
        points: for a table, a file with a table of the points where the field is wanted.
        mask: name of a variable that is true (non-zero) where the variable was observed.
        valid: name of a variable that is true (non-zero) where the field exists.
        at: positions along dimensions that are to be fixed, such as ``time=0``.
        missing: numbers that stand for a missing value, besides NaN and what the file says.
        cyclic: axes that are closed, such as ``hour=24``; longitudes around the earth are found to be.
    """

    variable: str | None = None
    coordinates: tuple[str, ...] = ()
    grid: tuple[int, ...] = ()
    mask: str | None = None
    valid: str | None = None
    at: tuple[str, ...] = ()
    missing: tuple[float, ...] = ()
    cyclic: tuple[str, ...] = ()
    step: tuple[float, ...] = ()
    points: Path | None = None


@dataclass(frozen=True, eq=False)
class ScatteredRows:
    """Rows of a table that lie scattered on the grid of all their coordinates.

    Attributes:
        frame: the table (pandas), one row a point.
        indices: the grid point of each row, a vector for each dimension.
        measured: whether they are the rows that were read, and not other points where the field is wanted.
    """

    frame: Any
    indices: tuple[NDArray[np.intp], ...]
    measured: bool = True


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable of a file, as it lies there.

    Attributes:
        name: its name.
        values: array of floats, NaN where missing.
        axes: one for each dimension.
        unit, quantity: what the file says of it, or nothing.
        remarks: what could not be used of the file, a line each.
        whole: whether whole numbers are stored that nothing scales: counts, or classes.
        flags: whether the file says that they are classes.
        valid: True where the field is wanted at all, or None for everywhere.
        rows: the scattered rows that are to be written, if it has no grid of its own.
        limits: the lowest and the highest value that the file calls valid, in the precision that it stores.
    """

    name: str
    values: FloatArray
    axes: tuple[Axis, ...]
    unit: str = ""
    quantity: str = ""
    remarks: tuple[str, ...] = ()
    whole: bool = False
    flags: bool = False
    valid: Mask | None = None
    rows: ScatteredRows | None = None
    limits: FloatArray = field(default_factory=lambda: np.array([-np.inf, np.inf]))


@dataclass(frozen=True, eq=False)
class GriddedVariable:
    """A field with gaps, as found in a file.

    Attributes:
        values: array, NaN where nothing was observed.
        valid: True where the field exists.
        axes: one for each dimension of ``values``, in order.
        variable: the variable that it is (a part of), as it lies in the file.
        region: where ``values`` sits in the variable's whole array, which may have more dimensions.
        unchanged: True where the file's number stays unless it is completed: a number that stands for a missing
            value, or one that was measured where the field does not exist.
        remarks: what the user should know of all this, a line each.
        classes: the numbers of the classes that it holds; none for amounts.
    """

    values: FloatArray
    valid: Mask
    axes: tuple[Axis, ...]
    variable: Variable
    region: Region
    unchanged: Mask
    remarks: tuple[str, ...] = ()
    classes: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return self.variable.name

    @property
    def quantity(self) -> str:
        """What is measured: what the file says, or the variable's name."""
        return self.variable.quantity or self.variable.name

    @property
    def missing(self) -> Mask:
        """True where the field exists and was not observed."""
        return np.isnan(self.values) & self.valid

    def spread(self, part: FloatArray) -> FloatArray:
        """An array of the shape of the variable, with ``part`` in the field's region and NaN elsewhere."""
        whole = np.full(self.variable.values.shape, np.nan)
        whole[self.region] = part
        return whole

    def observation(self, log_floor: float | None = None, metadata: Mapping[str, float] | None = None) -> Observation:
        """What a method may see: the observed entries that exist, and what else is known.

        Raises:
            RequestError: if there are none, or one has no logarithm with the floor added.
        """
        mask, unit = self._entries("observed entry", log_floor), self.variable.unit
        return Observation(self.values, mask, self.axes, unit, self.quantity, self.valid, log_floor, metadata or {})

    def field(self, log_floor: float | None = None) -> Field:
        """The field as a truth: entries that are missing are taken as such where it does not exist.

        Raises:
            RequestError: if there is no entry at all, or one has no logarithm with the floor added.
        """
        valid = self._entries("entry", log_floor)
        return Field(self.values, self.axes, self.variable.unit, self.quantity, valid, log_floor)

    def _entries(self, called: str, log_floor: float | None) -> Mask:
        """Where there is a value and the field exists."""
        entries = ~np.isnan(self.values) & self.valid
        if not entries.any():
            raise RequestError(f"{self.name} has no {called} (all are missing or not valid)")
        values = self.values[entries]
        if log_floor is not None and (below := int((values <= -log_floor).sum())):
            raise RequestError(
                f"{self.name}: {below} of {len(values)} values are at or below {-log_floor:g} (the lowest is "
                f"{values.min():g}) and have no logarithm with {log_floor:g} added; leave out the log floor for values "
                "that are logarithms already, such as dBm, or give one above their size"
            )
        return entries


@dataclass(frozen=True, eq=False)
class Completion:
    """A completed field, ready to be written.

    Attributes:
        gridded: what was completed.
        values: array of the shape of :attr:`GriddedVariable.values`; NaN where the field does not exist.
        deviation: standard deviation of each entry, or None where the method has none.
        attributes: what is to be noted beside the values, such as the method and its estimated error.
    """

    gridded: GriddedVariable
    values: FloatArray
    deviation: FloatArray | None = None
    attributes: Mapping[str, str | float] = field(default_factory=dict)

    @property
    def notes(self) -> dict[str, str | float]:
        """The attributes by the names that they have in a file."""
        return {f"fieldbench_{key}": value for key, value in self.attributes.items()}

    def filled_in_file(self) -> Mask:
        """True where there was nothing, and now is, in the shape of the whole variable."""
        whole = np.zeros(self.gridded.variable.values.shape, dtype=bool)
        whole[self.gridded.region] = np.isnan(self.gridded.values) & ~np.isnan(self.values)
        return whole

    def into(self, whole: np.ndarray) -> None:
        """Put the values into the whole array of the file, where nothing is to stay as it was."""
        region = self.gridded.region
        stays = self.gridded.unchanged & np.isnan(self.values)
        whole[region] = np.where(stays, whole[region], self.values)


def assemble(
    variable: Variable, mask: np.ndarray | None, valid: np.ndarray | None, selector: Selector
) -> GriddedVariable:
    """A variable with its masks, dimensions of length 1 and fixed positions taken out.

    Args:
        variable: as read.
        mask: array that broadcasts to the variable, non-zero where observed, or None.
        valid: likewise, non-zero where the field exists, or None.
        selector: the request.

    Raises:
        RequestError: if values are infinite, a position does not exist, or no dimension is left.
    """
    shape, remarks = variable.values.shape, list(variable.remarks)
    region, axes, about = _region(variable, selector)
    read = variable.values[region]
    code = coded(read, selector.missing)
    values = np.where(code, np.nan, read)
    if count := int(np.isinf(values).sum()):
        raise RequestError(f"{variable.name} has {count} infinite entries; missing ones must be NaN or a fill value")
    if mask is not None:
        values = np.where(np.broadcast_to(_truth(mask), shape)[region], values, np.nan)
    valid_entries = np.ones(values.shape, dtype=bool) if variable.valid is None else variable.valid[region]
    if valid is not None:
        valid_entries = valid_entries & np.broadcast_to(_truth(valid), shape)[region]
    outside = ~valid_entries & ~np.isnan(values)
    if outside.any():
        remarks.append(
            f"{int(outside.sum())} measured values of {variable.name} lie where {selector.valid} says that there is no "
            "field; they are not used, and stay as they are"
        )
    about += [remark for index, axis in enumerate(axes) if (remark := _ends_shared(values, index, axis))]
    used = values[~np.isnan(values) & ~outside]
    remarks += [*about, *suspicions(variable.name, used)]
    classes = classes_of(used, variable.whole, variable.flags)
    return GriddedVariable(values, valid_entries, axes, variable, region, code | outside, tuple(remarks), classes)


def _ends_shared(values: FloatArray, dimension: int, axis: Axis) -> str:
    """Have a value measured at one end count at the other, where both are one position; a remark, or ""."""
    if axis.period is None or len(axis) < 3 or not np.isclose(np.ptp(axis.coordinates), axis.period):
        return ""
    ends = np.moveaxis(values, dimension, 0)  # a view
    lacking = np.isnan(ends[[0, -1]])
    ends[0], ends[-1] = np.where(lacking[0], ends[-1], ends[0]), np.where(lacking[1], ends[0], ends[-1])
    shared = int((lacking[0] != lacking[1]).sum())
    first, last = axis.coordinates[[0, -1]]
    return f"{axis.name} {first:g} and {last:g} are one position: {shared} values measured at one end count at both"


def choose(names: Mapping[str, str], name: str | None, file: str) -> str:
    """The variable that is meant: the one named, or the only one.

    Args:
        names: what each variable is (``"30 x 40"``), by name.
        name: a name, or None.
        file: what to call the file.

    Raises:
        RequestError: if there is none of that name, none at all, or several to choose from.
    """
    if name is not None:
        if name not in names:
            raise RequestError(f"{file} has no variable {name!r}{nearest(name, names)}")
        return name
    if not names:
        raise RequestError(f"{file} has no numeric array of one dimension or more")
    if len(names) > 1:
        listed = ", ".join(f"{name} ({what})" for name, what in names.items())
        raise RequestError(f"{file} has several variables: {listed}; say which by variable=NAME")
    return next(iter(names))


def wanted(shapes: Mapping[str, Sequence[object]], selector: Selector, file: str, between: str = " x ") -> str:
    """The variable that a selector names, or the only one of most dimensions, coordinates and masks left out.

    Args:
        shapes: what there is to say of each dimension of a variable, by name.
        selector: which variable is wanted.
        file: what to call the file.
        between: stands between dimensions in messages.
    """
    if selector.variable is None:
        aside = {*selector.coordinates, selector.mask, selector.valid}
        shapes = {name: shape for name, shape in shapes.items() if not aside & {name, name.rpartition("/")[2]}}
        most = max(map(len, shapes.values()), default=0)
        shapes = {name: shape for name, shape in shapes.items() if len(shape) == most > 0}
    return choose({name: between.join(map(str, shape)) for name, shape in shapes.items()}, selector.variable, file)


def matched(mask: np.ndarray, shape: Sequence[int], name: str) -> np.ndarray:
    """A mask made to broadcast to ``shape``: it has that shape, or 1 in entries, or that of first or last dimensions.

    Args:
        mask: zero where the field is unobserved.
        shape: of the variable.
        name: of the mask, for messages.

    Raises:
        RequestError: if it holds no numbers, or fits nowhere, or in two ways.
    """
    shape = tuple(shape)
    if mask.dtype.kind not in "fiub":
        raise RequestError(f"{name} holds {mask.dtype}; a mask holds numbers, zero where it hides the field")
    if mask.ndim == len(shape) and all(size in (1, whole) for size, whole in zip(mask.shape, shape, strict=True)):
        return mask
    lacking = len(shape) - mask.ndim
    first = lacking > 0 and mask.shape == shape[: mask.ndim]
    last = lacking > 0 and mask.shape == shape[lacking:]
    if first and last:
        raise RequestError(
            f"{name} of shape {mask.shape} fits the first and the last dimensions of {shape}; give one of shape {shape}"
        )
    if not (first or last):
        raise RequestError(f"{name} has shape {mask.shape}, which does not fit the variable's {shape}")
    return mask.reshape(mask.shape + (1,) * lacking) if first else mask


def _truth(mask: np.ndarray) -> Mask:
    """Where a mask is true: non-zero and not missing."""
    numbers = np.asarray(mask, dtype=float)
    return np.asarray(np.isfinite(numbers) & (numbers != 0))


def _region(variable: Variable, selector: Selector) -> tuple[Region, tuple[Axis, ...], list[str]]:
    """Where the field lies in the variable, its axes in order, and what was done to them."""
    fixed = _fixed(variable, selector.at)
    kept = [index for index, position in enumerate(fixed) if position is None]
    if not kept:
        raise RequestError(f"{variable.name} is a single number; a field needs at least one dimension")
    closed = periods(selector.cyclic, [variable.axes[index] for index in kept])
    made = [arranged(variable.axes[index], closed) for index in kept]
    region: list[int | slice | NDArray[np.intp]] = [slice(None) if item is None else item for item in fixed]
    if any(order is not None for _, order, _ in made):
        mesh = np.ix_(*(np.arange(len(axis)) if order is None else order for axis, order, _ in made))
        for index, positions in zip(kept, mesh, strict=True):
            region[index] = positions
    return tuple(region), tuple(axis for axis, _, _ in made), [remark for _, _, remark in made if remark]


def _fixed(variable: Variable, texts: Sequence[str]) -> list[int | None]:
    """The position along each dimension that is not completed, None for one that is."""
    region: list[int | None] = [0 if len(axis) == 1 else None for axis in variable.axes]
    names = [axis.name for axis in variable.axes]
    fixed = set[str]()
    for text in texts:
        name, equals, position = (piece.strip() for piece in text.partition("="))
        if not equals or not position.lstrip("-").isdigit():
            raise RequestError(f"{text!r} fixes nothing; write DIMENSION=INDEX, such as time=0")
        if name not in names:
            raise RequestError(f"{variable.name} has no dimension {name!r}{nearest(name, names)}")
        dimension, index = names.index(name), int(position)
        size = variable.values.shape[dimension]
        if not -size <= index < size:
            raise RequestError(f"{name}={index} is outside; {name} has {size} positions, 0 to {size - 1}")
        if name in fixed:
            raise RequestError(f"{name} is fixed twice; each dimension has one position")
        fixed.add(name)
        region[dimension] = index % size
    return region


def unused(name: str, taken: Container[str]) -> str:
    """The name, or with a number behind it where it is taken.

    >>> unused("t_std", {"t_std", "t_std_2"})
    't_std_3'
    """
    numbered = (f"{name}_{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)
