"""One known answer for every noise, sampler, metric and dataset that comes with fieldbench.

The answers are from mathematics or the paper: a law of probability, every outcome being as likely, an arithmetic that
can be done by hand. A plugin without one fails here.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.io import savemat

from fieldbench.errors import DataUnavailable, RequestError
from fieldbench.estimate import Estimate
from fieldbench.field import Axis, Field
from fieldbench.registry import Registry, Sources
from fieldbench_datasets import ssf as ssf_module
from fieldbench_datasets.download import PublishedFile
from fieldbench_datasets.propagation import crossings

REGISTRY = Registry(Sources())
KINDS = ("noise", "sampler", "metric", "dataset")
BUILT_IN = [
    (kind, name)
    for kind in KINDS
    for name, entry in sorted(REGISTRY.entries(kind).items())
    if entry.source.label == "fieldbench-completion"
]
#: Published files, in a folder beside the repository.
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"

ANSWERS: dict[tuple[str, str], Callable[..., None]] = {}

#: A right program fails a test of chance less than once in this many runs; seeds are fixed, so it does not at all.
LEAST_P = 1e-4


def answer(kind: str, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(check: Callable[..., None]) -> Callable[..., None]:
        ANSWERS[kind, name] = check
        return check

    return register


def test_there_are_built_in_plugins_to_ask() -> None:
    assert {kind for kind, _ in BUILT_IN} == set(KINDS)


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_it_gives_the_known_answer(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (kind, name) in ANSWERS, f"write the known answer of the {kind} {name} here"
    if (kind, name) == ("dataset", "ssf"):
        publish(tmp_path, monkeypatch)
    elif kind == "dataset" and BESIDE.is_dir():
        monkeypatch.setenv("FIELDBENCH_DATA", os.environ.get("FIELDBENCH_DATA", str(BESIDE)))
    ANSWERS[kind, name](tmp_path)


def rng(seed: int = 1000) -> np.random.Generator:
    return np.random.default_rng(seed)


# Noises: their law, its scale, and that entries are independent.


def follows(text: str, law: Any) -> None:
    noise = REGISTRY.noise(text).draw((40, 50, 20), rng())
    assert noise.shape == (40, 50, 20)
    assert stats.kstest(noise.ravel(), law.cdf).pvalue > LEAST_P
    assert noise.std() == pytest.approx(0.7, rel=0.02)
    for axis in range(3):
        one, next_one = np.moveaxis(noise, axis, 0)[:-1].ravel(), np.moveaxis(noise, axis, 0)[1:].ravel()
        assert stats.pearsonr(one, next_one).pvalue > LEAST_P


@answer("noise", "none")
def none(folder: Path) -> None:
    assert not REGISTRY.noise("none").draw((3, 4), rng()).any()


@answer("noise", "gaussian")
def gaussian(folder: Path) -> None:
    follows("gaussian[sigma=0.7]", stats.norm(scale=0.7))


@answer("noise", "laplacian")
def laplacian(folder: Path) -> None:
    """A Laplace law of scale b has the variance 2 b^2, and sigma is the standard deviation."""
    follows("laplacian[sigma=0.7]", stats.laplace(scale=0.7 / np.sqrt(2)))


# Samplers: every outcome that the rule allows is as likely as any other.


def outcomes(text: str, shape: tuple[int, ...], rate: float, draws: int = 3000) -> Counter[bytes]:
    sampler, generator = REGISTRY.sampler(text), rng()
    axes = tuple(Axis.regular(name, size) for name, size in zip("xyz", shape, strict=False))
    valid = np.ones(shape, dtype=bool)
    return Counter(sampler.draw(valid, axes, rate, generator).tobytes() for _ in range(draws))


def are_as_likely(found: Counter[bytes], expected: list[np.ndarray]) -> None:
    assert set(found) == {mask.tobytes() for mask in expected}
    assert stats.chisquare(list(found.values())).pvalue > LEAST_P


def subsets(size: int, count: int) -> list[np.ndarray]:
    return [np.isin(np.arange(size), chosen) for chosen in itertools.combinations(range(size), count)]


@answer("sampler", "random")
def random(folder: Path) -> None:
    are_as_likely(outcomes("random", (2, 3), 1 / 3), [mask.reshape(2, 3) for mask in subsets(6, 2)])
    sizes = Counter(
        sum(np.frombuffer(mask, bool)) for mask in outcomes("random[count=bernoulli]", (2, 3), 0.4).elements()
    )
    expected = 3000 * stats.binom.pmf(np.arange(7), 6, 0.4)
    assert stats.chisquare([sizes[count] for count in range(7)], expected).pvalue > LEAST_P


@answer("sampler", "fibers")
def fibers(folder: Path) -> None:
    whole = [np.repeat(mask.reshape(2, 2, 1), 3, axis=2) for mask in subsets(4, 2)]
    are_as_likely(outcomes("fibers", (2, 2, 3), 0.5), whole)


@answer("sampler", "blocks")
def blocks(folder: Path) -> None:
    """A quarter of a 4 x 6 field is missing: half of each edge, at any of 3 x 4 positions."""
    expected = []
    for row, column in itertools.product(range(3), range(4)):
        mask = np.ones((4, 6), dtype=bool)
        mask[row : row + 2, column : column + 3] = False
        expected.append(mask)
    are_as_likely(outcomes("blocks", (4, 6), 0.75), expected)


@answer("sampler", "points")
def points(folder: Path) -> None:
    """Three sensors that measure all of the third axis; the rate takes two of them."""
    (folder / "sensors.csv").write_text("x,y\n0,0\n1.4,2.2\n2,1\n")
    expected = []
    for left_out in range(3):
        mask = np.zeros((3, 3, 2), dtype=bool)
        for position in np.delete([(0, 0), (1, 2), (2, 1)], left_out, axis=0):
            mask[tuple(position)] = True
        expected.append(mask)
    are_as_likely(outcomes(f"points[path={folder / 'sensors.csv'}]", (3, 3, 2), 2 / 9), expected)


@answer("sampler", "tracks")
def tracks(folder: Path) -> None:
    """A vehicle that never turns leaves a straight line: in 2-D, steps of length 1 at one angle, rounded.

    It starts anywhere with equal chance, which the single position of a mask with one entry shows.
    """
    starts = outcomes("tracks[vehicles=1]", (4, 3), 1 / 12)
    are_as_likely(starts, [mask.reshape(4, 3) for mask in subsets(12, 1)])
    sampler, shape = REGISTRY.sampler("tracks[vehicles=1,turn=0,slope=0.5]"), (41, 41, 21)
    axes = tuple(Axis.regular(name, size) for name, size in zip("xyz", shape, strict=True))
    for seed in range(20):
        mask = sampler.draw(np.ones(shape, dtype=bool), axes, 5 / np.prod(shape), rng(seed))
        assert mask.sum() == 5
        x, y, depth = np.argwhere(mask).T
        steps = np.hypot(np.ptp(x), np.ptp(y))
        if depth.min() >= 1 and depth.max() < 19 and min(x.min(), y.min()) >= 1 and max(x.max(), y.max()) < 39:
            assert steps == pytest.approx(4, abs=1.5), "four steps of length 1, between rounded ends"
            assert np.ptp(depth) == 2, "half a step down or up for each"


@answer("sampler", "clouds")
def clouds(folder: Path) -> None:
    """Of three pictures that leave a share 1/4, 1/2 and 3/4 visible, each is as likely at the rate of their mean."""
    pictures = np.ones((3, 2, 2))
    for number, covered in enumerate([[(0, 0), (0, 1), (1, 0)], [(0, 0), (1, 1)], [(1, 1)]]):
        pictures[number][tuple(zip(*covered, strict=True))] = np.nan
    np.save(folder / "clouds.npy", pictures.transpose(1, 2, 0))
    shown = list(np.isfinite(pictures))
    with pytest.raises(RequestError, match="has no clouds"):
        outcomes("clouds", (2, 2), 0.5)
    found = outcomes(f"clouds[path={folder / 'clouds.npy'}]", (2, 2), 0.5)
    are_as_likely(found, shown)
    # With the ratio r of neighbouring chances the mean is (1 + 2 r + 3 r^2) / 4 (1 + r + r^2); here it is 0.6.
    ratio = max(np.roots([3 / 4 - 0.6, 2 / 4 - 0.6, 1 / 4 - 0.6]))
    clearer = outcomes(f"clouds[path={folder / 'clouds.npy'}]", (2, 2), 0.6)
    counts = [clearer[mask.tobytes()] for mask in shown]
    expected = 3000 * ratio ** np.arange(3) / (1 + ratio + ratio**2)
    assert stats.chisquare(counts, expected).pvalue > LEAST_P


@answer("sampler", "stations")
def stations(folder: Path) -> None:
    """Two of four positions, at all times; time is the last axis, or the one of that name."""
    whole = [np.repeat(mask.reshape(2, 2, 1), 3, axis=2) for mask in subsets(4, 2)]
    are_as_likely(outcomes("stations", (2, 2, 3), 0.5), whole)
    axes = (Axis.regular("time", 3), Axis.regular("x", 2), Axis.regular("y", 2))
    mask = REGISTRY.sampler("stations").draw(np.ones((3, 2, 2), dtype=bool), axes, 0.5, rng())
    assert (mask == mask[0]).all()
    assert mask[0].sum() == 2


@answer("sampler", "drifters")
def drifters(folder: Path) -> None:
    """Every position and time is as likely a start; the spread grows by Taylor's law (1921), here in discrete time."""
    starts = outcomes("drifters", (2, 3, 2), 1 / 12)
    are_as_likely(starts, [mask.reshape(2, 3, 2) for mask in subsets(12, 1)])
    drifting, generator = REGISTRY.sampler("drifters[speed=0.5,memory=3]"), rng()
    paths = np.array([drifting.displacements(11, generator) for _ in range(4000)])
    lags = np.arange(10)[:, np.newaxis] - np.arange(10)
    expected = 0.25 * np.exp(-np.abs(lags) / 3).sum()
    scaled = (paths[:, 10] ** 2).sum(axis=1) / expected
    assert stats.kstest(scaled, stats.chi2(2).cdf).pvalue > LEAST_P


@answer("sampler", "swaths")
def swaths(folder: Path) -> None:
    """Over the poles, so low that the earth does not turn meanwhile, a pass is a meridian, and each is as likely."""
    axes = (Axis.regular("lat", 3, 1e-4, "degrees_north"), Axis.regular("lon", 4, 5.0, "degrees_east"))
    sampler = REGISTRY.sampler("swaths[inclination=90,revolutions=14,repeat=1]")
    generator, valid = rng(), np.ones((3, 4), dtype=bool)
    found = Counter(sampler.draw(valid, axes, 0.25, generator).tobytes() for _ in range(400))
    are_as_likely(found, [np.arange(12).reshape(3, 4) % 4 == column for column in range(4)])
    # By 14 revolutions a day the earth turns by 360/14 degrees in one, and by an eighth of that up to latitude 45.
    polar = REGISTRY.sampler("swaths[inclination=90,revolutions=14,repeat=1]")
    assert polar.ground_track(np.array([45.0]), True) == pytest.approx(-360 / 14 / 8)
    assert polar.ground_track(np.array([45.0]), False) == pytest.approx(360 / 14 / 8)
    # At its highest latitude, the inclination, a satellite is a quarter of the earth east of its node, less the turn.
    jason = REGISTRY.sampler("swaths")
    assert jason.ground_track(np.array([66.04]), True)[0] == pytest.approx(90 - 90 * 10 / 127)
    assert np.isnan(jason.ground_track(np.array([66.05]), True)[0])


# Metrics: by hand.


def scored(text: str, estimate: list[float], truth: list[float], **uncertainty: list[float]) -> Any:
    """A score at the entries of a field along one axis, none of them observed, three units apart."""
    field = Field(np.array(truth), (Axis("x", 3.0 * np.arange(len(truth)), "km"),))
    everywhere = np.ones(field.shape, dtype=bool)
    made = Estimate(estimate, **uncertainty).checked(everywhere)
    return REGISTRY.metric(text).score(made, field, everywhere, ~everywhere)


@answer("metric", "rmse")
def rmse(folder: Path) -> None:
    assert scored("rmse", [1, 3, 0], [1, 0, 4]) == pytest.approx(np.sqrt(25 / 3))


@answer("metric", "mae")
def mae(folder: Path) -> None:
    assert scored("mae", [1, 3, 0], [1, 0, 4]) == pytest.approx(7 / 3)


@answer("metric", "nmse")
def nmse(folder: Path) -> None:
    assert scored("nmse", [1, 3, 0], [1, 0, 4]) == pytest.approx(25 / 17)


@answer("metric", "slnre")
def slnre(folder: Path) -> None:
    """With a floor of 1, ln(truth + 1) is 1 and 2, and the estimate's 1.5 and 2: 100 x 0.25 / 5."""
    logarithms = np.array([1.5, 2.0]), np.array([1.0, 2.0])
    estimate, truth = (list(np.expm1(values)) for values in logarithms)
    assert scored("slnre[floor=1]", estimate, truth) == pytest.approx(5)


@answer("metric", "crps")
def crps(folder: Path) -> None:
    """Of a standard normal at its mean (sqrt(2) - 1) / sqrt(pi); without a deviation the mean absolute error."""
    assert scored("crps", [0], [0], deviation=[1]) == pytest.approx((np.sqrt(2) - 1) / np.sqrt(np.pi))
    assert scored("crps", [1, 3, 0], [1, 0, 4]) == pytest.approx(7 / 3)


def covered(text: str, share: float) -> None:
    """Of errors of 0.6, 0.7, 1.6, 1.7, 1.9 and 2.0 deviations."""
    truth = [0.6, -0.7, 1.6, -1.7, 1.9, -2.0]
    assert scored(text, [0] * 6, truth, deviation=[1] * 6) == pytest.approx(share)
    assert scored(text, [0] * 6, truth) is None


@answer("metric", "coverage50")
def coverage50(folder: Path) -> None:
    covered("coverage50", 1 / 6)  # 0.674 deviations


@answer("metric", "coverage90")
def coverage90(folder: Path) -> None:
    covered("coverage90", 3 / 6)  # 1.645 deviations


@answer("metric", "coverage95")
def coverage95(folder: Path) -> None:
    covered("coverage95", 5 / 6)  # 1.960 deviations


@answer("metric", "width90")
def width90(folder: Path) -> None:
    assert scored("width90", [0, 0], [9, 9], deviation=[1, 3]) == pytest.approx(4 * stats.norm.ppf(0.95))


@answer("metric", "spread-skill")
def spread_skill(folder: Path) -> None:
    """Mean variance (9 + 16) / 2 and mean squared error (1 + 49) / 2."""
    assert scored("spread-skill", [0, 0], [1, 7], deviation=[3, 4]) == pytest.approx(np.sqrt(1 / 2))


@answer("metric", "nll")
def nll(folder: Path) -> None:
    expected = -stats.norm.logpdf([2, 1], scale=[2, 1]).mean()
    assert scored("nll", [0, 0], [2, 1], deviation=[2, 1]) == pytest.approx(expected)


@answer("metric", "resolution")
def resolution(folder: Path) -> None:
    """An error of a tenth of the truth hides no wave, and one of all of it each: the ends of what 3 km can show."""
    truth = rng().normal(size=256).cumsum()
    near = scored("resolution", list(0.9 * truth), list(truth))
    assert near == {"x": 6.0, "x.finer": 1.0}
    far = scored("resolution", [0.0] * 256, list(truth))
    assert far["x.coarser"] == 1.0
    assert far["x"] > 6.0


# Datasets.


@answer("dataset", "gaussian-field")
def gaussian_field(folder: Path) -> None:
    """Values a length scale apart have the covariance 2 / e, and 2 at one position."""
    dataset = REGISTRY.dataset("gaussian-field[shape=2x1,kernel=exponential,lengths=(1,1),variance=2]")
    generator = rng()
    pairs = np.array([dataset.draw(generator).values.ravel() for _ in range(4000)])
    law = stats.multivariate_normal(cov=[[2, 2 / np.e], [2 / np.e, 2]])
    deepness = np.einsum("ni,ij,nj->n", pairs, np.linalg.inv(law.cov), pairs)
    assert stats.kstest(deepness, stats.chi2(2).cdf).pvalue > LEAST_P


@answer("dataset", "file")
def file(folder: Path) -> None:
    (folder / "field.csv").write_text("x,y,value\n0,0,1\n0,2,2\n5,0,3\n5,2,4\n")
    field = REGISTRY.dataset(f"file[path={folder / 'field.csv'},coordinates=(x,y),variable=value]").draw(rng())
    np.testing.assert_array_equal(field.values, [[1, 2], [3, 4]])
    assert [axis.coordinates.tolist() for axis in field.axes] == [[0, 5], [0, 2]]


def measured() -> tuple[np.ndarray, np.ndarray]:
    """Numbers in place of the published ones: an anomaly and a mean profile."""
    return rng().normal(size=(20, 20, 20)), np.broadcast_to(np.linspace(1534, 1523, 20), (20, 20, 20))


def publish(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these numbers, in place of the published ones."""
    monkeypatch.setenv("FIELDBENCH_DATA", str(folder))
    for name, variable, values in zip(("ANOMALY", "MEAN"), ("data", "data_mean"), measured(), strict=True):
        file = folder / f"{variable}.mat"
        savemat(file, {variable: values})
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        monkeypatch.setattr(ssf_module, name, PublishedFile(file.name, "https://example.org", digest))


@answer("dataset", "ssf")
def ssf(folder: Path) -> None:
    """The file's values in its order, 8 km, 8 km and 10 m apart; with ``mean`` the profile is added."""
    anomaly, profile = measured()
    field = REGISTRY.dataset("ssf").draw(rng())
    np.testing.assert_array_equal(field.values, anomaly)
    np.testing.assert_array_equal(REGISTRY.dataset("ssf[mean=true]").draw(rng()).values, anomaly + profile)
    assert [(axis.name, axis.unit, axis.spacing) for axis in field.axes] == [
        ("x", "km", 8.0), ("y", "km", 8.0), ("depth", "m", 10.0),
    ]  # fmt: skip


@answer("dataset", "ssf-synthetic")
def ssf_synthetic(folder: Path) -> None:
    """At rest it is Munk's profile below the mixed layer (Munk 1974), and the anomaly of that is nothing."""
    still = "shape=3x3x5,spacing=(8,8,700),eddies=0,internal_waves=0,surface_anomaly=0"
    field = REGISTRY.dataset(f"ssf-synthetic[mean=true,{still}]").draw(rng())
    eta = 2 * (np.arange(5) * 700.0 - 1300) / 1300
    munk = 1492 * (1 + 0.0074 * (eta - 1 + np.exp(-eta)))
    np.testing.assert_allclose(field.values[..., 1:], np.broadcast_to(munk[1:], (3, 3, 4)), atol=1e-6)
    np.testing.assert_allclose(REGISTRY.dataset(f"ssf-synthetic[{still}]").draw(rng()).values, 0, atol=1e-9)


def radio_map(text: str, emitters: int, eta: float) -> None:
    """The parameters of the paper, section V-B; rank R; and shadowing of eta dB, seen without path loss."""
    dataset = REGISTRY.dataset(text)
    found = dataset.parameters()
    assert (found["emitters"], found["eta"], found["decorrelation"]) == (emitters, eta, 50.0)
    assert (found["grid"], found["bins"]) == ((51, 51), 64)
    field = REGISTRY.dataset(f"{text}[grid=12x12]").draw(rng())
    assert field.shape == (12, 12, 64)
    assert np.linalg.matrix_rank(field.values.reshape(-1, 64)) == emitters
    assert (field.values >= 0).all()
    # Without path loss a map's decibels differ between two entries by the difference of two correlated normals.
    flat = REGISTRY.dataset(f"{text}[grid=12x12,decorrelation=5,flat_radius=100]")
    losses = np.concatenate([flat.factors(rng(seed))[0] for seed in range(300)])
    difference = np.diff(10 * np.log10(losses[:, [0, -1], [0, -1]]), axis=1).ravel()
    expected = eta * np.sqrt(2 * (1 - np.exp(-11 * np.sqrt(2) / 5)))
    assert stats.kstest(difference, stats.norm(scale=expected).cdf).pvalue > LEAST_P


@answer("dataset", "radiomap")
def radiomap(folder: Path) -> None:
    radio_map("radiomap", 7, 6.0)


@answer("dataset", "radiomap1")
def radiomap1(folder: Path) -> None:
    radio_map("radiomap1", 7, 6.0)


@answer("dataset", "radiomap2")
def radiomap2(folder: Path) -> None:
    radio_map("radiomap2", 10, 9.0)


@answer("dataset", "radiomap-walls")
def radiomap_walls(folder: Path) -> None:
    """Without walls it is radiomap; a wall between two halves takes its loss from all paths to the other half."""
    plain, walled = (REGISTRY.dataset(text).draw(rng()) for text in ("radiomap", "radiomap-walls[walls=0]"))
    np.testing.assert_array_equal(plain.values, walled.values)
    wall = np.array([[[-99.0, 4.5], [99.0, 4.5]], [[2.5, -99.0], [2.5, 99.0]]])
    expected = np.add.outer((np.arange(6) > 2).astype(float), (np.arange(8) > 4).astype(float))
    np.testing.assert_array_equal(crossings(np.array([[1.2, 0.3]]), wall, (6, 8)), [expected])


@answer("dataset", "fronts")
def fronts(folder: Path) -> None:
    """The mean stays as it is and no new extreme is made; half a turn of a row is the row half way round."""
    field = REGISTRY.dataset("fronts").draw(rng())
    np.testing.assert_allclose(field.values.mean(axis=(0, 1)), 0, atol=1e-12)
    highest, lowest = field.values.max(axis=(0, 1)), field.values.min(axis=(0, 1))
    assert (np.diff(highest) <= 0).all()
    assert (np.diff(lowest) >= 0).all()
    # A shear of whole grid steps: row y moves by 3 sin(2 pi (y + 1/4)/4 ...) = 3, 0, -3, 0 steps of 12 along x.
    dataset = REGISTRY.dataset("fronts[grid=12x4,stirring=0.25]")
    tracer = rng().normal(size=(12, 4))
    moved = np.stack([np.roll(tracer[:, y], shift) for y, shift in enumerate((3, 0, -3, 0))], axis=1)
    along_y = np.round(0.25 * 4 * np.sin(2 * np.pi * np.arange(12) / 12), 12)
    expected = np.array(
        [
            (1 - share) * np.roll(row, whole) + share * np.roll(row, whole + 1)
            for row, whole, share in zip(moved, np.floor(along_y).astype(int), along_y % 1, strict=True)
        ]
    )
    np.testing.assert_allclose(dataset.stirred(tracer, np.array([0.25, 0.0])), expected, atol=1e-10)


@answer("dataset", "plume")
def plume(folder: Path) -> None:
    """A puff keeps its mass, and its variance grows by twice diffusion x age; most of a field is zero."""
    dataset = REGISTRY.dataset("plume[grid=80x80,diffusion=0.5,size=2]")
    steps = np.arange(80)
    for age in (0.0, 5.0):
        made = dataset.puff(300.0, np.array([40.2, 39.5]), age)
        assert made.sum() == pytest.approx(300)
        along = made.sum(axis=1) / 300
        assert along @ steps == pytest.approx(40.2)
        assert along @ (steps - 40.2) ** 2 == pytest.approx(4 + age)
    values = np.array([REGISTRY.dataset("plume").draw(rng(seed)).values for seed in range(5)])
    assert (values == 0).mean() > 0.5
    assert values[values > 0].min() >= 1
    assert stats.kurtosis(values.ravel()) > 10, "heavy tails"


@answer("dataset", "seismic")
def seismic(folder: Path) -> None:
    """The wavelet is 1 at its peak and integrates to 0; at each frequency a plane wave is an outer product."""
    dataset = REGISTRY.dataset("seismic[samples=256,frequency=0.1,moveout=2,events=3]")
    assert dataset.wavelet(np.zeros(1)) == pytest.approx(1.0)
    assert dataset.wavelet(np.arange(-200.0, 200.0)).sum() == pytest.approx(0, abs=1e-12)
    slice_ = np.fft.rfft(dataset.draw(rng()).values, axis=-1)[..., 25]
    singular = np.linalg.svd(slice_, compute_uv=False)
    assert singular[2] > 1e-3 * singular[0]
    assert singular[3] < 1e-6 * singular[0]


@answer("dataset", "alboran-sst")
def alboran_sst(folder: Path) -> None:
    """121,224 of the entries were seen, says DINEOF's example, and other days' clouds keep the share of real ones."""
    field = of_shared("alboran-sst")
    assert field.shape == (10, 201, 301)
    assert field.valid.sum() == 121_224
    assert (field.values[field.valid] > 0).all()
    assert (field.values[field.valid] < 30).all()
    sea = field.valid.any(axis=0)
    clear = field.valid[:, sea].mean(axis=1)
    clouds = REGISTRY.sampler("clouds")
    thin = of_shared("alboran-sst[every=4]")
    shares = [clouds.draw(thin.valid, thin.axes, 0.5, rng(seed)).sum() / thin.valid.sum() for seed in range(30)]
    assert np.mean(shares) == pytest.approx(0.5, abs=4 * np.std(shares) / np.sqrt(30))
    assert clear.min() < np.mean(shares) < clear.max()


@answer("dataset", "era-winds")
def era_winds(folder: Path) -> None:
    """At 500 hPa, 5.5 km up, winds of middle latitudes are geostrophic: u = -(1/f) dz/dy."""
    u, z = of_shared("era-winds"), of_shared("era-winds[variable=z]")
    assert u.shape == (2, 3, 241, 480)
    level = u.axes[1].coordinates.tolist().index(500)
    latitude = np.radians(u.axes[2].coordinates)
    assert z.values[:, level].mean() / 9.81 == pytest.approx(5600, abs=200)
    middle = (np.degrees(latitude) > 30) & (np.degrees(latitude) < 60)
    slope = np.gradient(z.values[0, level], 6.371e6 * latitude, axis=0)[middle]
    geostrophic = -slope / (2 * 7.292e-5 * np.sin(latitude[middle]))[:, np.newaxis]
    assert np.corrcoef(geostrophic.ravel(), u.values[0, level][middle].ravel())[0, 1] > 0.95
    assert u.axes[3].period == 360


def of_shared(text: str) -> Field:
    """The field of a published file, if somebody has put it there."""
    dataset = REGISTRY.dataset(text)
    try:
        dataset.prepare()
    except DataUnavailable as error:
        pytest.skip(str(error))
    return dataset.draw(rng())
