"""Compiled code from numba's cache computes what it computed when it was compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

PROGRAM = """
import hashlib
import numpy as np
from fieldbench import Observation, NullReport
from fieldbench_methods.fieldformer import kernels
from fieldbench_methods.fieldformer.methods import MHTAP, TAP
from fieldbench_methods.tnn import TNN

generator = np.random.default_rng(0)
mask = generator.random((13, 12, 11)) < 0.3
observation = Observation(np.where(mask, generator.random(mask.shape), np.nan), mask)
for method in (TAP(epochs=5), MHTAP(epochs=5), TAP(epochs=5, activation="softmax"), TNN(epochs=5)):
    estimate = method.complete(observation, seed=1, device="cpu", report=NullReport())
    print(hashlib.sha256(estimate.tobytes()).hexdigest())
print("from the cache:", sum(kernels.sparse_rows.stats.cache_hits.values()))
"""


def test_the_second_run_on_a_machine_gives_the_bits_of_the_first(tmp_path):
    def run():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    *first, compiled = run()
    *second, loaded = run()
    assert (compiled, loaded) == ("from the cache: 0", "from the cache: 1")
    assert second == first
    assert len(set(first)) == 4
