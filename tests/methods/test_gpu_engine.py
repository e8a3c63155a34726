"""The fused rows and the recorded step of the GPU engine compute what the plain network defines.

Where there is no GPU, Triton's interpreter can run the rows on the CPU: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from fieldbench_methods.fieldformer.design import Schedule
from fieldbench_methods.fieldformer.fit import fit, fit_fast, fit_on_gpu, fit_plain
from fieldbench_methods.fieldformer.methods import MHTAP, TAP
from fieldbench_methods.fieldformer.network import TensorAttention
from fieldbench_methods.self_supervised import Smoothness
from fieldbench_methods.tnn import TNN
from fieldbench_methods.tnn.fit import fit as fit_tnn
from fieldbench_methods.tnn.fit import fit_plain as fit_plain_tnn
from tests.methods.test_engine import SHAPE, agree, problem_of

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda:0" if ON_GPU else "cpu"
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="there is no GPU that torch could use")

METHODS = {
    "tap": TAP(window=3, stride=2),
    "mhtap": MHTAP(window=4, stride=2),
    "softmax": MHTAP(window=4, stride=2, activation="softmax"),
    "without dropout": TAP(window=3, stride=2, dropout=0, core_dropout=0),
    "negative threshold": TAP(window=3, stride=2, score_scale=0.01),
}


@pytest.fixture
def fused():
    pytest.importorskip("triton")
    if not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("there is no GPU, and TRITON_INTERPRET is not 1")
    from fieldbench_methods.fieldformer.gpu_network import FusedTensorAttention

    return FusedTensorAttention


@pytest.mark.parametrize("step", [None, 0, 3])
@pytest.mark.parametrize("case", METHODS)
def test_fused_rows_are_those_of_the_plain_network(fused, case, step):
    design = METHODS[case].design(SHAPE)
    problems = [problem_of(SHAPE, seed) for seed in (1, 2)]
    cubes = torch.from_numpy(np.stack([METHODS[case]._cubes(design.geometry, one) for one in problems])).to(DEVICE)
    step_tensor = None if step is None else torch.tensor([step], device=DEVICE)
    outcomes = []
    for network in (TensorAttention, fused):
        weights = [
            torch.from_numpy(np.stack(pair)).to(DEVICE).requires_grad_()
            for pair in zip(design.initial(1), design.initial(2), strict=True)
        ]
        field, support = network(design, cubes, [1, 2], epochs=5)(weights, step_tensor)
        gradients = torch.autograd.grad((field * torch.linspace(-1, 1, field.numel(), device=DEVICE).reshape(
            field.shape)).sum(), weights)  # fmt: skip
        outcomes.append([array.detach().cpu().numpy() for array in (field, *gradients)])
        assert (support is None) == (step is not None)
        if support is not None:
            outcomes[-1].append(support.cpu().numpy())
    agree(outcomes[1], outcomes[0])


@needs_gpu
@pytest.mark.parametrize("smoothness", [None, Smoothness("second-order", (0, 1), 0.3)], ids=["bare", "tv"])
@pytest.mark.parametrize("case", ["tap", "mhtap"])
def test_a_recorded_training_is_that_of_the_cpu(case, smoothness):
    method = METHODS[case]
    design, problems = method.design(SHAPE), [problem_of(SHAPE, seed, smoothness) for seed in (1, 2, 3)]
    cubes = [method._cubes(design.geometry, problem) for problem in problems]
    schedule = Schedule(6, 4e-3, 0.01)
    together = fit_on_gpu(design, cubes, problems, schedule, DEVICE)
    for estimate, plain, one, problem in zip(
        together, fit_plain(design, cubes, problems, schedule, DEVICE), cubes, problems, strict=True
    ):
        # Six updates of Adam move an estimate by about 0.05; single precision leaves some 1e-6 between them.
        np.testing.assert_allclose(estimate, plain, atol=2e-5)
        np.testing.assert_allclose(estimate, fit_fast(design, one, problem, schedule), atol=2e-5)
        assert np.abs(estimate).max() > 1e-3


@needs_gpu
def test_softmax_is_recorded_too():
    method = TAP(window=3, stride=2, activation="softmax")
    design, problem = method.design(SHAPE), problem_of(SHAPE)
    cubes, schedule = [method._cubes(design.geometry, problem)], Schedule(6, 4e-3, 0.01)
    np.testing.assert_allclose(
        fit(design, cubes, [problem], schedule, DEVICE), fit_plain(design, cubes, [problem], schedule, "cpu"), atol=2e-5
    )


@needs_gpu
def test_a_recorded_tensor_network_is_that_of_the_cpu():
    network, problems = TNN().network(SHAPE), [problem_of(SHAPE, seed) for seed in (1, 2)]
    schedule = Schedule(6, 4e-3, 0.01)
    np.testing.assert_allclose(
        fit_tnn(network, network.uniform, problems, schedule, DEVICE),
        fit_plain_tnn(network, network.uniform, problems, schedule, "cpu"),
        atol=2e-5,
    )


@needs_gpu
@pytest.mark.parametrize("method", [TAP(), MHTAP()])
def test_companions_do_not_matter(method):
    shape = (20, 20, 20)
    design, problems = method.design(shape), [problem_of(shape, seed) for seed in range(4)]
    cubes = [method._cubes(design.geometry, problem) for problem in problems]
    schedule = Schedule(50, 4e-3, 0.01)
    together = fit_on_gpu(design, cubes, problems, schedule, DEVICE)
    (alone,) = fit_on_gpu(design, cubes[2:3], problems[2:3], schedule, DEVICE)
    np.testing.assert_allclose(together[2], alone, atol=1e-3)
