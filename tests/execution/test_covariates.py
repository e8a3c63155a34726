"""What a dataset knows beside its field, on its way to a method."""

from __future__ import annotations

import numpy as np

import fieldbench
from fieldbench.registry import Registry


class Coast(fieldbench.Dataset):
    """Noise over a sea floor."""

    name = "coast"
    revision = "1"

    def draw(self, rng):
        depth = np.linspace(1.0, 9.0, 5)
        about = {"covariates": {"depth": depth, "level": np.ones((4, 5))}, "metadata": {"noise_deviation": 0.25}}
        return fieldbench.Field(rng.normal(size=(4, 5)) + depth, quantity="height", **about)


class Reads(fieldbench.Method):
    """The depth, if it is there, and the deviation of the noise as its own."""

    name = "reads"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        assert list(observation.covariates) == ["depth", "level"]
        mean = observation.covariates["depth"] * observation.covariates["level"]
        return fieldbench.Estimate(mean, np.full(mean.shape, observation.noise_deviation))


def test_covariates_and_the_level_of_the_noise_reach_a_method() -> None:
    rows = fieldbench.run([Reads], [Coast], rates=0.3, trials=2, out=False, jobs=1, progress=False).frame()
    assert (rows["status"] == "ok").all(), rows["error"].tolist()
    assert (rows["rmse"] < 2).all()
    assert (rows["crps"] > 0).all()


def test_slices_hand_on_their_part_of_a_covariate() -> None:
    depth = np.arange(24.0).reshape(2, 3, 4)
    mask = np.ones((2, 3, 4), dtype=bool)
    observation = fieldbench.Observation(depth, mask, covariates={"depth": depth, "level": 1.0 + 0 * depth},
                                         metadata={"noise_deviation": 0.25})  # fmt: skip
    made = fieldbench.as_estimate((Reads() + Registry().modifier("slices[axis=1]")).complete(observation))
    np.testing.assert_array_equal(made.mean, depth)
