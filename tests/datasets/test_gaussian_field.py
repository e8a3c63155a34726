"""Gaussian fields: their covariance, what can be known of them, and that scores find it when it is said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, t

from fieldbench import Estimate, Observation, RequestError
from fieldbench.metric import score_all
from fieldbench.registry import Registry
from fieldbench_datasets.gaussian_field import KERNELS, GaussianField, spectrum
from fieldbench_methods.kriging import Kriging


def covariance(dataset: GaussianField) -> np.ndarray:
    """The covariance of all entries, written out."""
    grid = np.indices(dataset.shape).reshape(len(dataset.shape), -1).T / dataset.scales
    distances = np.linalg.norm(grid[:, np.newaxis] - grid, axis=-1)
    return dataset.variance * (KERNELS[dataset.kernel](distances) + dataset.nugget * np.eye(len(grid)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("shape", "lengths"), [((9, 7), (3.0, 1.5)), ((5, 6, 4), (2.0,)), ((4, 3, 4, 3), (1.0,))])
def test_fields_are_drawn_from_the_covariance_that_is_said(kernel, shape, lengths):
    dataset = GaussianField(shape=shape, lengths=lengths, kernel=kernel)
    powers = spectrum(shape, tuple(dataset.scales), KERNELS[kernel])
    # What the eigenvalues of the torus make between the first entry and all others is the first row.
    made = np.fft.ifftn(powers).real[tuple(slice(size) for size in shape)]
    np.testing.assert_allclose(made.ravel(), covariance(dataset)[0], atol=2e-6)


def test_draws_have_that_covariance():
    dataset = GaussianField(shape=(4, 3), lengths=(2.0, 1.0), variance=2.0, nugget=0.25)
    rng = np.random.default_rng(0)
    draws = np.array([dataset.draw(rng).values.ravel() for _ in range(20_000)])
    np.testing.assert_allclose(np.cov(draws.T), covariance(dataset), atol=0.12)  # standard errors are below 0.03
    np.testing.assert_allclose(draws.mean(axis=0), 0, atol=0.05)


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("nugget", [0.0, 0.3])
def test_the_posterior_is_the_conditional_distribution(noise, nugget):
    dataset = GaussianField(shape=(5, 4), lengths=(2.0, 1.5), variance=1.7, nugget=nugget, kernel="exponential")
    rng = np.random.default_rng(1)
    mask = rng.random(dataset.shape) < 0.4
    values = dataset.draw(rng).values + noise * rng.normal(size=dataset.shape)
    found = dataset.posterior(Observation(values, mask), noise)
    # The precision of the joint distribution of field and data, inverted: another way to the same.
    whole, seen = covariance(dataset), mask.ravel()
    select = np.eye(seen.size)[seen]
    gain = whole @ select.T @ np.linalg.inv(select @ whole @ select.T + noise**2 * np.eye(seen.sum()))
    expected = np.diag(whole - gain @ select @ whole)
    np.testing.assert_allclose(found.mean.ravel(), gain @ values[mask], atol=1e-7)
    np.testing.assert_allclose(found.deviation.ravel() ** 2, expected, atol=1e-7)


def given(dataset: GaussianField, noise: float) -> Kriging:
    nugget = noise**2 / dataset.variance
    return Kriging(kernel=dataset.kernel, lengths=dataset.lengths, nugget=nugget, variance=dataset.variance, mean=0.0)


@pytest.mark.parametrize("kernel", ["exponential", "matern-3/2"])
def test_kriging_with_the_covariance_given_is_the_posterior(kernel):
    dataset, noise = GaussianField(shape=(8, 7, 3), lengths=(3.0, 2.0, 1.0), kernel=kernel, variance=4.0), 0.4
    rng = np.random.default_rng(2)
    values = dataset.draw(rng).values + noise * rng.normal(size=dataset.shape)
    observation = Observation(values, rng.random(dataset.shape) < 0.3)
    made = given(dataset, noise).complete(observation)
    exact = dataset.posterior(observation, noise)
    np.testing.assert_allclose(made.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(made.deviation, exact.deviation, atol=1e-8)


@pytest.fixture(scope="module")
def trials():
    """Scores of 50 fields by the posterior, by one that is too sure and by one that is too unsure."""
    dataset, noise, rng = GaussianField(shape=(12, 12, 4), lengths=(3.0,)), 0.2, np.random.default_rng(3)
    metrics = Registry().metrics()
    found = {0.5: [], 1.0: [], 2.0: []}
    spreads, independent = [], []
    for _ in range(50):
        field = dataset.draw(rng)
        mask = rng.random(dataset.shape) < 0.2
        observation = Observation(field.values + noise * rng.normal(size=dataset.shape), mask)
        made = given(dataset, noise).complete(observation)
        for factor, listed in found.items():
            scores, errors = score_all(metrics, Estimate(made.mean, factor * made.deviation), field, mask)
            assert errors == {}
            listed.append(scores)
        unobserved = np.flatnonzero(~mask)
        spreads.append(made.deviation[~mask].mean())
        one = rng.choice(unobserved)  # one entry of a field, so that trials are independent of each other
        independent.append(abs(made.mean - field.values).ravel()[one] / made.deviation.ravel()[one])
    means = {factor: {name: np.mean([row[name] for row in rows]) for name in rows[0]} for factor, rows in found.items()}
    squares = np.mean([row["spread-skill"] ** -2 for row in found[1.0]])
    coverages = {name: np.array([row[name] for row in found[1.0]]) for name in means[1.0] if "coverage" in name}
    return means, np.mean(spreads), np.array(independent), squares, coverages


def test_the_posterior_covers_as_often_as_it_says_within_binomial_error(trials):
    _, _, independent, _, coverages = trials
    for level, quantile in ((0.5, 0.674490), (0.9, 1.644854), (0.95, 1.959964)):
        low, high = binom.interval(0.999, 50, level)
        assert low <= (independent <= quantile).sum() <= high
        # Entries of one field are correlated, so that the error of the mean is that of the spread over trials.
        shares = coverages[f"coverage{100 * level:.0f}"]
        low, high = t.interval(0.999, 49, shares.mean(), shares.std(ddof=1) / np.sqrt(50))
        assert low <= level <= high
        assert high - low < 0.06


def test_its_spread_is_its_error_and_its_crps_the_closed_form(trials):
    means, spread, _, squares, _ = trials
    assert squares == pytest.approx(1.0, abs=0.06)  # of variances: twice that of deviations, which is 3 %
    assert means[1.0]["crps"] == pytest.approx(spread / np.sqrt(np.pi), rel=0.03)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_every_score_sees_a_deviation_halved_or_doubled(trials, factor):
    means = trials[0]
    right, wrong = means[1.0], means[factor]
    assert wrong["crps"] > 1.05 * right["crps"]
    assert wrong["nll"] > right["nll"] + 0.1
    assert wrong["width90"] == pytest.approx(factor * right["width90"])
    assert wrong["spread-skill"] == pytest.approx(factor * right["spread-skill"])
    for name, level in (("coverage50", 0.5), ("coverage90", 0.9), ("coverage95", 0.95)):
        assert abs(wrong[name] - level) > abs(right[name] - level) + 0.02
    for name in ("rmse", "mae", "resolution.x"):
        assert wrong[name] == right[name]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"shape": (5, 5), "lengths": (1.0, 2.0, 3.0)}, "1 or 2 positive"), ({"shape": (9,)}, "at least 2")],
)
def test_what_makes_no_field_is_refused(parameters, words):
    with pytest.raises(ValueError, match=words):
        GaussianField(**parameters)


def test_a_covariance_is_given_whole():
    with pytest.raises(ValueError, match="give lengths as well"):
        Kriging(nugget=0.1)
    observation = Observation(np.arange(12.0).reshape(3, 4), np.arange(12).reshape(3, 4) % 5 > 0)
    with pytest.raises(RequestError, match="give 1 or 2"):
        Kriging(lengths=(1.0, 2.0, 3.0)).complete(observation)
