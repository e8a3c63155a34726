"""Numbers that are not amounts: codes for a missing value, and classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fieldbench.field import FloatArray, Mask

#: The middle part of the values says how far they usually spread.
_MIDDLE = (0.01, 0.99)
#: A number in this share of the entries (zero on land), and this many times as often as any other, is suspected
#: where it is that near to the others, in parts of their spread.
_OFTEN, _TIMES, _NEAR = 0.05, 10, 0.2
_MOST_CODES, _MANY = 4, 20

#: Whole numbers are taken as classes where there are at most this many, with this many entries of each on average.
_MOST_CLASSES, _ENTRIES_A_CLASS = 32, 20


def coded(values: FloatArray, codes: Sequence[float]) -> Mask:
    """Where values are one of the codes; in single precision, since a file may hold no nearer number."""
    with np.errstate(over="ignore"):
        return np.isin(values.astype("f4"), np.asarray(codes, dtype="f4")) & ~np.isnan(values)


def suspicions(name: str, values: FloatArray) -> Iterator[str]:
    """A line for each number that is repeated exactly and lies far from all others, as codes for missing values do.

    Args:
        name: of the variable.
        values: vector of those that count as observed.
    """
    distinct, counts = np.unique(values, return_counts=True)
    for _ in range(_MOST_CODES):
        found = _suspect(distinct, counts)
        if found is None:
            return
        rest = np.delete(distinct, found)
        code = f"{distinct[found]:.6g}"
        yield (
            f"{counts[found]} entries of {name} are exactly {code}, far from all others "
            f"({rest[0]:.6g} to {rest[-1]:.6g}); if that stands for a missing value, say --missing {code}"
        )
        distinct, counts = rest, np.delete(counts, found)


def classes_of(values: FloatArray, whole: bool, flags: bool) -> tuple[float, ...]:
    """The numbers of the classes that a variable holds, or none where its numbers are amounts.

    Args:
        values: vector of those that count as observed.
        whole: whether whole numbers are stored.
        flags: whether the file says that they are classes.
    """
    if not (whole or flags) or not values.size:
        return ()
    distinct = np.unique(values)
    few = 1 < len(distinct) <= _MOST_CLASSES and len(values) >= _ENTRIES_A_CLASS * len(distinct)
    return tuple(distinct.tolist()) if flags or few else ()


def _suspect(distinct: FloatArray, counts: np.ndarray) -> int | None:
    """Index of the lowest or highest value, if it is a suspect; the farther of two."""
    if len(distinct) < 4:
        return None
    # The outermost values may all be codes, and say nothing of how far values usually spread.
    inner = slice(_MOST_CODES, -_MOST_CODES) if len(distinct) >= _MANY else slice(1, -1)
    spread = float(np.ptp(np.quantile(np.repeat(distinct[inner], counts[inner]), _MIDDLE)))
    best, farthest = None, 0.0
    for index, beside in ((0, 1), (len(distinct) - 1, len(distinct) - 2)):
        distance = abs(distinct[index] - distinct[beside])
        often = counts[index] >= max(_OFTEN * counts.sum(), _TIMES * np.delete(counts, index).max())
        if counts[index] > 1 and distance > max(farthest, spread * (_NEAR if often else 1.0)):
            best, farthest = index, distance
    return best
