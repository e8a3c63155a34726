"""Filling the gaps of data in a notebook: an array, a masked array, a DataArray, a long table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldbench.completion import AUTO
from fieldbench.completion.filling import Filled, fill
from fieldbench.completion.limits import Limits
from fieldbench.errors import RequestError
from fieldbench.field import Axis, grid_axes
from fieldbench.files import Completion, Selector, cf
from fieldbench.files.gridded import Variable, assemble, matched
from fieldbench.files.numpy_files import completed, real

if TYPE_CHECKING:
    import pandas as pd

_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True, eq=False)
class CompletedData:
    """Data with its gaps filled, and what is known of it.

    >>> made = complete(np.array([[20.5, np.nan], [21.0, 20.0]]), "nearest")
    >>> made.method, made.filled.tolist()
    ('nearest', [[False, True], [False, False]])

    Attributes:
        values: of the kind that was given: array, masked array, DataArray or table.
        deviation: standard deviation of each entry, of the same kind (of a table a column), or None if the method
            has none.
        filled: True where a gap was filled, of the same kind (of a table a column).
        comparison: the candidates, best first: method, its errors over the best one's (``ratio``), expected error,
            errors of the folds, seconds, note.
        by_distance: the chosen method's errors by distance to the nearest observation, in grid steps, and how many
            gaps are so far from one; nothing for scattered rows.
        method: the method that made the values.
        expected_error: the error to expect at gaps, in the metric; NaN if it was not estimated, or cannot be checked.
        interval: the lowest and the highest error at gaps, with a probability of 90 %; NaN as the expected error is.
        metric: name of the metric.
        remarks: what should be known of the data and of what was done to it.
    """

    values: Any
    deviation: Any
    filled: Any
    comparison: pd.DataFrame
    by_distance: pd.DataFrame
    method: str
    expected_error: float
    interval: tuple[float, float]
    metric: str
    remarks: tuple[str, ...]

    def __repr__(self) -> str:
        error = "" if np.isnan(self.expected_error) else f", {self.metric} {self.expected_error:.3g}"
        return "\n".join([f"Completed with {self.method}{error}", *self.remarks])


def complete(
    data: Any,
    method: str = AUTO,
    *,
    variable: str | None = None,
    coordinates: str | Sequence[str] = (),
    points: pd.DataFrame | None = None,
    axes: Sequence[Axis] = (),
    mask: Any = None,
    valid: Any = None,
    missing: float | Sequence[float] = (),
    cyclic: str | Sequence[str] = (),
    log_floor: float | None = None,
    metadata: Mapping[str, float] | None = None,
    max_gap: str | Sequence[str] = (),
    within: tuple[float, float] | None = None,
    positive: bool = False,
    **how: Any,
) -> CompletedData:
    """Fill the gaps of an array with NaN, a masked array, a DataArray (of dask too), or a long table.

    >>> sst = np.array([[20.5, np.nan], [21.0, 21.0], [np.nan, np.nan]])
    >>> sea = np.array([[True, True], [True, True], [False, False]])
    >>> complete(sst, "nearest", valid=sea).values.tolist()
    [[20.5, 20.5], [21.0, 21.0], [nan, nan]]

    Args:
        data: what has gaps: entries that are NaN or masked; of a table, rows without a value, or the grid points
            between its rows.
        method: a method's spec, or ``auto``: the one that does best at entries withheld on purpose.
        variable: of a table, the column of the field.
        coordinates: of a table, the columns (numbers or dates) that say where a row is; of one, its name will do, as
            of ``missing``, ``cyclic`` and ``max_gap``.
        points: of a table, another one with the points where the field is wanted.
        axes: of an array, one :class:`Axis` for each dimension; a DataArray has its own.
        mask: True where the field was observed: an array that fits, or of a table the name of a column.
        valid: True where the field exists; the rest stays missing. As ``mask``.
        missing: numbers that stand for a missing value.
        cyclic: axes that are closed, such as ``hour=24``; longitudes around the earth are found to be.
        log_floor: for positive values that vary over decades, what is added before logarithms are taken.
        metadata: numbers that some methods need, by name.
        max_gap: fill only what lies so near to an observation, such as ``["25km", "2d"]``
            (:class:`fieldbench.completion.limits.Limits`).
        within: lowest and highest possible value.
        positive: whether only values above zero are possible.
        how: ``candidates``, ``budget``, ``folds``, ``share``, ``seed``, ``device``, ``sources``, ``watch`` and
            ``busy`` of :func:`fieldbench.completion.complete`, ``by_area``, ``mix`` and ``denoise`` of
            :func:`fieldbench.completion.filling.fill`.

    Raises:
        RequestError: if the data is of another kind, has no gap, or the request is wrong.
    """
    options = {
        "log_floor": log_floor,
        "metadata": metadata,
        "limits": Limits(tuple(map(str, _each(max_gap))), within, positive),
        **how,
    }
    asked = Selector(variable, _each(coordinates), missing=_each(missing), cyclic=_each(cyclic))
    kind = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"
    if kind == "pandas.DataFrame":
        return _of_table(data, points, replace(asked, mask=mask, valid=valid), method, options)
    if variable is not None or coordinates or points is not None:
        raise RequestError("variable, coordinates and points are for tables; leave them out")
    if kind == "xarray.DataArray":
        if axes:
            raise RequestError("a DataArray has its own coordinates; leave out axes")
        read = _of_data_array(data)
        mask, valid = (_like(data, part) for part in (mask, valid))
    elif isinstance(data, np.ndarray):
        unmasked = np.ma.filled(data.astype(float), np.nan) if isinstance(data, np.ma.MaskedArray) else data
        values, whole = np.asarray(real(unmasked, "data"), dtype=float), data.dtype.kind in "iub"
        read = Variable("data", values, tuple(axes) or grid_axes(data.shape), whole=whole)
    else:
        raise RequestError(f"{kind} has no gaps to fill; give a numpy array, a masked array, a DataArray or a table")
    if [len(axis) for axis in read.axes] != list(data.shape):
        raise RequestError(f"the axes have {[len(axis) for axis in read.axes]} positions, the data {list(data.shape)}")
    observed, valid = (
        None if part is None else matched(np.asarray(part), data.shape, name)
        for part, name in ((mask, "mask"), (valid, "valid"))
    )
    filled = fill(assemble(read, observed, valid, replace(asked, valid="valid")), method, **options)
    return _result(filled, *_like_data(data, filled.completion))


def _each(given: Any) -> tuple[Any, ...]:
    """Several texts or numbers, or one."""
    return (given,) if isinstance(given, str) or np.ndim(given) == 0 else tuple(given)


def _of_table(
    frame: pd.DataFrame, points: pd.DataFrame | None, selector: Selector, method: str, options: dict[str, Any]
) -> CompletedData:
    from fieldbench.files.tables import PointTable, completed_rows

    table = PointTable(frame, "the table")
    for name in (selector.mask, selector.valid):
        if name is not None:
            table.must_have(name)
    read = table.variable(selector, points)
    # The column of a mask is part of what was read.
    valid = None if selector.valid is None else table.mask(selector.valid, read)
    filled = fill(assemble(read, None, valid, selector), method, **options)
    made, (names,) = completed_rows([filled.completion])
    deviation = None if names.deviation is None else made[names.deviation]
    return _result(filled, made, deviation, ~made[names.observed] & made[names.values].notna())


def _of_data_array(data: Any) -> Variable:
    from fieldbench.files.netcdf import axes_of

    remarks: list[str] = []
    around = {str(name): _numbered(item.variable) for name, item in data.coords.items()}
    values = np.asarray(real(np.asarray(data.values), data.name or "data"), dtype=float)
    unit, quantity = (str(data.attrs.get(key, "")) for key in ("units", "long_name"))
    axes = axes_of(around, data, remarks)
    name, flags = str(data.name or "data"), cf.is_flag(data.attrs)
    # That of a file that was unpacked is in packed numbers, and goes with them; of an array nothing is unpacked here.
    limits = cf.valid_range({} if cf.is_scaled(data.encoding) else cf.range_of(data.attrs), data.dtype)
    return Variable(name, values, axes, unit, quantity, tuple(remarks), data.dtype.kind in "iub", flags, limits=limits)


def _numbered(coordinate: Any) -> Any:
    """A coordinate with days in place of dates (of numpy or cftime) and of durations."""
    values = coordinate.values
    kinds = {type(item) for item in values.flat} if values.dtype.kind == "O" else set()
    if values.dtype.kind == "M":
        first = np.fmin.reduce(values, axis=None).astype("M8[D]")  # of those that are dates
        days, unit = values - first, f"days since {first}"
    elif values.dtype.kind == "m":
        days, unit = values, "days"
    elif len(kinds) == 1 and hasattr(kinds.pop(), "toordinal"):
        first = values.min()
        days = np.array([item - first for item in values.flat], dtype="m8[us]").reshape(values.shape)
        unit = f"days since {first}"
    else:
        return coordinate
    return type(coordinate.to_base_variable())(coordinate.dims, days / _DAY, {"units": unit})


def _like(data: Any, mask: Any) -> Any:
    """A mask for a DataArray: if it is one itself, with the data's dimensions in their order."""
    if mask is None or not hasattr(mask, "dims"):
        return mask
    if foreign := [name for name in mask.dims if name not in data.dims]:
        raise RequestError(f"a mask has the dimension {foreign[0]!r}, which the data has not")
    return mask.broadcast_like(data).transpose(*data.dims).values


def _like_data(data: Any, completion: Completion) -> tuple[Any, Any, Any]:
    """Values, deviation and what was filled, of the kind that was given."""
    floats_below = isinstance(data, np.ma.MaskedArray) and data.dtype.kind == "f"
    original = np.asarray(data.filled(np.nan) if floats_below else data)
    deviation = completion.deviation
    spread = None if deviation is None else completion.gridded.spread(deviation)
    return (
        _like_one(data, completed(original, completion), "", completion),
        None if spread is None else _like_one(data, spread, "_std", completion),
        _like_one(data, completion.filled_in_file(), "_filled", completion),
    )


def _like_one(data: Any, part: np.ndarray, suffix: str, completion: Completion) -> Any:
    """An array of the kind of the data; a DataArray with attributes of its own, in the same chunks."""
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.masked_invalid(part)
    if isinstance(data, np.ndarray):
        return part
    made = data.copy(data=part)
    # Numbers are no longer packed as the file had them, or would be rounded once more.
    layout = ("chunksizes", "zlib", "complevel", "shuffle", "contiguous", "preferred_chunks")
    made.encoding = {key: value for key, value in data.encoding.items() if key in layout}
    if suffix:
        made.attrs = cf.beside(completion, data.attrs, part.dtype)[suffix][1]
        made.name = f"{data.name or 'data'}{suffix}"
    else:
        if cf.is_scaled(data.encoding) or cf.beyond(part[completion.filled_in_file()], data.attrs).any():
            made.attrs = cf.without_range(made.attrs)
        made.attrs |= completion.notes
    return made.chunk(dict(data.chunksizes)) if data.chunks else made


def _result(filled: Filled, values: Any, deviation: Any, gaps: Any) -> CompletedData:
    import pandas as pd

    made = filled.made
    # Between scattered rows a step from one coordinate to the next is not a distance.
    on_a_grid = filled.completion.gridded.variable.rows is None
    distances = pd.DataFrame([vars(item) for item in made.by_distance if on_a_grid])
    remarks = (*filled.completion.gridded.remarks, *filled.remarks)
    interval = (np.nan, np.nan) if made.promise is None else (made.promise.low, made.promise.high)
    return CompletedData(
        values,
        deviation,
        gaps,
        made.frame(),
        distances,
        made.method,
        made.expected_error,
        interval,
        made.metric,
        remarks,
    )
