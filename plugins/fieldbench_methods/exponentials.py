"""exp and tanh in single precision as loops of numba's can vectorise them, for the fast CPU engines. Needs numba."""

from __future__ import annotations

import numba
import numpy as np

_inlined = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")


@_inlined
def exponential(x):  # type: ignore[no-untyped-def]
    """exp(x) in single precision for |x| < 87, to 2e-7 relative, without a branch: it vectorises.

    exp(x) = 2^k exp(r) with |r| <= ln(2)/2 and a polynomial of degree 6 for exp(r).
    """
    x = min(max(x, np.float32(-87.0)), np.float32(87.0))
    k = np.floor(x * np.float32(1.44269504088896341) + np.float32(0.5))
    r = x - k * np.float32(0.693359375)
    r = r - k * np.float32(-2.12194440e-4)
    p = np.float32(1.0 / 720.0)
    p = p * r + np.float32(1.0 / 120.0)
    p = p * r + np.float32(1.0 / 24.0)
    p = p * r + np.float32(1.0 / 6.0)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


@_inlined
def hyperbolic_tangent(x):  # type: ignore[no-untyped-def]
    """tanh(x) to 1e-7 absolute, vectorising; see :func:`exponential`."""
    return np.float32(1.0) - np.float32(2.0) / (exponential(np.float32(2.0) * x) + np.float32(1.0))
