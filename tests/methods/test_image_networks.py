"""Networks that are fitted to one field: what their papers say of them, and fields that they must find."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from fieldbench import Axis, Observation
from fieldbench_methods.image_prior import DeepImagePrior
from fieldbench_methods.interpolation import Nearest
from fieldbench_methods.siren import Siren

torch = pytest.importorskip("torch")


def test_what_the_sines_are_taken_of_is_standard_normal_in_every_layer_but_the_first():
    """Sitzmann and others 2020, theorem 1.8: sines of it have the arcsine law, whatever the depth."""
    siren, rng = Siren(width=512, layers=4, omega=30.0), np.random.default_rng(0)
    points = torch.tensor(rng.uniform(-1, 1, (4000, 2)), dtype=torch.float32)
    weights = [torch.tensor(part) for part in siren.initial(2, rng)]
    for number in range(0, 8, 2):
        before = points @ weights[number]
        if number:
            assert float(before.std()) == pytest.approx(1.0, rel=0.05)
        points = torch.sin(before + weights[number + 1])
        # The arcsine law, whose sines are of uniform angles.
        angles = np.arcsin(points[::40].numpy().ravel().astype(float)) / np.pi + 0.5
        assert kstest(angles, "uniform").statistic < 0.05
        assert float((points**2).mean()) == pytest.approx(0.5, abs=0.03)


def smooth(shape: tuple[int, ...]) -> np.ndarray:
    coordinates = np.meshgrid(*(np.linspace(0, 1, size) for size in shape), indexing="ij")
    return np.sin(4 * coordinates[0] + 1) * np.cos(3 * coordinates[1]) + sum(coordinates)


@pytest.mark.parametrize(
    ("method", "shape", "share"),
    [(Siren(), (24, 20), 0.3), (Siren(), (12, 10, 8), 0.3),
     (DeepImagePrior(steps=300), (24, 20), 0.5), (DeepImagePrior(steps=300), (16, 12, 3), 0.6)],
)  # fmt: skip
def test_a_smooth_field_is_found_far_better_than_by_the_nearest(method, shape, share):
    truth = smooth(shape)
    mask = np.random.default_rng(1).random(shape) < 0.3
    observation = Observation(truth, mask)
    errors = [np.sqrt(np.mean((other.complete(observation) - truth)[~mask] ** 2)) for other in (method, Nearest())]
    assert errors[0] < share * errors[1]


def test_latitude_and_longitude_are_the_image_wherever_they_stand():
    truth = smooth((12, 10, 3))
    names, mask = ("lat", "lon", "time"), np.random.default_rng(3).random(truth.shape) < 0.4
    axes = tuple(Axis.regular(name, size) for name, size in zip(names, truth.shape, strict=True))
    method = DeepImagePrior(steps=10, width=4)
    first = method.complete(Observation(truth, mask, axes))
    moved = method.complete(Observation(truth.transpose(2, 0, 1), mask.transpose(2, 0, 1), (axes[2], *axes[:2])))
    np.testing.assert_allclose(moved.transpose(1, 2, 0), first, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", [Siren(steps=20, width=8), DeepImagePrior(steps=20, width=4)])
def test_the_unit_of_the_field_does_not_matter(method):
    truth = smooth((10, 9))
    mask = np.random.default_rng(2).random(truth.shape) < 0.4
    small, large = (method.complete(Observation(factor * truth, mask)) for factor in (1.0, 1024.0))
    np.testing.assert_allclose(large, 1024 * small, rtol=1e-3)
