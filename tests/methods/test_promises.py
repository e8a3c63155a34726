"""What every method that solves for its estimate keeps to, whatever it solves."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench_methods.dineof import Dineof
from fieldbench_methods.inpainting import Biharmonic, Harmonic
from fieldbench_methods.interpolation import InverseDistance, Linear, Nearest
from fieldbench_methods.kriging import Kriging
from fieldbench_methods.lrtc import LRTC
from fieldbench_methods.splines import RadialBasis, ThinPlate
from fieldbench_methods.tucker_als import TuckerALS
from tests.methods.fields import complete, observe, smooth

SHAPE = (7, 6, 5)

#: Each with the relative error that its solver may leave.
METHODS = [
    (Nearest(), 1e-9),
    (InverseDistance(), 1e-9),
    (Linear(), 1e-9),
    (ThinPlate(), 1e-9),
    (ThinPlate(exact=1), 1e-9),
    (RadialBasis(), 1e-9),
    (RadialBasis(exact=1), 1e-9),
    (Dineof(), 1e-7),
    (TuckerALS(ranks=2, iterations=30, tolerance=0), 1e-7),
    (Harmonic(), 1e-6),
    (Biharmonic(), 1e-6),
    (Kriging(), 1e-6),
    (LRTC(tube=0), 1e-6),
    (LRTC(variant="silrtc"), 1e-6),
    (LRTC(variant="halrtc"), 1e-6),
]


@pytest.mark.parametrize(("method", "error"), METHODS, ids=str)
@pytest.mark.parametrize("scale", [1e-250, 1e-6, 1e6, 1e250])
def test_scale_equivariance(method, error, scale):
    one, other = (complete(method, observe(factor * smooth(SHAPE))) for factor in (1.0, scale))
    np.testing.assert_allclose(other / scale, one, rtol=error, atol=error)


@pytest.mark.parametrize(("method", "error"), [item for item in METHODS if not isinstance(item[0], LRTC)], ids=str)
def test_a_constant_field_stays_constant(method, error):
    constant = np.full(SHAPE, -3.25)
    np.testing.assert_allclose(complete(method, observe(constant)), constant, rtol=error)
