"""LRTC's proximal maps against their definitions, its minima against feasible perturbations, its traps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorly
from tensorly.tenalg.proximal import svd_thresholding

from fieldbench import Observation, RequestError
from fieldbench_methods.lrtc import LRTC
from fieldbench_methods.lrtc.solve import shrink_tubes, shrink_unfolding
from tests.methods.fields import complete, low_rank, observe

VARIANTS = [LRTC(tube=0), LRTC(variant="silrtc"), LRTC(variant="halrtc")]


def circulant(tensor):
    """The block-circulant matrix of a tensor with tubes along axis 0: t-SVD is its block diagonalisation."""
    n = len(tensor)
    return np.block([[tensor[(row - column) % n] for column in range(n)] for row in range(n)])


@pytest.mark.parametrize("shape", [(4, 6, 5), (5, 3, 6)])
def test_shrinking_tubes_is_shrinking_the_block_circulant_matrix(shape):
    tensor = np.random.default_rng(0).normal(size=shape)
    left, values, right = np.linalg.svd(circulant(tensor), full_matrices=False)
    shrunk = (left * np.maximum(values - 1.2, 0)) @ right
    first_column = shrunk[:, : shape[2]].reshape(shape)
    np.testing.assert_allclose(shrink_tubes(tensor, (0,), 1.2), first_column, atol=1e-10)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_tubes_along_any_axis(axis):
    tensor = np.random.default_rng(1).normal(size=(4, 5, 6))
    turned = shrink_tubes(np.moveaxis(tensor, axis, 0), (0,), 0.9)
    np.testing.assert_allclose(shrink_tubes(tensor, (axis,), 0.9), np.moveaxis(turned, 0, axis), atol=1e-12)


def test_tubes_of_higher_and_lower_order():
    rng = np.random.default_rng(2)
    tensor = rng.normal(size=(3, 4, 5, 2))
    spectrum = np.fft.fft(np.fft.fft(tensor, axis=1), axis=3)
    for one in range(4):
        for other in range(2):
            u, s, v = np.linalg.svd(spectrum[:, one, :, other], full_matrices=False)
            spectrum[:, one, :, other] = u @ np.diag(np.maximum(s - 0.7, 0)) @ v
    expected = np.fft.ifft(np.fft.ifft(spectrum, axis=1), axis=3)
    np.testing.assert_allclose(shrink_tubes(tensor, (1, 3), 0.7), expected.real, atol=1e-12)
    np.testing.assert_allclose(expected.imag, 0, atol=1e-12)
    matrix = rng.normal(size=(5, 4))
    np.testing.assert_allclose(shrink_tubes(matrix, (), 0.7), shrink_unfolding(matrix, 0, 0.7), atol=1e-12)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_shrinking_an_unfolding_is_tensorlys_thresholding(mode):
    tensor = np.random.default_rng(3).normal(size=(4, 5, 6))
    shrunk = svd_thresholding(tensorly.unfold(tensor, mode), 1.5)
    expected = tensorly.fold(shrunk, mode, tensor.shape)
    np.testing.assert_allclose(shrink_unfolding(tensor, mode, 1.5), expected, atol=1e-10)


def tensor_nuclear_norm(tensor):
    return np.linalg.norm(circulant(tensor), "nuc") / len(tensor)


def unfolding_norms(tensor):
    return sum(np.linalg.norm(tensorly.unfold(tensor, mode), "nuc") for mode in range(tensor.ndim))


@pytest.mark.parametrize(
    ("method", "norm"), [(LRTC(tube=0), tensor_nuclear_norm), (LRTC(variant="halrtc"), unfolding_norms)]
)
def test_no_feasible_tensor_has_a_smaller_norm(method, norm):
    observation = observe(low_rank((5, 6, 7), 2), 0.5)
    exact = method.model_copy(update={"tolerance": 1e-9, "iterations": 5000})
    estimate = complete(exact, observation)
    np.testing.assert_allclose(estimate[observation.mask], observation.observed, rtol=1e-12)
    rng = np.random.default_rng(4)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            step = np.where(observation.mask, 0, rng.normal(size=estimate.shape))
            assert norm(estimate) <= norm(estimate + size * step) + 1e-6
    zero_filled = observation.filled(0.0)
    for share in (0.01, 0.1, 0.5, 1.0):
        assert norm(estimate) <= norm((1 - share) * estimate + share * zero_filled) + 1e-6


def test_silrtc_ends_at_a_fixed_point_of_its_relaxation():
    observation = observe(low_rank((5, 6, 7), 2), 0.6)
    method = LRTC(variant="silrtc", alpha=0.2, tolerance=1e-12, iterations=20000)
    scale = np.abs(observation.observed).max()
    estimate = complete(method, observation) / scale
    gradient = estimate - np.mean([shrink_unfolding(estimate, mode, 0.2) for mode in range(3)], axis=0)
    np.testing.assert_allclose(gradient[~observation.mask], 0, atol=1e-8)


@pytest.mark.parametrize("method", [LRTC(tube=2), LRTC(), LRTC(variant="halrtc")])
def test_a_low_rank_tensor_is_recovered(method):
    field = low_rank((14, 13, 12), 1)
    estimate = complete(method, observe(field, 0.7))
    assert np.linalg.norm(estimate - field) < 0.02 * np.linalg.norm(field)


def test_the_tube_is_chosen_where_the_field_is_a_bundle_of_tubes():
    rng = np.random.default_rng(5)
    # Independent along axis 1 in frequency, of rank one in the other two: low-rank for no other tube.
    spectrum = np.einsum("ik,jk->ikj", rng.normal(size=(12, 9)), rng.normal(size=(12, 9)))
    field = np.fft.irfft(spectrum, n=16, axis=1)
    observation = observe(field, 0.6)
    np.testing.assert_array_equal(complete(LRTC(), observation), complete(LRTC(tube=1), observation))


@pytest.mark.parametrize("shape", [(12, 10), (6, 5, 4, 3)])
@pytest.mark.parametrize("variant", ["tsvd", "silrtc", "halrtc"])
def test_other_orders(shape, variant):
    observation = observe(low_rank(shape, 1), 0.6)
    estimate = complete(LRTC(variant=variant), observation)
    np.testing.assert_allclose(estimate[observation.mask], observation.observed, rtol=1e-12)
    zero = observation.filled(0.0)
    truth = low_rank(shape, 1)
    assert np.linalg.norm(estimate - truth) < np.linalg.norm(zero - truth)


@pytest.mark.parametrize("method", [*VARIANTS, LRTC()])
def test_one_entry_and_all_entries(method):
    field = low_rank((6, 5, 4), 1)
    np.testing.assert_allclose(complete(method, observe(field, 2.0)), field, rtol=1e-12)
    mask = np.zeros(field.shape, dtype=bool)
    mask[1, 2, 3] = True
    estimate = complete(method, Observation(field, mask))
    assert estimate[1, 2, 3] == pytest.approx(field[1, 2, 3])
    assert np.isfinite(estimate).all()


def test_a_tube_that_is_no_axis_is_refused():
    with pytest.raises(ValueError, match="tube must name 1 different axes of 0 to 2"):
        LRTC(tube=3).check_shape((4, 5, 6))
    with pytest.raises(RequestError, match="tube must name 2"):
        complete(LRTC(tube=1), observe(low_rank((4, 4, 4, 4), 1), 0.5))
    assert "at least 2" in LRTC().applicable(observe(np.ones(9), 0.5))
