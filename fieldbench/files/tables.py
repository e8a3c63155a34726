"""Tables of points (CSV, Parquet): on a grid, brought to one, or scattered as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldbench.errors import RequestError, nearest
from fieldbench.field import Axis, FloatArray
from fieldbench.files.codes import coded
from fieldbench.files.format import TEXTS, Format
from fieldbench.files.gridded import Completion, GriddedVariable, ScatteredRows, Selector, Variable, unused
from fieldbench.files.numpy_files import as_notes
from fieldbench.files.rows import from_numbers, load, numbers

if TYPE_CHECKING:
    import pandas as pd

#: Rows that lie on a grid may leave this many times as many points of it empty; beyond, they are scattered.
SPARSEST = 200
#: Along each axis of a grid this many rows share a coordinate on average, or this share of even steps is taken.
_ROWS_A_COORDINATE, _STEPS_TAKEN = 2, 0.5
#: Scattered points lie on the grid of all their coordinates; positions are rounded where it would be larger.
_LARGEST = 4_000_000
#: Points of a grid that is asked for.
_MOST = 100_000_000


class TextTable(Format):
    """One row a measurement: coordinates (numbers or dates) in some columns, the value in another.

    Rows on a grid, or with a wanted one, are completed everywhere on it; those at one grid point are averaged. What is
    written has one row for each grid point where the field exists, and none of the other columns. Scattered rows are
    completed at the rows without a value, or at the points that are asked for, and these are written.
    """

    def variable(self, selector: Selector) -> Variable:
        points = None if selector.points is None else load(selector.points)
        return PointTable(load(self.file), self.file.name).variable(selector, points)

    def mask(self, name: str, variable: Variable) -> np.ndarray:
        return PointTable(load(self.file), self.file.name).mask(name, variable)

    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        frame, _ = completed_rows(completions)
        separator = TEXTS.get(target.suffix.lower())
        if separator:
            frame.to_csv(target, index=False, sep=separator)
            return
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        notes = {b"fieldbench": as_notes(completions).encode()}
        pyarrow.parquet.write_table(table.replace_schema_metadata((table.schema.metadata or {}) | notes), target)


@dataclass(frozen=True, eq=False)
class PointTable:
    """A table of points, and what messages call it."""

    frame: pd.DataFrame
    label: str

    def variable(self, selector: Selector, points: pd.DataFrame | None = None) -> Variable:
        """The column that the selector names, as a gridded variable; wanted at points, where there is a table of them.

        Raises:
            RequestError: if columns are missing or hold no numbers, or nothing says where scattered rows are completed.
        """
        frame, name, coordinates = self.frame, self._field(selector), selector.coordinates
        values = self._numbers(name)[0]
        values = np.where(coded(values, selector.missing), np.nan, values)
        if selector.mask in frame.columns:
            values = np.where(self._flags(str(selector.mask)) != 0, values, np.nan)
        positions, units = self._positions(coordinates, points)
        measured = [vector[: len(frame)] for vector in positions]
        remarks, rows, valid = list[str](), None, None
        if selector.grid or selector.step:
            axes = _wanted_grid(coordinates, measured, units, selector)
        elif points is None and _on_a_grid(measured):
            axes = _crossing(coordinates, measured, units)
        else:
            if points is None and not np.isnan(values).any():
                raise RequestError(_nowhere(self.label, measured))
            axes = _rounded(_crossing(coordinates, positions, units), remarks)
            indices = _indices(axes, positions)
            valid = np.zeros([len(axis) for axis in axes], dtype=bool)
            valid[indices] = True
            rows = ScatteredRows(frame, indices)
            if points is not None:
                rows = ScatteredRows(points, tuple(index[len(frame) :] for index in indices), measured=False)
        gridded = _gridded(values, axes, measured)
        whole = frame[name].dtype.kind in "iub"
        return Variable(name, gridded, axes, remarks=tuple(remarks), whole=whole, valid=valid, rows=rows)

    def mask(self, name: str, variable: Variable) -> np.ndarray:
        """A column of flags on the grid of a variable of this table.

        Raises:
            RequestError: if there is no such column, or it holds no numbers.
        """
        flags = self._flags(name)
        marks = _gridded(flags, variable.axes, self._positions([axis.name for axis in variable.axes])[0])
        return np.where(np.isnan(marks), 1.0, marks)  # where there is no row, nothing is marked

    def must_have(self, name: str) -> None:
        """Check that there is one column of a name.

        Raises:
            RequestError: if there is none, or several.
        """
        names = [str(item) for item in self.frame.columns]
        if not isinstance(name, str) or name not in names:
            raise RequestError(f"{self.label}: the column {name!r:.60} is not there{nearest(str(name), names)}")
        if names.count(name) > 1:
            raise RequestError(f"{self.label} has {names.count(name)} columns {name!r}; each name may stand once")

    def _numbers(self, name: str) -> tuple[FloatArray, str]:
        return numbers(self.frame[name], self.label)

    def _field(self, selector: Selector) -> str:
        """The name of the column of the field, after a look at those that are named."""
        if not selector.coordinates:
            raise RequestError(
                f"{self.label} is a table; name the columns that say where a row is, as lon,lat,depth do, "
                f"by coordinates; its columns are {', '.join(map(str, self.frame.columns))}"
            )
        asked = (*selector.coordinates, *([selector.variable] if selector.variable else []))
        for name in asked:
            if asked.count(name) > 1:
                raise RequestError(f"{self.label}: the column {name!r} is named twice; each coordinate needs its own")
            self.must_have(name)
        for name in selector.coordinates:
            self._numbers(name)
        if selector.variable is not None:
            if self._numbers(selector.variable)[1]:
                raise RequestError(f"{self.label}: the column {selector.variable!r} holds dates, no numbers")
            return selector.variable
        aside = {*selector.coordinates, selector.mask, selector.valid}
        numeric = [
            str(name) for name, kind in self.frame.dtypes.items() if kind.kind in "fiu" and str(name) not in aside
        ]
        if len(numeric) != 1:
            raise RequestError(f"{self.label}: say which column is the field: variable={'|'.join(numeric) or 'NAME'}")
        return numeric[0]

    def _positions(
        self, coordinates: Sequence[str], points: pd.DataFrame | None = None
    ) -> tuple[list[FloatArray], list[str]]:
        """Coordinates of all rows, and of the points behind them, with the units of dates."""
        import pandas as pd

        if self.frame.empty:
            raise RequestError(f"{self.label} has no rows")
        tables = [self] if points is None else [self, PointTable(points, "the points")]
        absent = [name for name in coordinates if name not in tables[-1].frame.columns]
        if absent:
            have = ", ".join(map(str, tables[-1].frame.columns))
            raise RequestError(f"the points have no column {absent[0]!r}, which {self.label} has; they have {have}")
        vectors, units = [], []
        for name in coordinates:
            for table in tables:
                if not np.isfinite(table._numbers(name)[0]).all():
                    raise RequestError(f"{table.label}: the column {name!r} has missing or infinite coordinates")
            whole = pd.concat([table.frame[[name]] for table in tables], ignore_index=True)
            vector, unit = numbers(whole[name], self.label)
            vectors.append(vector)
            units.append(unit)
        return vectors, units

    def _flags(self, name: str) -> np.ndarray:
        """A column's numbers, with 0 for a flag that is missing: what is not known to be good is not used."""
        self.must_have(name)
        try:
            flags: np.ndarray = self.frame[name].to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError):
            raise RequestError(f"{self.label}: the column {name!r} holds no numbers, as a mask should") from None
        return np.where(np.isfinite(flags), flags, 0.0)


@dataclass(frozen=True)
class Columns:
    """Of a table to be written, the names of the columns of a completed field."""

    values: str
    observed: str
    deviation: str | None


def completed_rows(completions: Sequence[Completion]) -> tuple[pd.DataFrame, list[Columns]]:
    """The table to be written: of completions of columns of one table, which lie on one grid or in the same rows.

    In the rows that were read a measured value stays, where the mean at its grid point differs. Other points may have
    a column of the field's name, which stays as it is.
    """
    rows = completions[0].gridded.variable.rows
    frame: pd.DataFrame = _grid_points(completions[0].gridded) if rows is None else rows.frame.copy()
    fields, made = {completion.gridded.name for completion in completions}, []
    for completion in completions:
        gridded = completion.gridded
        name, where = gridded.name, gridded.region if rows is None else rows.indices
        seen = gridded.spread(gridded.values)
        values = seen.copy()
        completion.into(values)
        seen, values = seen[where].ravel(), values[where].ravel()
        observed = ~np.isnan(seen)
        if rows is not None and rows.measured:
            own = numbers(frame[name], "")[0]
            observed &= ~np.isnan(own)
            values = np.where(observed & (values == seen), own, values)
        elif name in frame:
            name = unused(f"{name}_completed", frame.columns)
        frame[name] = values
        frame[(marks := unused("observed", fields.union(frame.columns)))] = observed
        deviation = None
        if completion.deviation is not None:
            deviation = unused(f"{gridded.name}_std", fields.union(frame.columns))
            frame[deviation] = gridded.spread(completion.deviation)[where].ravel()
        made.append(Columns(name, marks, deviation))
    return frame if rows is not None else frame.dropna(how="all", subset=[column.values for column in made]), made


def _grid_points(gridded: GriddedVariable) -> pd.DataFrame:
    """A row for each position of the field, in C order."""
    import pandas as pd

    axes = gridded.variable.axes
    grids = np.meshgrid(*(axis.coordinates for axis in axes), indexing="ij")
    points = zip(axes, (grid[gridded.region].ravel() for grid in grids), strict=True)
    return pd.DataFrame({axis.name: from_numbers(vector, axis.unit) for axis, vector in points})


def _wanted_grid(
    coordinates: Sequence[str], positions: Sequence[FloatArray], units: Sequence[str], selector: Selector
) -> tuple[Axis, ...]:
    """Evenly spaced axes from the lowest to the highest coordinate: with this number of points, or this step."""
    given = selector.grid or (selector.step * len(coordinates) if len(selector.step) == 1 else selector.step)
    if len(given) != len(coordinates):
        raise RequestError(f"grid has {len(given)} numbers, coordinates {len(coordinates)} columns")
    axes = []
    spans = [float(np.ptp(vector)) for vector in positions]
    sizes = [span / number + 1 if selector.step else number for span, number in zip(spans, given, strict=True)]
    if np.prod(sizes) > _MOST:
        many = f"{float(np.prod(sizes)):.2g}"
        raise RequestError(f"grid: {many} points are too many; take fewer or a larger step, for at most {_MOST:,}")
    for name, vector, unit, number in zip(coordinates, positions, units, given, strict=True):
        low, high = float(vector.min()), float(vector.max())
        if selector.step:
            # From a multiple of the step on, so that a step of 0.25 makes coordinates such as 12.25 and 12.5.
            low = np.floor(low / number + 1e-9) * number
            points = low + number * np.arange(int(np.ceil((high - low) / number - 1e-9)) + 1)
        else:
            points = np.linspace(low, high, int(number)) if number > 1 else np.array([(low + high) / 2])
        axes.append(Axis(name, points, unit))
    return tuple(axes)


def _on_a_grid(positions: Sequence[FloatArray]) -> bool:
    """Whether rows lie on a grid, so that the points without a row are gaps, and no accident of where rows are."""
    distinct = [np.unique(vector) for vector in positions]
    rows = len(positions[0])
    shared = [rows >= _ROWS_A_COORDINATE * len(values) or _taken(values) >= _STEPS_TAKEN for values in distinct]
    size = float(np.prod([float(len(values)) for values in distinct]))
    return len(positions) == 1 or (all(shared) and size <= SPARSEST * rows)


def _taken(values: FloatArray) -> float:
    """The share of even steps from the lowest to the highest value at which there is one; 0 if they are uneven."""
    if len(values) < 2:
        return 1.0
    steps = (values - values[0]) / np.diff(values).min()
    return len(values) / (steps[-1] + 1) if np.abs(steps - np.round(steps)).max() < 1e-3 else 0.0


def _nowhere(file: str, positions: Sequence[FloatArray]) -> str:
    shape = " x ".join(str(len(np.unique(vector))) for vector in positions)
    return (
        f"{file}: its {len(positions[0])} rows lie on no grid (distinct coordinates: {shape}), and each has a value; "
        "say where the field is wanted: at the points of a table (--at POINTS.csv), on a grid of your size "
        f"(--grid {'x'.join(['20'] * len(positions))}), or on one with your step (--grid step=0.5)"
    )


def _crossing(coordinates: Sequence[str], positions: Sequence[FloatArray], units: Sequence[str]) -> tuple[Axis, ...]:
    """The grid of all coordinates that occur."""
    return tuple(Axis(*made) for made in zip(coordinates, map(np.unique, positions), units, strict=True))


def _rounded(axes: tuple[Axis, ...], remarks: list[str]) -> tuple[Axis, ...]:
    """Axes of fewer points where their grid would be too large; the longest are halved first."""
    sizes = [len(axis) for axis in axes]
    while np.prod(sizes, dtype=float) > _LARGEST:
        longest = int(np.argmax(sizes))
        sizes[longest] = (sizes[longest] + 1) // 2
    made = []
    for axis, size in zip(axes, sizes, strict=True):
        if size < len(axis):
            axis = Axis(axis.name, np.linspace(axis.coordinates[0], axis.coordinates[-1], size), axis.unit)
            remarks.append(f"positions along {axis.name} are rounded to {axis.spacing:.3g}")
        made.append(axis)
    return tuple(made)


def _gridded(values: FloatArray, axes: tuple[Axis, ...], positions: Sequence[FloatArray]) -> FloatArray:
    """Mean of the rows nearest to each grid point, NaN where there are none; rows without a value do not count."""
    present = ~np.isnan(values)
    indices = _indices(axes, [vector[present] for vector in positions])
    shape = tuple(len(axis) for axis in axes)
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, indices, values[present])
    np.add.at(count, indices, 1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(count > 0, total / count, np.nan))


def _indices(axes: tuple[Axis, ...], positions: Sequence[FloatArray]) -> tuple[NDArray[np.intp], ...]:
    """Indices of the grid points, ascending along each axis, that are nearest to positions."""
    middles = ((axis.coordinates[1:] + axis.coordinates[:-1]) / 2 for axis in axes)
    return tuple(np.searchsorted(edges, vector) for edges, vector in zip(middles, positions, strict=True))
