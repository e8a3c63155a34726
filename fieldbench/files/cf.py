"""What attributes say of stored numbers: fill values, valid ranges, packing and signs (CF sections 2.5 and 8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fieldbench.field import FloatArray, Mask

_FILLS = ("_FillValue", "missing_value")
_SCALING = {"scale_factor": 1.0, "add_offset": 0.0}
_LIMITS = ("valid_min", "valid_max", "valid_range")
#: What is true of numbers as they are stored, and no longer once they are stored in another way.
_STORAGE = (*_FILLS, *_LIMITS, *_SCALING, "_Unsigned")


def decoded(stored: np.ndarray, attributes: Mapping[str, Any]) -> FloatArray:
    """The values that are meant, missing ones NaN."""
    numbers = _signed(stored, attributes)
    values = numbers.astype(float)
    missing = np.isnan(values) | beyond(numbers, attributes)
    for fill in _fills(attributes, numbers.dtype):
        missing |= numbers == fill
    factor, offset = (float(np.ravel(attributes.get(key, default))[0]) for key, default in _SCALING.items())
    values = values * factor + offset
    values[missing] = np.nan
    return values


def is_packed(dtype: np.dtype[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether other numbers are stored than are meant, so that a completed value need not fit among them."""
    return dtype.kind != "f" or any(key in attributes for key in _SCALING)


def encoded(
    values: FloatArray, dtype: np.dtype[Any], attributes: Mapping[str, Any]
) -> tuple[np.ndarray, dict[str, Any]]:
    """Values as they are to be stored in place of others of this type, and those attributes that are still true.

    Packed ones are unpacked: of 16 bits to single precision, of more to double, missing ones NaN. Floats keep
    their type and what stands for a missing value; their valid range only if all values lie in it.
    """
    if is_packed(dtype, attributes):
        floats = np.dtype("f4" if dtype.itemsize <= (4 if dtype.kind == "f" else 2) else "f8")
        kept = {key: value for key, value in attributes.items() if key not in _STORAGE}
        return values.astype(floats), kept | ({"_FillValue": floats.type(np.nan)} if "_FillValue" in attributes else {})
    stored = values.astype(dtype)
    dropped = _LIMITS if beyond(stored, attributes).any() else ()
    fill = next(iter(_fills(attributes, dtype)), np.nan)
    kept = {key: value for key, value in attributes.items() if key not in dropped}
    return np.where(np.isnan(stored), dtype.type(fill), stored), kept


def beyond(numbers: np.ndarray, attributes: Mapping[str, Any]) -> Mask:
    """Where numbers, in the type that they are stored in, lie outside the valid range; readers take them as missing."""
    lowest, highest, both = (_numbers(attributes, key, numbers.dtype) for key in _LIMITS)
    outside = np.zeros(numbers.shape, dtype=bool)
    for low in [*lowest[:1], *both[:1]][:1]:
        outside |= numbers < low
    for high in [*highest[:1], *both[1:2]][:1]:
        outside |= numbers > high
    return outside


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


def _fills(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> list[Any]:
    return [fill for key in _FILLS for fill in _numbers(attributes, key, dtype)]
