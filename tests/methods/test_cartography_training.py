"""Training fields and the training of the prior."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp
from torch.utils._python_dispatch import TorchDispatchMode

from fieldbench import RequestError
from fieldbench.registry import Registry
from fieldbench_datasets.propagation import shadowing, spatial_losses
from fieldbench_methods.cartography import training, weight_files
from fieldbench_methods.cartography.autoencoder import initialised
from fieldbench_methods.cartography.loss_fields import Fields, Population, Uniform, generator
from fieldbench_methods.cartography.prior import LossFieldPrior

CPU = torch.device("cpu")
SHORT = LossFieldPrior(steps=6, batch=8, warmup=2, decorrelation=(50, 50), validation=16, validate_every=3)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of four batches of 8 fields."""
    monkeypatch.setattr(training, "POOL_FIELDS", 32)
    monkeypatch.setattr(training, "POOL_STEPS", 4)
    monkeypatch.setattr(training, "VIEWS", 4)


@pytest.fixture
def fields(small_pools: None) -> Fields:
    return Fields(training.population(SHORT), CPU)


def silent(step: int, steps: int, **numbers: float) -> None:
    return None


def run(out: Path, settings: LossFieldPrior = SHORT, *, seed: int = 1, resume: bool = False, progress=silent) -> None:
    settings.run(out, seed=seed, device="cpu", progress=progress, resume=resume)


@pytest.mark.parametrize("way", ["on the device", "by the datasets"])
def test_shadowing_has_the_covariance_of_the_model(way: str) -> None:
    """Both ways of drawing, each distance, against exp(-d / d_corr): variances of increments, and the whole of it."""
    distances, count = (20.0, 50.0), 1000
    if way == "on the device":
        population = Population(
            eta=Uniform(6, 6), decorrelation=distances, exponent=Uniform(2, 2), rate=Uniform(0.1, 0.1)
        )
        drawn = Fields(population, CPU).shadowing(count, generator(CPU, 1)).double().numpy()
    else:
        rng = np.random.default_rng(1)
        drawn = np.stack([shadowing(count, (51, 51), distance, rng) for distance in distances])
    grid = np.indices((51, 51)).reshape(2, -1).T
    one, other = np.random.default_rng(2).integers(0, 51 * 51, (2, 40))
    apart = np.linalg.norm(grid[one] - grid[other], axis=1)
    for distance, values in zip(distances, drawn.reshape(2, count, -1), strict=True):
        increments = (values[:, one] - values[:, other]).var(axis=0)
        np.testing.assert_allclose(increments, 2 - 2 * np.exp(-apart / distance), rtol=5 * np.sqrt(2 / count))
    precision = np.linalg.inv(np.exp(-cdist(grid, grid) / distances[0]))
    values = drawn[0].reshape(count, -1)
    whitened = ((values @ precision) * values).mean()
    assert whitened == pytest.approx(1, abs=5 * np.sqrt(2 / values.size))  # chi squared over its degrees


def test_fields_have_unit_norm_and_are_positive(fields: Fields) -> None:
    drawn = fields.draw(20, generator(CPU, 1), views=8)
    assert drawn.shape == (160, 51, 51)
    assert drawn.min() > 0
    torch.testing.assert_close(torch.linalg.vector_norm(drawn, dim=(1, 2)), torch.ones(160))


def test_training_fields_are_distributed_like_the_datasets() -> None:
    """Against the generator of the datasets, which was written independently of this one."""
    population = Population(eta=Uniform(3, 9), decorrelation=(50.0,), exponent=Uniform(2, 2.5), rate=Uniform(0.1, 0.1))
    rng = np.random.default_rng(3)
    ours = Fields(population, CPU).draw(600, generator(CPU, 2)).double().numpy()
    theirs = spatial_losses(600, rng, eta=rng.uniform(3, 9, 600), decorrelation=50.0)
    statistics = {
        "corner": lambda field: np.log(field[:, 0, 0]),
        "centre": lambda field: np.log(field[:, 25, 25]),
        "peak": lambda field: field.max(axis=(1, 2)),
        "peak row": lambda field: field.max(axis=2).argmax(axis=1).astype(float),
        "sum": lambda field: field.sum(axis=(1, 2)),
        "roughness": lambda field: np.abs(np.diff(np.log(field), axis=1)).mean(axis=(1, 2)),
        "tilt": lambda field: np.log(field[:, 0]).mean(axis=1) - np.log(field[:, :, 50]).mean(axis=1),
    }
    for name, statistic in statistics.items():
        assert ks_2samp(statistic(ours), statistic(theirs)).pvalue > 1e-3, name


def test_views_of_a_shadowing_differ_in_all_else(fields: Fields) -> None:
    drawn = fields.draw(1, generator(CPU, 4), views=8)
    assert len({tuple(np.unravel_index(int(field.argmax()), (51, 51))) for field in drawn}) > 4


def test_masks_observe_between_1_and_20_percent(fields: Fields) -> None:
    rates = fields.masks(400, generator(CPU, 5)).double().mean(dim=(1, 2))
    assert 0.005 < float(rates.min()) < 0.02
    assert 0.19 < float(rates.max()) < 0.23
    assert float(rates.mean()) == pytest.approx(0.105, abs=4 * 0.055 / 20)  # sd of U(0.01, 0.2) is 0.055


def test_examples_have_the_population_in_equal_shares() -> None:
    """The shadowing's strength, from increments between neighbours far from the emitter, tells the distances apart."""
    population = Population(
        eta=Uniform(9, 9), decorrelation=(5.0, 500.0), exponent=Uniform(0, 0), rate=Uniform(0.5, 0.5)
    )
    complete, masks = Fields(population, CPU).examples(41, np.random.default_rng(6))
    assert complete.shape == masks.shape == (41, 51, 51)
    torch.testing.assert_close(torch.linalg.vector_norm(complete, dim=(1, 2)), torch.ones(41))
    assert float(masks.double().mean()) == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(masks.numel()))
    decibels = 10 * complete.double().log10()
    steps = decibels.diff(dim=1).square().mean(dim=(1, 2)).sqrt()
    for part, distance in ((steps[:21], 5.0), (steps[21:], 500.0)):
        torch.testing.assert_close(
            part, torch.full_like(part, 9 * np.sqrt(2 - 2 * np.exp(-1 / distance))), rtol=0.2, atol=0
        )


def test_lessons_depend_on_seed_and_step_alone(fields: Fields) -> None:
    whole = list(training.batches(fields, SHORT, 7, 0))
    assert [step for step, _, _ in whole] == list(range(6))
    for (step, complete, mask), (later, complete_again, mask_again) in zip(
        whole[3:], training.batches(fields, SHORT, 7, 3), strict=True
    ):
        assert step == later
        assert torch.equal(complete, complete_again)
        assert torch.equal(mask, mask_again)
    _, other, _ = next(training.batches(fields, SHORT, 8, 0))
    assert not torch.equal(whole[0][1], other)


def test_no_batch_meets_the_same_fields_or_masks_twice(fields: Fields) -> None:
    settings = SHORT.model_copy(update={"steps": 12})
    batches = list(training.batches(fields, settings, 7, 0))
    sums = [float(field.sum()) for _, complete, _ in batches for field in complete]
    assert len(set(sums)) == len(sums) == 12 * 8
    validation = training.validation_set(fields, 16, 7)
    assert not set(sums) & {float(field.sum()) for field in validation.complete}


def test_the_learning_rate_rises_stays_and_falls() -> None:
    settings = LossFieldPrior(steps=100, warmup=9, learning_rate=1e-2, decay=0.4)
    rates = [training.learning_rate(settings, step) for step in range(100)]
    assert rates[:10] == pytest.approx([1e-3 * step for step in range(1, 11)])
    assert set(rates[10:60]) == {1e-2}
    assert rates[60:] == pytest.approx([1e-2 * left / 40 for left in range(40, 0, -1)])


def test_training_learns_and_writes_a_card(tmp_path: Path, small_pools: None, fields: Fields) -> None:
    settings = SHORT.model_copy(update={"steps": 40, "validate_every": 10})
    seen = []
    run(tmp_path / "p.safetensors", settings, progress=lambda step, steps, **numbers: seen.append((step, steps)))
    card = json.loads((tmp_path / "p.json").read_text())
    assert seen == [(step, 40) for step in range(1, 41)]
    assert [entry["step"] for entry in card["losses"]] == [10, 20, 30, 40]
    validation = training.validation_set(fields, 16, 1)
    assert card["validation_loss"] < 0.9 * validation.loss(initialised(1))
    stored = validation.loss(weight_files.load(tmp_path / "p.safetensors"))
    assert stored == pytest.approx(card["validation_loss"], rel=1e-3)
    assert card["sha256"] == weight_files.sha256(tmp_path / "p.safetensors")
    assert card["settings"]["steps"] == 40
    assert card["fields"] == 320
    assert not (tmp_path / "p.safetensors.checkpoint").exists()


def test_a_training_may_start_from_weights(tmp_path: Path, small_pools: None, fields: Fields) -> None:
    """A step too small to matter leaves the loss where those weights had it, far below that of random ones."""
    validation = training.validation_set(fields, 16, 1)
    still = {"start": str(weight_files.SHIPPED), "learning_rate": 1e-12, "steps": 1}
    run(tmp_path / "p.safetensors", SHORT.model_copy(update=still))
    card = json.loads((tmp_path / "p.json").read_text())
    # Batch normalisation's running means move by a tenth towards the first batch's.
    assert card["validation_loss"] < 0.5 * validation.loss(initialised(1))
    assert card["start"]["sha256"] == weight_files.sha256(weight_files.SHIPPED)
    with pytest.raises(RequestError, match=r"start=none\.safetensors is not a file"):
        run(tmp_path / "q.safetensors", SHORT.model_copy(update={"start": "none.safetensors"}))


class Interrupted(Exception):
    pass


def test_a_large_batch_has_larger_pools(fields: Fields) -> None:
    """A pool of less than a batch would give none."""
    settings = SHORT.model_copy(update={"steps": 5, "batch": 70})
    sizes = [len(complete) for _, complete, _ in training.batches(fields, settings, 7, 0)]
    assert sizes == [70] * 5


class Reads(TorchDispatchMode):
    """Notes whenever a number, or how many there are, is read from a tensor: what a GPU is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero", "equal", "masked_select"):
            self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_step_reads_nothing_back(fields: Fields) -> None:
    network = initialised(1)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    with Reads() as reads:
        for _, complete, mask in training.batches(fields, SHORT, 7, 0):
            loss = training._learn(network, optimizer, complete, mask)
        assert reads.seen == []
        float(loss)
        assert len(reads.seen) == 1


def interrupted(out: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that is cut short after step ``at``, a checkpoint having been written at every step."""

    def progress(step: int, steps: int, **numbers: float) -> None:
        if step == at + 1:
            raise Interrupted

    monkeypatch.setattr(training, "CHECKPOINT_INTERVAL", -1.0)
    with pytest.raises(Interrupted):
        run(out, progress=progress)


@pytest.mark.usefixtures("small_pools")
def test_a_resumed_training_ends_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    run(whole)
    interrupted(parts, 3, monkeypatch)
    steps: list[int] = []
    run(parts, resume=True, progress=lambda step, *_, **__: steps.append(step))
    assert steps == [4, 5, 6]
    assert whole.read_bytes() == parts.read_bytes()
    cards = [json.loads(path.with_suffix(".json").read_text()) for path in (whole, parts)]
    assert cards[0]["losses"] == cards[1]["losses"]


@pytest.mark.usefixtures("small_pools")
def test_a_training_cut_short_after_its_last_step_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    run(whole)
    with monkeypatch.context() as patch:
        patch.setattr(training, "CHECKPOINT_INTERVAL", -1.0)
        patch.setattr(weight_files, "save", lambda *_: (_ for _ in ()).throw(Interrupted))
        with pytest.raises(Interrupted):
            run(parts)
    run(parts, resume=True)
    assert whole.read_bytes() == parts.read_bytes()


@pytest.mark.usefixtures("small_pools")
def test_nothing_is_overwritten_or_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "p.safetensors"
    interrupted(out, 2, monkeypatch)
    with pytest.raises(RequestError, match="--resume"):
        run(out)
    with pytest.raises(RequestError, match="seed = 1, not 2"):
        run(out, seed=2, resume=True)
    with pytest.raises(RequestError, match=r"learning_rate = 0\.002, not 0\.1"):
        run(out, SHORT.model_copy(update={"learning_rate": 0.1}), resume=True)
    for steps in (1, 2):  # two are done, and nothing was validated yet
        with pytest.raises(
            RequestError, match=rf"has done 2 steps, not fewer than steps={steps}; give steps=3 or more"
        ):
            run(out, SHORT.model_copy(update={"steps": steps}), resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.safetensors.checkpoint"]
    run(out, SHORT.model_copy(update={"steps": 4}), resume=True)
    assert json.loads(out.with_suffix(".json").read_text())["schedules"] == [
        {"first step": 0, "steps": 6, "decay": 0.7},
        {"first step": 2, "steps": 4, "decay": 0.7},
    ]
    with pytest.raises(RequestError, match="exists"):
        run(out, resume=True)


@pytest.mark.parametrize(
    "settings", [{"eta": (9, 3)}, {"observed": (0.0, 0.2)}, {"observed": (0.1, 1.5)}, {"decorrelation": (0, 50)}]
)
def test_impossible_settings_are_refused(settings: dict[str, tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        LossFieldPrior(**settings)


def test_methods_say_how_they_are_trained() -> None:
    registry = Registry()
    assert {
        name for name, entry in registry.entries("method").items() if getattr(entry.cls, "prior_training", None)
    } == {"nasdac", "dowjons"}
