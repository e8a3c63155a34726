"""Tables as people write them: separators, decimal commas, comments, dates, and marks for a missing value."""

from __future__ import annotations

import codecs
import contextlib
import re
import warnings
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import FloatArray
from fieldbench.files.format import TEXTS, need

if TYPE_CHECKING:
    import pandas as pd

#: What stands between columns; the first that the line of names holds. Commas come late, since names hold some.
_SEPARATORS = (";", "\t", "|", ",")
_MISSING = ["-", "--", "---", "*", "**", "***", "?"]
_COMMENTS = ("#", "%", "//")
#: What Excel puts before the names to say what stands between columns.
_SEPARATOR_SAID = re.compile(r"sep=(.)$")
_NUMBER_WITH_COMMA = r"[-+]?\d+,\d+([eE][-+]?\d+)?"
_ZONE = re.compile(r"\s*(UTC|GMT)$")
_SINCE = "days since "
_DAY = 86_400_000_000  # microseconds


def load(file: Path) -> pd.DataFrame:
    """The table of a text or Parquet file."""
    import pandas as pd

    if file.suffix.lower() in TEXTS:
        return _read_text(file)
    need("pyarrow", file)
    frame = pd.read_parquet(file)
    return frame.reset_index() if any(frame.index.names) else frame


def _read_text(file: Path) -> pd.DataFrame:
    """A text table with names in the first line, or in the last comment before the numbers."""
    import pandas as pd

    lines = _records(_text(file.read_bytes()))
    comments = [line for line in lines if line.lstrip().startswith(_COMMENTS)]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith(_COMMENTS)]
    said = _SEPARATOR_SAID.match(lines[0]) if lines else None
    lines = lines[1:] if said else lines
    if not lines:
        return pd.DataFrame()
    if comments and not _names_columns(lines[0]):
        lines.insert(0, comments[-1].lstrip("#%/ \t"))
    separator = said[1] if said else _separator(lines[0])
    # Measured values are kept to the last bit; from pandas 3.1 on, that need not be said.
    of_itself = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
    exact: dict[str, Any] = {} if of_itself else {"float_precision": "round_trip"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                StringIO("\n".join(lines)),
                sep=separator,
                decimal="," if _has_decimal_commas(lines[1:], separator) else ".",
                skipinitialspace=True,
                index_col=False,  # a separator at the end of each row makes no column
                na_values=_MISSING,
                **exact,
            )
        except pd.errors.ParserWarning:
            raise RequestError(f"{file.name}: its rows have more columns than the line of their names") from None
    frame.columns = frame.columns.str.strip()
    return _without_units(frame)


def _text(content: bytes) -> str:
    """The letters of a file: of UTF-8, or as it says itself of UTF-16, else of Windows and Latin-1."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16")
    for encoding in ("utf-8-sig", "cp1252"):
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode(encoding)
    return content.decode("latin-1")


def _records(text: str) -> list[str]:
    """The lines of a text; those that end within quotes go on."""
    records, inside = list[str](), False
    for line in re.split(r"\r\n|\n|\r", text):
        if inside:
            records[-1] += f"\n{line}"
        else:
            records.append(line)
        if '"' in line:
            inside = _ends_within_quotes(line, inside)
    return records


def _ends_within_quotes(line: str, inside: bool) -> bool:
    """Whether the quotes of a cell are still open at the end of a line; ``inside`` says so of its beginning."""
    line = line.replace('""', "")  # a quote that is part of the text
    if inside:
        _, closed, line = line.partition('"')
        if not closed:
            return True
    return re.search(r'(^|[;,|\t])\s*"', re.sub(r'"[^"]*"', "", line)) is not None


def _separator(names: str) -> str:
    plain = re.sub(r'"[^"]*"', "", names)
    return next((mark for mark in _SEPARATORS if mark in plain), r"\s+" if len(plain.split()) > 1 else ",")


def _has_decimal_commas(lines: Sequence[str], separator: str) -> bool:
    """Whether a whole cell is a number with a comma; between commas such a one stands in quotes."""
    edge = r"\s" if separator == r"\s+" else rf"\s*{re.escape(separator)}\s*"
    quote, needed = ('"', '"') if separator == "," else ('"?', ",")
    cell = re.compile(rf"(^|{edge}){quote}{_NUMBER_WITH_COMMA}{quote}(?=\s*$|{edge})")
    return any(cell.search(line) for line in lines if needed in line)


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


def numbers(column: pd.Series, file: str) -> tuple[FloatArray, str]:
    """A column of numbers or dates as floats, missing ones NaN, and the unit of dates; messages name its file.

    Raises:
        RequestError: if it holds neither.
    """
    import pandas as pd

    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=float, na_value=np.nan), ""
    amounts = pd.to_numeric(column, errors="coerce")
    if column.dtype.kind == "O" and not column.map(lambda item: isinstance(item, str)).any() and amounts.notna().any():
        return amounts.to_numpy(dtype=float, na_value=np.nan), ""  # Decimal, or numbers and None
    dates = _dates(column)
    if dates is None:
        odd = column[amounts.isna() & column.notna()]
        where = (
            f"; row {odd.index[0] + 1} has {str(odd.iloc[0])!r:.60}" if len(odd) and odd.index.dtype.kind == "i" else ""
        )
        nothing = ", and where nothing was measured a cell is empty" if amounts.notna().any() else ""
        raise RequestError(
            f"{file}: the column {column.name!r} holds no numbers, nor dates such as 2024-01-31T12:00{where}{nothing}"
        )
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
    column = column.map(lambda item: _ZONE.sub("Z", item) if isinstance(item, str) else item)
    for form in ("ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M"):
        for utc in (False, True):  # of several zones, in that of Greenwich
            try:
                dates = pd.to_datetime(column, format=form, utc=utc)
            except (ValueError, TypeError):
                continue
            if dates.dtype.kind == "M":
                return pd.Series(dates)
    return None
