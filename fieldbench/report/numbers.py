"""Numbers as tables, figures, pages and sentences write them."""

from __future__ import annotations

import math
from collections.abc import Iterable


def decimals(size: float, figures: int) -> int:
    """Digits behind the point that show ``figures`` figures of a number of this size.

    >>> decimals(0.0123, 3), decimals(45.6, 3), decimals(4567, 3)
    (4, 1, 0)
    """
    return max(0, figures - 1 - math.floor(math.log10(abs(size))))


def decimals_of_column(numbers: Iterable[float]) -> int:
    """Digits behind the point that show three figures of the smallest number; -1 asks for powers of ten.

    >>> decimals_of_column([0.5678, 12.3]), decimals_of_column([1.5e-9]), decimals_of_column([float("nan"), 0.0])
    (3, -1, 3)
    """
    sizes = [abs(number) for number in numbers if number and math.isfinite(number)]
    if not sizes:
        return 3
    return -1 if max(sizes) >= 1e7 or min(sizes) < 1e-5 else decimals(min(sizes), figures=3)


def decimals_of(value: float, uncertainty: float, otherwise: int) -> int:
    """Digits behind the point of a number: two figures of its uncertainty, but at most six of the number.

    >>> decimals_of(0.5678, 0.0123, 3), decimals_of(5.0, 1e-9, 3), decimals_of(5.0, float("nan"), 3)
    (3, 5, 3)

    Args:
        value: the number.
        uncertainty: what stands behind its ±; NaN or 0 where that is not known.
        otherwise: digits of a number without uncertainty; negative for powers of ten.
    """
    if otherwise < 0 or not (math.isfinite(uncertainty) and uncertainty > 0):
        return otherwise
    most = decimals(value, figures=6) if value and math.isfinite(value) else 6
    return min(decimals(uncertainty, figures=2), most)


def fixed(value: float, decimals: int) -> str:
    """A number with ``decimals`` digits behind the point, or in powers of ten for a negative number of them.

    >>> fixed(0.5, 3), fixed(1.5e-9, -1), fixed(float("nan"), 3)
    ('0.500', '1.50e-09', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:.2e}" if decimals < 0 else f"{value:.{decimals}f}"


def significant(value: float, figures: int = 4, absent: str = "-") -> str:
    """A number with ``figures`` figures; ``absent`` for NaN.

    >>> significant(0.123456), significant(float("nan"))
    ('0.1235', '-')

    Args:
        value: the number.
        figures: significant ones.
        absent: shown for NaN.
    """
    return absent if math.isnan(value) else f"{value:.{figures}g}"


def rounded(value: float, uncertainty: float) -> str:
    """A number with two figures of its uncertainty, or four of its own where that is not known.

    >>> rounded(0.123456, 0.0123), rounded(0.123456, float("nan")), rounded(1.5e-9, 1e-10)
    ('0.123', '0.1235', '1.5e-09')
    """
    written_out = math.isfinite(uncertainty) and uncertainty > 0 and 1e-5 <= abs(value) < 1e7
    return fixed(value, decimals_of(value, uncertainty, 3)) if written_out else significant(value)


def p_text(p: float) -> str:
    """A p-value as it is printed: ``0.031``, ``< 0.001``."""
    if math.isnan(p):
        return "-"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def with_unit(name: str, unit: str) -> str:
    """What is measured, as the head of a table or the label of an axis.

    >>> with_unit("rmse", "m/s"), with_unit("slnre", "")
    ('rmse (m/s)', 'slnre')
    """
    return f"{name} ({unit})" if unit else name


def is_number(value: float | None) -> bool:
    """Whether there is a value, and it is not NaN."""
    return value is not None and not math.isnan(value)
