"""Tables of scattered points (CSV, Parquet), gridded by named columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldbench.errors import RequestError, nearest
from fieldbench.field import Axis, FloatArray
from fieldbench.files.content import Completion, Variable, Wanted
from fieldbench.files.format import Format, need
from fieldbench.files.numpy_files import as_notes
from fieldbench.names import unused

if TYPE_CHECKING:
    import pandas as pd

#: Rows that already lie on a grid may leave this many times as many points of it empty; beyond, they are scattered.
SPARSEST = 200


class Table:
    """One row a measurement: coordinates in some columns, the value in another.

    Rows that share a grid point are averaged. Without a wanted grid the distinct coordinates make one.
    What is written has one row for each grid point where the field exists, and none of the other columns.
    """

    def variable(self, file: Path, wanted: Wanted) -> Variable:
        frame = _load(file)
        coordinates, name = _columns(frame, wanted, file)
        if wanted.mask in frame.columns:
            frame = frame.assign(**{name: frame[name].where(_flags(frame, str(wanted.mask), file) != 0)})
        axes = _axes(frame, coordinates, wanted.grid, file)
        return Variable(name, _gridded(frame, name, coordinates, axes), axes)

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        frame = _load(file)
        if name not in frame.columns:
            raise RequestError(f"{file.name} has no column {name!r}{nearest(name, map(str, frame.columns))}")
        coordinates = [axis.name for axis in variable.axes]
        marks = _gridded(frame.assign(**{name: _flags(frame, name, file)}), name, coordinates, variable.axes)
        return np.where(np.isnan(marks), 1.0, marks)  # where there is no row, nothing is marked

    def write(self, source: Path, target: Path, completions: Sequence[Completion]) -> None:
        import pandas as pd

        content = completions[0].content
        axes = content.variable.axes
        grids = np.meshgrid(*(axis.coordinates for axis in axes), indexing="ij")
        columns: dict[str, Any] = {
            axis.name: grid[content.place].ravel() for axis, grid in zip(axes, grids, strict=True)
        }
        for completion in completions:
            content = completion.content
            columns[content.name] = completion.values.ravel()
            columns[unused("observed", columns)] = (~np.isnan(content.values)).ravel()
            if completion.deviation is not None:
                columns[unused(f"{content.name}_std", columns)] = completion.deviation.ravel()
        frame = pd.DataFrame(columns)
        frame = frame[frame[[item.content.name for item in completions]].notna().any(axis=1)]
        if target.suffix.lower() == ".csv":
            frame.to_csv(target, index=False)
        else:
            _to_parquet(frame, target, as_notes(completions))


def format_for(file: Path) -> Format:
    """The format, after a look at whether its library is there."""
    if file.suffix.lower() != ".csv":
        need("pyarrow", file)
    return Table()


def _load(file: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(file, skipinitialspace=True) if file.suffix.lower() == ".csv" else pd.read_parquet(file)


def _columns(frame: pd.DataFrame, wanted: Wanted, file: Path) -> tuple[list[str], str]:
    numeric = [str(name) for name, kind in frame.dtypes.items() if kind.kind in "fiu"]
    if not wanted.coordinates:
        raise RequestError(
            f"{file.name} is a table; name the columns that say where a row is: coordinates=(lon,lat,depth); "
            f"its columns are {', '.join(map(str, frame.columns))}"
        )
    asked = (*wanted.coordinates, *([wanted.variable] if wanted.variable else []))
    for name in asked:
        if asked.count(name) > 1:
            raise RequestError(f"{file.name}: the column {name!r} is named twice; each coordinate needs its own")
        if name not in numeric:
            what = "holds no numbers" if name in frame.columns else f"is not there{nearest(name, numeric)}"
            raise RequestError(f"{file.name}: the column {name!r} {what}")
    aside = {*wanted.coordinates, wanted.mask, wanted.valid}
    values = [name for name in numeric if name not in aside]
    if wanted.variable is None and len(values) != 1:
        raise RequestError(f"{file.name}: say which column is the field: variable={'|'.join(values) or 'NAME'}")
    return list(wanted.coordinates), wanted.variable or values[0]


def _flags(frame: pd.DataFrame, name: str, file: Path) -> np.ndarray:
    """A column's numbers, with 0 for a flag that is missing: what is not known to be good is not used."""
    try:
        flags: np.ndarray = frame[name].to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise RequestError(f"{file.name}: the column {name!r} holds no numbers, as a mask should") from None
    return np.where(np.isfinite(flags), flags, 0.0)


def _axes(frame: pd.DataFrame, coordinates: list[str], grid: tuple[int, ...], file: Path) -> tuple[Axis, ...]:
    if frame.empty:
        raise RequestError(f"{file.name} has no rows")
    for name in coordinates:
        if not np.isfinite(frame[name].to_numpy(dtype=float)).all():
            raise RequestError(f"{file.name}: the column {name!r} has missing or infinite coordinates")
    if grid:
        if len(grid) != len(coordinates):
            raise RequestError(f"grid has {len(grid)} numbers, coordinates {len(coordinates)} columns")
        edges = [(float(frame[name].min()), float(frame[name].max())) for name in coordinates]
        return tuple(
            Axis(name, np.linspace(low, high, size) if size > 1 else np.array([(low + high) / 2]))
            for name, size, (low, high) in zip(coordinates, grid, edges, strict=True)
        )
    distinct = [np.unique(frame[name].to_numpy(dtype=float)) for name in coordinates]
    points = float(np.prod([float(len(values)) for values in distinct]))
    if points > SPARSEST * len(frame):
        shape = " x ".join(str(len(values)) for values in distinct)
        raise RequestError(
            f"{file.name}: its {len(frame)} rows lie on no grid (distinct coordinates: {shape}); "
            f"say how fine one is wanted, such as grid={'x'.join(['20'] * len(coordinates))}"
        )
    return tuple(Axis(name, values) for name, values in zip(coordinates, distinct, strict=True))


def _gridded(frame: pd.DataFrame, name: str, coordinates: list[str], axes: tuple[Axis, ...]) -> FloatArray:
    """Mean of the rows nearest to each grid point, NaN where there are none; rows without a value do not count."""
    values = frame[name].to_numpy(dtype=float)
    present = ~np.isnan(values)
    indices = tuple(
        _nearest(axis.coordinates, frame[column].to_numpy(dtype=float)[present])
        for column, axis in zip(coordinates, axes, strict=True)
    )
    shape = tuple(len(axis) for axis in axes)
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, indices, values[present])
    np.add.at(count, indices, 1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(count > 0, total / count, np.nan))


def _nearest(points: FloatArray, positions: FloatArray) -> np.ndarray:
    """Index of the nearest of ascending ``points`` for each position."""
    if len(points) == 1:
        return np.zeros(len(positions), dtype=int)
    middles = (points[1:] + points[:-1]) / 2
    return np.searchsorted(middles, positions)


def _to_parquet(frame: pd.DataFrame, target: Path, notes: str) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"fieldbench": notes.encode()})
    pyarrow.parquet.write_table(table, target)
