"""Tables as people write them: separators, decimal commas, comments, dates, and marks for a missing value."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import FloatArray
from fieldbench.files.format import TEXTS

if TYPE_CHECKING:
    import pandas as pd

#: What stands between columns; the first that the line of names holds. Commas come late, since names hold some.
_SEPARATORS = (";", "\t", "|", ",")
_MISSING = ["-", "--", "---", "*", "**", "***", "?"]
_COMMENTS = ("#", "%", "//")
_DECIMAL_COMMA = re.compile(r"(^|[\s;|])[-+]?\d+,\d+")
_SINCE = "days since "
_DAY = 86_400_000_000  # microseconds


def load(file: Path) -> pd.DataFrame:
    """The table of a text or Parquet file."""
    import pandas as pd

    return _read_text(file) if file.suffix.lower() in TEXTS else pd.read_parquet(file)


def _read_text(file: Path) -> pd.DataFrame:
    """A text table with names in the first line, or in the last comment before the numbers."""
    import pandas as pd

    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    lines = text.splitlines()
    comments = [line for line in lines if line.lstrip().startswith(_COMMENTS)]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith(_COMMENTS)]
    if not lines:
        return pd.DataFrame()
    if comments and not _names_columns(lines[0]):
        lines.insert(0, comments[-1].lstrip("#%/ \t"))
    separator = next((mark for mark in _SEPARATORS if mark in lines[0]), r"\s+" if len(lines[0].split()) > 1 else ",")
    decimal = "," if separator != "," and any(_DECIMAL_COMMA.search(line) for line in lines[1:20]) else "."
    frame = pd.read_csv(
        StringIO("\n".join(lines)),
        sep=separator,
        decimal=decimal,
        skipinitialspace=True,
        na_values=_MISSING,
        float_precision="round_trip",  # measured values are kept to the last bit
    )
    frame.columns = frame.columns.str.strip()
    return _without_units(frame)


def _names_columns(line: str) -> bool:
    """Whether a line holds anything but numbers and marks for missing ones."""
    pieces = [piece for piece in re.split(r"[\s;|,]+", line) if piece and piece not in _MISSING]
    return any(re.fullmatch(r"[-+]?[\d.]+([eE][-+]?\d+)?|nan|NaN|NA", piece) is None for piece in pieces)


def _without_units(frame: pd.DataFrame) -> pd.DataFrame:
    """Without a first row of units, which makes texts of numbers."""
    import pandas as pd

    texts = frame.select_dtypes(exclude=["number", "bool", "datetime"])
    if len(frame) < 2 or texts.empty:
        return frame
    whole = frame.iloc[1:].reset_index(drop=True)
    freed = 0
    for name in texts.columns:
        below = pd.to_numeric(whole[name], errors="coerce")
        first = pd.to_numeric(texts[name].iloc[:1], errors="coerce")
        if first.isna().all() and below.notna().any() and (below.notna() | whole[name].isna()).all():
            whole[name] = below
            freed += 1
    return whole if freed else frame


def numbers(frame: pd.DataFrame, name: str, file: str) -> tuple[FloatArray, str]:
    """A column of numbers or dates as floats, missing ones NaN, and the unit of dates.

    Args:
        frame: the table.
        name: of the column.
        file: its name, for messages.

    Raises:
        RequestError: if it holds neither.
    """
    column = frame[name]
    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=float, na_value=np.nan), ""
    dates = _dates(column)
    if dates is None:
        raise RequestError(f"{file}: the column {name!r} holds no numbers, nor dates such as 2024-01-31T12:00")
    zone = "" if dates.dt.tz is None else "Z"
    if zone:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    origin = dates.min().normalize()
    since = (dates - origin).dt.total_seconds().to_numpy(dtype=float, na_value=np.nan) / 86400
    return since, f"{_SINCE}{origin:%Y-%m-%d}{zone}"


def from_numbers(values: FloatArray, unit: str) -> FloatArray | pd.Series:
    """Coordinates as they stand in a table: dates where they were dates."""
    import pandas as pd

    if not unit.startswith(_SINCE):
        return values
    origin = pd.Timestamp(unit.removeprefix(_SINCE).removesuffix("Z"))
    dates = pd.Series(origin + pd.to_timedelta(np.round(values * _DAY), unit="us"))
    return dates.dt.tz_localize("UTC") if unit.endswith("Z") else dates


def _dates(column: pd.Series) -> pd.Series | None:
    """A column as dates, or None; of texts only those that can be read in one way."""
    import pandas as pd

    if column.dtype.kind == "M":
        return column
    texts = column.dropna()
    if texts.empty or not texts.map(lambda item: hasattr(item, "isoformat") or isinstance(item, str)).all():
        return None
    for form in ("ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M"):
        try:
            return pd.Series(pd.to_datetime(column, format=form))
        except (ValueError, TypeError):
            continue
    return None
