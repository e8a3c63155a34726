"""Fields of a trial: what is kept is what was computed, and what is not kept is computed again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fieldbench
from fieldbench import Estimate, reconstructions
from fieldbench.errors import RequestError
from fieldbench.execution import Options, Stop, again, execute
from fieldbench.metric import RMSE, score_one
from fieldbench.plan import Plan, Request
from fieldbench.registry import Registry, Sources
from fieldbench.store.files import StorageError
from tests.here import keeping, run


class Island(fieldbench.Dataset):
    """A field with land in it."""

    name = "island"
    revision = "1"

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        valid = np.ones((4, 5, 3), dtype=bool)
        valid[1:3, 2, :] = False
        values = np.where(valid, rng.random((4, 5, 3)) + 1, np.nan)
        axes = (
            fieldbench.Axis.regular("x", 4, 8.0, "km"),
            fieldbench.Axis.regular("y", 5, 8.0, "km"),
            fieldbench.Axis("depth", np.array([0.0, 10.0, 50.0]), "m"),
        )
        return fieldbench.Field(values, axes, unit="m/s", quantity="sound speed", valid=valid, log_floor=1e-3)


@pytest.fixture(scope="module")
def plan() -> Plan:
    registry = Registry(Sources(classes=(Island,)))
    return Plan(Request(methods="nearest", datasets="island", rates=0.3, noises="gaussian[sigma=0.1]"), registry)


@pytest.mark.parametrize("distribution", ["normal", "lognormal"])
def test_all_that_an_estimate_says_of_its_uncertainty_is_kept(tmp_path: Path, distribution: Any) -> None:
    rng, shape = np.random.default_rng(0), (3, 4)
    mean, valid = rng.random(shape) + 1, rng.random(shape) < 0.8
    members, quantiles = np.stack([mean, mean + 1, mean + 2]), {0.05: mean - 1, 0.95: mean + 1}
    made = Estimate(mean, rng.random(shape), members, quantiles, distribution, 0.5).checked(valid)
    field, observation = fieldbench.Field(mean, valid=valid), fieldbench.Observation(mean, valid, valid=valid)
    path = reconstructions.save(tmp_path, "a-key", reconstructions.Reconstruction(field, observation, made))
    kept = reconstructions.load(path).made
    assert (kept.distribution, kept.floor) == (distribution, 0.5)
    for name in ("mean", "deviation", "members"):
        np.testing.assert_allclose(getattr(kept, name), getattr(made, name), rtol=1e-6)
    assert kept.quantiles is not None
    assert kept.quantiles.keys() == {0.05, 0.95}
    np.testing.assert_allclose(kept.quantiles[0.95], mean + 1, rtol=1e-6)
    np.testing.assert_allclose(kept.interval(0.9), made.interval(0.9), rtol=1e-5)
    np.testing.assert_allclose(kept.interval(0.5), made.interval(0.5), rtol=1e-5)


def test_what_is_kept_is_what_was_scored(plan: Plan, tmp_path: Path) -> None:
    registry = Registry(Sources(classes=(Island,)))
    trial = next(iter(plan))
    (record,) = run([trial], registry, keep=keeping(tmp_path))
    kept = reconstructions.find(tmp_path, trial.key)
    assert kept is not None
    valid = kept.truth.valid
    assert valid.sum() == 4 * 5 * 3 - 6
    assert score_one(RMSE(), kept.made, kept.truth, valid, valid) == pytest.approx(record.metrics["rmse"], rel=1e-6)
    assert kept.observation.mask.sum() == record.diagnostics["observed"]
    assert [(axis.name, axis.unit) for axis in kept.truth.axes] == [("x", "km"), ("y", "km"), ("depth", "m")]
    assert list(kept.truth.axes[2].coordinates) == [0, 10, 50]
    assert (kept.truth.unit, kept.truth.quantity, kept.truth.log_floor) == ("m/s", "sound speed", 1e-3)
    assert np.isnan(kept.error[~valid]).all()
    assert np.isfinite(kept.error[valid]).all()


def test_recomputed_is_the_same_as_kept_and_is_kept_then(plan: Plan, tmp_path: Path) -> None:
    registry = Registry(Sources(classes=(Island,)))
    trial = list(plan)[1]
    run([trial], registry, keep=keeping(tmp_path / "first"))
    kept = reconstructions.find(tmp_path / "first", trial.key)
    second = again.reconstruction(tmp_path / "second", trial, lambda: registry)
    assert kept is not None
    np.testing.assert_allclose(second.estimate, kept.estimate, rtol=1e-6)

    def unneeded() -> Registry:
        raise AssertionError("it is kept now")

    third = again.reconstruction(tmp_path / "second", trial, unneeded)
    np.testing.assert_array_equal(third.estimate, kept.estimate)


def test_what_single_precision_cannot_hold_stays_finite(tmp_path: Path) -> None:
    values = np.array([[1.0, -1e200], [3e300, 2.0]])
    truth = fieldbench.Field(values)
    observation = fieldbench.Observation(values, np.ones((2, 2), dtype=bool), truth.axes)
    reconstructions.save(
        tmp_path / "fields", "k", reconstructions.Reconstruction(truth, observation, Estimate(2 * values))
    )
    kept = reconstructions.find(tmp_path, "k")
    assert kept is not None
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(kept.truth.values, [[1, -largest], [largest, 2]])
    np.testing.assert_array_equal(kept.estimate, [[2, -largest], [largest, 4]])
    assert kept.observation.mask.all()


def test_what_version_0_1_0_kept_is_read(plan: Plan, tmp_path: Path) -> None:
    trial = next(iter(plan))
    run([trial], Registry(Sources(classes=(Island,))), keep=keeping(tmp_path))
    before = reconstructions.find(tmp_path, trial.key)
    (file,) = tmp_path.rglob("*.npz")
    with np.load(file) as stored:
        arrays = {{"valid": "existing"}.get(name, name): stored[name] for name in stored.files}
    np.savez(file, **{name: array for name, array in arrays.items() if name not in ("distribution", "floor")})
    after = reconstructions.find(tmp_path, trial.key)
    assert before is not None
    assert after is not None
    assert np.array_equal(after.truth.valid, before.truth.valid)
    assert np.array_equal(after.estimate, before.estimate, equal_nan=True)


def test_other_plugins_than_the_trial_s_are_refused(plan: Plan) -> None:
    trial = replace(next(iter(plan)), identity="0123456789abcdef")
    with pytest.raises(RequestError, match="have changed since"):
        again.recompute(trial, Registry(Sources(classes=(Island,))))


@pytest.mark.parametrize("content", [b"not this", b"PK\x03\x04 cut short"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fields").mkdir()
    (tmp_path / "fields" / "abc.npz").write_bytes(content)
    with pytest.raises(RequestError, match=r"abc\.npz holds no kept fields"):
        reconstructions.find(tmp_path, "abc")


def test_a_full_disk_leaves_no_half_file_and_the_trial_undone(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    options = Options(device="cpu", jobs=1, save_fields=str(tmp_path))
    with pytest.raises(StorageError, match="No space left"):
        next(execute(iter(plan), Sources(classes=(Island,)), options, Stop()))
    assert list((tmp_path / "fields").iterdir()) == []
