"""The autoencoder: its size, its rearranged layers, its weights in files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from fieldbench import RequestError
from fieldbench_methods.cartography import weight_files
from fieldbench_methods.cartography.autoencoder import Autoencoder, initialised
from fieldbench_methods.cartography.layers import Doubling, FewChannels, FromPoint, WholeInput

RELEASED_PARAMETERS = 936_631


def test_parameter_count_is_the_published_one() -> None:
    assert sum(parameter.numel() for parameter in Autoencoder().parameters()) == RELEASED_PARAMETERS


def test_widths_are_the_published_ones() -> None:
    network, widths = Autoencoder().eval(), []
    stage = torch.zeros(2, 2, 51, 51)
    for layer in [*network.encoder, *network.decoder]:
        stage = layer(stage)
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            widths.append(tuple(stage.shape[1:3]))
    assert widths == [
        (16, 25), (32, 12), (64, 6), (128, 3), (256, 1),
        (128, 3), (64, 6), (32, 12), (16, 26), (2, 54), (1, 51),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (WholeInput(6, 5, 3, bias=False), (3, 6, 3, 3)),
        (FromPoint(6, 5, 3), (3, 6, 1, 1)),
        (Doubling(5, 2, 4, stride=2), (3, 5, 7, 7)),
        (FewChannels(2, 1, 4), (3, 2, 14, 14)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rearranged_layers_are_torchs_own(layer: nn.Module, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(5)
    layer = layer.double()
    source = torch.randn(shape, generator=generator, dtype=torch.float64)
    upstream = None
    results = []
    for forward in (type(layer).forward, type(layer).__mro__[1].forward):
        layer.zero_grad()
        entry = source.clone().requires_grad_(True)
        output = forward(layer, entry)
        if upstream is None:
            upstream = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        output.backward(upstream)
        results.append([output.detach(), entry.grad, *(parameter.grad.clone() for parameter in layer.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_unobserved_values_are_not_looked_at() -> None:
    network = initialised(1).eval()
    mask = torch.zeros(2, 51, 51, dtype=torch.bool)
    mask[:, ::5, ::7] = True
    values = torch.rand(2, 51, 51, generator=torch.Generator().manual_seed(2)) / 51
    unobserved = torch.where(mask, values, torch.nan)
    torch.testing.assert_close(network(mask, values), network(mask, unobserved), rtol=0, atol=0)


def test_initial_weights_follow_from_the_seed_alone() -> None:
    state = torch.random.get_rng_state()
    first, again, other = initialised(3), initialised(3), initialised(4)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.encoder[2].weight, again.encoder[2].weight)
    assert not torch.equal(first.encoder[2].weight, other.encoder[2].weight)


def test_weights_survive_the_file(tmp_path: Path) -> None:
    network = initialised(6).eval()
    weight_files.save(network, tmp_path / "w.safetensors")
    loaded = weight_files.load(tmp_path / "w.safetensors")
    assert not loaded.training
    for name, tensor in network.state_dict().items():
        tolerance = 2.0**-10 if tensor.ndim > 1 else 0.0  # half precision has 11 significant bits
        torch.testing.assert_close(loaded.state_dict()[name], tensor, rtol=tolerance, atol=1e-7 if tolerance else 0)


class _Payload:
    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.witness),)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    evil, witness = tmp_path / "evil.pt", tmp_path / "executed"
    evil.write_bytes(pickle.dumps({"model_state_dict": _Payload(witness)}))
    with pytest.raises(RequestError, match="loaded safely"):
        weight_files.load(evil)
    torch.save({"model_state_dict": _Payload(witness)}, evil)
    with pytest.raises(RequestError, match="loaded safely"):
        weight_files.load(evil)
    assert not witness.exists()


@pytest.mark.parametrize("content", [b"", b"not weights at all", b"\x08\x00\x00\x00\x00\x00\x00\x00{broken}"])
@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
def test_a_file_that_is_no_weights_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=name):
        weight_files.load(tmp_path / name)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    state = {key: value for key, value in Autoencoder().state_dict().items() if not key.endswith("num_batches_tracked")}
    save_file({**state, "encoder.0.weight": torch.zeros(8, 2, 4, 4)}, tmp_path / "small.safetensors")
    with pytest.raises(RequestError, match=r"encoder\.0\.weight"):
        weight_files.load(tmp_path / "small.safetensors")
    del state["decoder.16.bias"]
    save_file(state, tmp_path / "less.safetensors")
    with pytest.raises(RequestError, match=r"decoder\.16\.bias"):
        weight_files.load(tmp_path / "less.safetensors")


def test_the_released_file_fits(released: Path) -> None:
    assert weight_files.sha256(released) == "f229524f13631e35f32bb14dca85534d2b1e76bc987d857d520af97718f93460"
    network = weight_files.load(released)
    content = torch.load(released, weights_only=True)["model_state_dict"]
    parameters = [value for key, value in content.items() if "running" not in key and "num_batches" not in key]
    for ours, theirs in zip(network.parameters(), parameters, strict=True):
        assert torch.equal(ours, theirs)
