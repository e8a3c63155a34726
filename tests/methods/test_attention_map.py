"""The attention map that is drawn is the one behind the estimate."""

from __future__ import annotations

import numpy as np
import pytest

import fieldbench
from fieldbench.report.figures.attention import Attentive
from fieldbench_methods.fieldformer.methods import MHTAP, TAP


class Listening:
    """Keeps what is reported at the last step."""

    support = -1.0

    def due(self, step: int) -> bool:
        return step == 4

    def __call__(self, step: int, estimate: object, **diagnostics: float) -> None:
        self.support = diagnostics["support"]


@pytest.fixture(scope="module")
def observation() -> fieldbench.Observation:
    rng = np.random.default_rng(1000)
    mask = rng.random((8, 9, 7)) < 0.4
    return fieldbench.Observation(np.where(mask, rng.standard_normal(mask.shape), np.nan), mask)


@pytest.mark.parametrize(("method", "heads"), [(TAP(epochs=4), 1), (MHTAP(epochs=4, heads=(2, 1, 1)), 2)])
def test_rows_are_weights_and_as_sparse_as_the_core(
    method: TAP | MHTAP, heads: int, observation: fieldbench.Observation
) -> None:
    assert isinstance(method, Attentive)
    report = Listening()
    method.complete(observation, seed=7, device="cpu", report=report)
    weights = np.asarray(method.attention(observation, seed=7, device="cpu"))
    cubes = method.geometry(observation.shape).cubes
    assert weights.shape == (cubes, heads * cubes)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)  # SparseMax once over all heads
    assert (weights != 0).mean() == pytest.approx(report.support)
