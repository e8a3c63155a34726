"""What attributes say of stored numbers: fill values, valid ranges, packing and signs (CF sections 2.5 and 8.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldbench.field import FloatArray, Mask

if TYPE_CHECKING:
    from fieldbench.files.gridded import Completion

_FILLS = ("_FillValue", "missing_value")
_SCALING = {"scale_factor": 1.0, "add_offset": 0.0}
_LIMITS = ("valid_min", "valid_max", "valid_range")
#: What is true of numbers as they are stored, and no longer once they are stored in another way.
_STORAGE = (*_FILLS, *_LIMITS, *_SCALING, "_Unsigned")
#: What the netCDF library stores where nothing was written; bytes have no such number.
_UNWRITTEN = {
    "i2": -(2**15) + 1,
    "i4": -(2**31) + 1,
    "i8": -(2**63) + 2,
    "u2": 2**16 - 1,
    "u4": 2**32 - 1,
    "u8": 2**64 - 2,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
}


def with_fill(stored: np.ndarray, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A netCDF variable's attributes, with a fill value for entries that were never written, where there are any."""
    unwritten = _UNWRITTEN.get(stored.dtype.str[1:])
    if unwritten is None or "_FillValue" in attributes or not (stored == stored.dtype.type(unwritten)).any():
        return dict(attributes)
    return {**attributes, "_FillValue": stored.dtype.type(unwritten)}


def decoded(stored: np.ndarray, attributes: Mapping[str, Any]) -> FloatArray:
    """The values that are meant, missing ones NaN."""
    numbers = _signed(stored, attributes)
    values = numbers.astype(float)
    missing = np.isnan(values) | beyond(numbers, attributes)
    for fill in _fills(attributes, numbers.dtype):
        missing |= numbers == fill
    factor, offset = _scaling(attributes)
    values = values * factor + offset
    values[missing] = np.nan
    return values


def is_packed(dtype: np.dtype[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether other numbers are stored than are meant, so that a completed value need not fit among them."""
    return dtype.kind != "f" or is_scaled(attributes)


def is_scaled(attributes: Mapping[str, Any]) -> bool:
    """Whether stored numbers are to be multiplied or shifted."""
    return any(key in attributes for key in _SCALING)


def is_flag(attributes: Mapping[str, Any]) -> bool:
    """Whether numbers stand for classes."""
    return any(key in attributes for key in ("flag_values", "flag_meanings", "flag_masks"))


def add_history(attributes: Any, completions: Sequence[Completion]) -> None:
    """Put a line at the top of a file's history (Unidata's convention)."""
    from fieldbench import __version__

    done = "; ".join(f"{item.gridded.name} by {item.attributes.get('method', 'hand')}" for item in completions)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = f"{now} fieldbench {__version__} complete: gaps filled in {done}"
    attributes["history"] = "\n".join(filter(None, [line, text(attributes.get("history", ""), "\n")]))


def beside(
    completion: Completion, attributes: Mapping[str, Any], dtype: np.dtype[Any]
) -> dict[str, tuple[np.ndarray, dict[str, Any]]]:
    """Further variables of a completion by the suffixes of their names: values of the file's shape and attributes.

    Args:
        completion: what was completed.
        attributes: of the variable that is completed.
        dtype: that it is stored in; floats in single precision have a deviation in single precision.
    """
    gridded, name = completion.gridded, text(attributes.get("standard_name", ""))
    variable = gridded.name.rpartition("/")[2]
    made: dict[str, tuple[np.ndarray, dict[str, Any]]] = {}
    if completion.deviation is not None:
        about = {"long_name": f"standard deviation of {variable}"}
        about |= {"units": gridded.variable.unit} if gridded.variable.unit else {}
        about |= {"standard_name": f"{name} standard_error"} if name else {}
        made["_std"] = gridded.spread(completion.deviation).astype(dtype if dtype.kind == "f" else "f4"), about
    about = {"long_name": f"where gaps of {variable} were filled"}
    about |= {"standard_name": f"{name} status_flag"} if name else {}
    flags = {"flag_values": np.array([0, 1], dtype="i1"), "flag_meanings": "as_it_was filled"}
    made["_filled"] = completion.filled_in_file().astype("i1"), {**about, **flags}
    return made


def refer(attributes: Any, name: str) -> None:
    """Name a further variable among those that say more of this one (CF section 3.4)."""
    attributes["ancillary_variables"] = f"{text(attributes.get('ancillary_variables', ''))} {name}".strip()


def encoded(values: FloatArray, old: np.ndarray, attributes: Mapping[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
    """Values as they are to be stored in place of others, and those attributes that are still true.

    Packed ones are unpacked: of 16 bits to single precision, of more to double, missing ones NaN. Whole numbers that
    nothing scales, such as classes, stay in their type if the completed ones are whole and fit. Floats keep their
    type; their valid range only if all values lie in it. What is not completed keeps its number, whichever of several
    stands for a missing value.

    Args:
        values: completed and unpacked, NaN = missing.
        old: what the file has.
        attributes: of the variable in the file.
    """
    dtype = old.dtype
    if stays_whole(values, dtype, attributes):
        fill = next(iter(_fills(attributes, dtype)), 0)
        whole = np.where(np.isnan(values), fill, values).astype(dtype)
        return np.where(_as_it_was(values, old, attributes), old, whole), dict(attributes)
    if is_packed(dtype, attributes):
        floats = np.dtype("f4" if dtype.itemsize <= (4 if dtype.kind == "f" else 2) else "f8")
        if dtype.kind != "f" and _is_coarse(values, floats, attributes):
            floats = np.dtype("f8")
        kept = {key: value for key, value in attributes.items() if key not in _STORAGE}
        return values.astype(floats), kept | ({"_FillValue": floats.type(np.nan)} if "_FillValue" in attributes else {})
    stored, stays = values.astype(dtype), _as_it_was(values, old, attributes)
    fill, kept = next(iter(_fills(attributes, dtype)), np.nan), dict(attributes)
    if beyond(stored, attributes).any():
        kept = without_range(attributes)
        stays &= ~beyond(old, attributes)  # what was missing as it is beyond the range would be read as a value
    return np.where(stays, old, np.where(np.isnan(stored), dtype.type(fill), stored)).astype(dtype), kept


def _is_coarse(values: FloatArray, floats: np.dtype[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether floats near the largest value lie farther apart than a small part of what packed numbers count."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return bool(np.spacing(floats.type(largest)) > 0.01 * abs(_scaling(attributes)[0]))


def _as_it_was(values: FloatArray, old: np.ndarray, attributes: Mapping[str, Any]) -> Mask:
    before = decoded(old, attributes)
    return np.asarray((values == before) | (np.isnan(values) & np.isnan(before)))


def stays_whole(values: FloatArray, dtype: np.dtype[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether values can be stored among whole numbers of this type that nothing scales.

    Args:
        values: completed and unpacked, NaN = missing.
        dtype: of the variable in the file.
        attributes: of the variable in the file.
    """
    if dtype.kind not in "iu" or any(key in attributes for key in (*_SCALING, "_Unsigned")):
        return False
    present = values[~np.isnan(values)]
    limits = np.iinfo(dtype)
    return bool(
        (present.size == values.size or _fills(attributes, dtype))
        and (present == np.round(present)).all()
        and ((present >= limits.min) & (present <= limits.max)).all()
        and not beyond(present, attributes).any()
    )


def beyond(numbers: np.ndarray, attributes: Mapping[str, Any]) -> Mask:
    """Where numbers, in the type that they are stored in, lie outside the valid range; readers take them as missing."""
    low, high = _limits(attributes, numbers.dtype)
    return np.asarray((numbers < low) | (numbers > high))


def range_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the valid range alone."""
    return {key: value for key, value in attributes.items() if key in _LIMITS}


def without_range(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes but those of the valid range."""
    return {key: value for key, value in attributes.items() if key not in _LIMITS}


def valid_range(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> FloatArray:
    """The lowest and the highest valid value, infinite where there is none; in the precision that is stored."""
    factor, offset = _scaling(attributes)
    limits = [float(limit) * factor + offset for limit in _limits(attributes, dtype)]
    return np.sort(np.array(limits, dtype=float if is_packed(dtype, attributes) else dtype))


def _limits(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> tuple[Any, Any]:
    lowest, highest, both = (_numbers(attributes, key, dtype) for key in _LIMITS)
    return [*lowest[:1], *both[:1], -np.inf][0], [*highest[:1], *both[1:2], np.inf][0]


def _scaling(attributes: Mapping[str, Any]) -> tuple[float, float]:
    """The factor and the offset by which stored numbers become values."""
    factor, offset = (float(np.ravel(attributes.get(key, default))[0]) for key, default in _SCALING.items())
    return factor, offset


def _signed(stored: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """Numbers in this machine's byte order; integers with or without sign, as ``_Unsigned`` says."""
    if stored.dtype.kind == "b":
        return stored.astype("u1")
    numbers = stored.astype(stored.dtype.newbyteorder("="), copy=False)
    kind = {"true": "u", "false": "i"}.get(str(attributes.get("_Unsigned", "")).lower())
    if kind is None or numbers.dtype.kind not in "iu":
        return numbers
    return numbers.view(f"{kind}{numbers.dtype.itemsize}")


def _numbers(attributes: Mapping[str, Any], key: str, dtype: np.dtype[Any]) -> np.ndarray:
    """An attribute's numbers, to be compared with stored ones; none if it is absent or a text.

    They may have been written in another type, and the nearest single-precision number to 0.1 is not 0.1: among
    stored floats they are rounded as those were. Integers of the same width have their sign from the same attribute.
    """
    numbers = np.ravel(attributes.get(key, ()))
    if numbers.dtype.kind not in "fiu":
        return np.zeros(0)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return numbers.astype(dtype)
    return _signed(numbers, attributes) if numbers.dtype.itemsize == dtype.itemsize else numbers


def text(value: Any, between: str = " ") -> str:
    """An attribute as one text, those of several with something between."""
    if isinstance(value, np.ndarray | list | tuple):
        return between.join(map(text, np.ravel(value)))
    return value.decode() if isinstance(value, bytes) else str(value)


def _fills(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> list[Any]:
    return [fill for key in _FILLS for fill in _numbers(attributes, key, dtype)]
