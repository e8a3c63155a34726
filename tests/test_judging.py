"""One trial: paired draws, stable keys, what a method may see, selection, failures as records."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from typing import Any, ClassVar

import numpy as np
import pytest

import fieldbench
from fieldbench import judging
from fieldbench.field import Field, Observation
from fieldbench.plan import Plan, Request
from fieldbench.records import Trial, decode, encode
from fieldbench.registry import Registry, Sources
from tests.here import run


class Waves(fieldbench.Dataset):
    """A random field of 6 x 7 x 8."""

    name = "waves"
    gain: float = fieldbench.parameter(1.0, "factor")

    def draw(self, rng: np.random.Generator) -> Field:
        return Field(self.gain * rng.normal(size=(6, 7, 8)), quantity="height", unit="m")


class Basin(Waves):
    """A random field over an uneven sea floor."""

    name = "basin"

    def draw(self, rng: np.random.Generator) -> Field:
        depths = np.random.default_rng(0).integers(1, 9, size=(6, 7, 1))
        return Field(rng.normal(size=(6, 7, 8)), valid=np.arange(8) < depths)


class Spy(fieldbench.Method):
    """Remembers what it is shown; answers with random numbers of its own."""

    name = "spy"
    level: float = fieldbench.parameter(0.0, "added")
    seen: ClassVar[list[tuple[Observation, int, str]]] = []

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> Any:
        self.seen.append((observation, seed, device))
        return self.level + np.random.default_rng(seed).normal(size=observation.shape)


class OtherSpy(Spy):
    """Another method."""

    name = "other-spy"


class Batched(Spy):
    """A method that computes batches."""

    name = "batched"

    def complete_batch(self, observations, *, seeds, device, reports):
        return [
            self.complete(observation, seed=seed, device=device, report=report)
            for observation, seed, report in zip(observations, seeds, reports, strict=True)
        ]


class Traveller(fieldbench.Method):
    """Reports estimates that get better and then worse, and ends on the worst. It knows the truth by a trick."""

    name = "traveller"
    truth: ClassVar[Any] = None
    errors: ClassVar[dict[int, float]] = {1: 3.0, 2: 1.0, 3: 2.0}

    def complete(self, observation, *, seed, device, report):
        for step, error in self.errors.items():
            if report.due(step):
                report(step, self.truth + error, error=error)
        return self.truth + 4.0


class Quarrel(fieldbench.Method):
    """Reports the field at unobserved entries alone, then what was measured at withheld entries alone."""

    name = "quarrel"
    draw: ClassVar[Any] = None

    def complete(self, observation, *, seed, device, report):
        withheld = self.draw.mask & ~observation.mask
        report(1, np.where(withheld, 50.0, self.draw.field.values))
        report(2, np.where(withheld, self.draw.measured, self.draw.field.values + 20.0))
        return np.full(observation.shape, 100.0)


class Fails(fieldbench.Method):
    """It fails in the way it is asked to."""

    name = "fails"
    way: str = fieldbench.parameter("error", "how")

    def applicable(self, observation):
        return "it is not in the mood" if self.way == "refuses" else None

    def check_shape(self, shape):
        if self.way == "shape":
            raise ValueError("a window of 9 does not fit into 6")

    def complete(self, observation, *, seed, device, report):
        if self.way == "error":
            raise ValueError("first line\nsecond line")
        if self.way == "request":
            raise fieldbench.RequestError("give a larger window")
        if self.way == "memory":
            raise MemoryError
        if self.way == "cuda":
            raise type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory")
        if self.way == "novel":
            raise ValueError("x" * 2_000_000)
        if self.way == "mute":
            raise type("Mute", (RuntimeError,), {"__str__": lambda self: 1 / 0})
        if self.way == "complex":
            return np.full(observation.shape, 1j)
        if self.way == "nans":
            return np.full(observation.shape, np.nan)
        return np.zeros(3)


class OneBad(Spy):
    """A batch of it fails if one observation is lower than usual."""

    name = "one-bad"

    def complete(self, observation, **rest):
        if observation.observed.max() < 2.2:
            raise ValueError("too low")
        return super().complete(observation, **rest)

    def complete_batch(self, observations, *, seeds, device, reports):
        return [
            self.complete(observation, seed=seed, device=device, report=report)
            for observation, seed, report in zip(observations, seeds, reports, strict=True)
        ]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(Sources(classes=(Waves, Basin, Spy, OtherSpy, Batched, Traveller, Quarrel, Fails, OneBad)))


def plan(registry: Registry, methods: Any = "spy", **request: Any) -> list[Trial]:
    return list(Plan(Request(**{"methods": methods, "datasets": "waves", "rates": 0.3, **request}), registry))


def one(registry: Registry, methods: Any = "spy", **request: Any) -> Trial:
    (found,) = plan(registry, methods, trials=1, **request)
    return found


def shown(registry: Registry, trial: Trial) -> Observation:
    Spy.seen.clear()
    assert run([trial], registry)[0].status == "ok"
    return Spy.seen[0][0]


def same(first: Observation, second: Observation) -> bool:
    return bool(np.array_equal(first.values, second.values, equal_nan=True) and (first.mask == second.mask).all())


# Pairing


@pytest.mark.parametrize("other", ["other-spy", "spy[level=3]"])
def test_all_methods_meet_the_same_observation(registry, other) -> None:
    noisy = {"noises": "gaussian[sigma=0.5]"}
    first = shown(registry, one(registry, "spy", **noisy))
    assert same(first, shown(registry, one(registry, other, **noisy)))


def test_repetitions_differ_in_field_mask_and_noise(registry) -> None:
    first, second = plan(registry, trials=2, noises="gaussian")
    one_draw, other = judging.draw(first, registry), judging.draw(second, registry)
    assert not np.array_equal(one_draw.field.values, other.field.values)
    assert not np.array_equal(one_draw.mask, other.mask)


def test_all_rates_meet_the_same_field_and_all_noises_the_same_mask(registry) -> None:
    low, high = plan(registry, trials=1, rates=[0.1, 0.5])
    np.testing.assert_array_equal(judging.draw(low, registry).field.values, judging.draw(high, registry).field.values)
    quiet, loud = plan(registry, trials=1, noises=["none", "gaussian[sigma=2]"])
    silent, noisy = judging.draw(quiet, registry), judging.draw(loud, registry)
    np.testing.assert_array_equal(silent.mask, noisy.mask)
    np.testing.assert_array_equal(silent.field.values, noisy.field.values)
    assert not np.array_equal(silent.observation.observed, noisy.observation.observed)


def test_field_mask_and_noise_come_from_different_streams() -> None:
    settings = (0, 1, "waves")
    numbers = [judging.stream(what, *settings).random() for what in ("field", "mask", "noise")]
    assert len(set(numbers)) == 3


def test_another_base_seed_is_another_world(registry) -> None:
    first, second = (judging.draw(one(registry, seed=seed), registry) for seed in (0, 1))
    assert not np.array_equal(first.field.values, second.field.values)
    assert not np.array_equal(first.mask, second.mask)


def test_a_method_has_its_own_stream_of_32_bits(registry) -> None:
    seeds = {judging.method_seed(trial) for trial in plan(registry, ["spy", "other-spy"], trials=20)}
    assert len(seeds) == 40
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert max(seeds) > 2**29


def test_variants_of_a_method_start_from_the_same_numbers(registry) -> None:
    plain, changed = plan(registry, ["spy", "spy[level=3]"], trials=1)
    assert judging.method_seed(plain) == judging.method_seed(changed)


# What comes out depends on the trial alone


def test_results_do_not_depend_on_order_or_company(registry) -> None:
    asked = plan(registry, ["spy", "batched"], trials=4, noises="gaussian", select=["final", "holdout"])
    forwards = {trial.key: run([trial], registry)[0].metrics for trial in asked}
    fresh = Registry(registry.sources)
    backwards = {trial.key: run([trial], fresh)[0].metrics for trial in reversed(asked)}
    assert forwards == backwards
    assert len(forwards) == len(asked) == 16


def test_a_batch_gives_each_trial_what_it_gets_alone(registry) -> None:
    asked = plan(registry, "batched", trials=5, noises="gaussian")
    together = run(asked, registry)
    assert [record.trial for record in together] == asked
    assert [record.metrics for record in together] == [run([trial], registry)[0].metrics for trial in asked]
    assert {record.diagnostics["batch"] for record in together} == {5}


def test_one_bad_trial_costs_only_itself(registry) -> None:
    asked = plan(registry, "one-bad", trials=12, rates=0.1)
    low = [judging.draw(trial, registry).observation.observed.max() < 2.2 for trial in asked]
    assert any(low)
    assert not all(low)
    statuses = [record.status for record in run(asked, registry)]
    assert statuses == ["failed" if bad else "ok" for bad in low]


# Keys


def test_the_key_is_the_hash_of_what_is_to_be_computed(registry) -> None:
    trial = one(registry)
    flat = {**dataclasses.asdict(trial.cell), "trial": 0, "seed": trial.seed, "identity": trial.identity}
    canonical = json.dumps(flat, sort_keys=True, separators=(",", ":"))
    assert trial.key == hashlib.sha256(canonical.encode()).hexdigest()[:24]
    assert set(flat) == {
        "method", "dataset", "sampler", "noise", "select", "rate", "trial", "seed", "identity",
    }  # fmt: skip


def test_every_part_of_a_trial_is_in_its_key(registry) -> None:
    trial = one(registry)
    keys = {trial.key}
    for name, value in dataclasses.asdict(trial.cell).items():
        cell = dataclasses.replace(trial.cell, **{name: value + ("x" if isinstance(value, str) else 1)})
        keys.add(dataclasses.replace(trial, cell=cell).key)
    for name, other in (("number", 1), ("seed", 1), ("identity", "x")):
        keys.add(dataclasses.replace(trial, **{name: other}).key)
    assert len(keys) == 10


def test_the_key_survives_a_new_registry_and_another_spelling(registry) -> None:
    again = Registry(registry.sources)
    assert one(registry).key == one(again).key
    assert one(registry, "spy[level=0]").key == one(registry, "spy[ level = 0.0 ]").key == one(registry, "spy").key
    assert one(registry, samplers="random[count=exact]").key == one(registry).key


def test_the_key_holds_defaults_and_versions(registry) -> None:
    class Changed(Spy):
        """The spy with another default."""

        name = "spy"
        level: float = fieldbench.parameter(5.0, "added")

    changed = Registry(Sources(classes=(Waves, Changed)))
    assert one(changed).cell.method == one(registry).cell.method == "spy"
    assert one(changed).key != one(registry).key


# What a method sees


def test_a_method_sees_measured_values_at_observed_entries_and_nothing_else(registry) -> None:
    trial = one(registry, noises="gaussian[sigma=0.5]")
    observation, draw = shown(registry, trial), judging.draw(trial, registry)
    assert np.isnan(observation.values[~observation.mask]).all()
    np.testing.assert_array_equal(observation.mask, draw.mask)
    assert not np.array_equal(observation.observed, draw.field.values[draw.mask])
    assert 0.3 < np.std(observation.observed - draw.field.values[draw.mask]) < 0.7
    assert not any(isinstance(value, Field) for value in vars(observation).values())


def test_holdout_hides_a_tenth_of_the_observed_entries(registry) -> None:
    trial = one(registry, select="holdout[share=0.1]")
    observation, draw = shown(registry, trial), judging.draw(trial, registry)
    withheld = draw.mask & ~observation.mask
    assert withheld.sum() == round(0.1 * draw.mask.sum())
    assert not (observation.mask & ~draw.mask).any()
    assert np.isnan(observation.values[withheld]).all()
    assert run([trial], registry)[0].diagnostics["observed"] == draw.mask.sum()


def test_holdout_withholds_whole_fibers_from_fibers(registry) -> None:
    trial = one(registry, select="holdout", samplers="fibers")
    observation, draw = shown(registry, trial), judging.draw(trial, registry)
    withheld = draw.mask & ~observation.mask
    assert withheld.any()
    assert (withheld.any(axis=-1) == withheld.all(axis=-1)).all()


def test_holdout_withholds_whole_moorings_over_a_sea_floor(registry, tmp_path) -> None:
    np.save(tmp_path / "moorings.npy", np.argwhere(np.ones((6, 7))))
    sampler = f"points:{tmp_path / 'moorings.npy'}"
    trial = one(registry, datasets="basin", select="holdout", samplers=sampler)
    observation, draw = shown(registry, trial), judging.draw(trial, registry)
    withheld = draw.mask & ~observation.mask
    at = withheld.any(axis=-1)
    assert at.any()
    np.testing.assert_array_equal(withheld[at], draw.field.valid[at])


def test_all_methods_have_the_same_entries_withheld(registry) -> None:
    first = shown(registry, one(registry, "spy", select="holdout"))
    assert same(first, shown(registry, one(registry, "other-spy", select="holdout")))


def test_a_method_without_gpu_is_told_cpu(registry) -> None:
    Spy.seen.clear()
    (record,) = run([one(registry)], registry, device="cuda:0")
    assert (record.status, Spy.seen[0][2]) == ("ok", "cpu")


# Which estimate counts


@pytest.mark.parametrize(
    ("select", "error", "step"), [("final", 4.0, None), ("oracle[every=1]", 1.0, 2), ("oracle[every=3]", 2.0, 3)]
)
def test_selection_takes_the_estimate_it_says(registry, monkeypatch, select, error, step) -> None:
    trial = one(registry, "traveller", select=select)
    monkeypatch.setattr(Traveller, "truth", judging.draw(trial, registry).field.values)
    (record,) = run([trial], registry)
    assert record.metrics["rmse"] == pytest.approx(error)
    assert record.diagnostics.get("selected_step") == step


def test_the_curve_keeps_what_was_reported(registry, monkeypatch) -> None:
    trial = one(registry, "traveller", select="oracle[every=1]")
    monkeypatch.setattr(Traveller, "truth", judging.draw(trial, registry).field.values)
    curve = run([trial], registry)[0].diagnostics["curve"]
    assert curve["step"] == [1, 2, 3]
    assert curve["error"] == [3.0, 1.0, 2.0]
    assert curve["rmse"] == pytest.approx([3.0, 1.0, 2.0])


def test_holdout_judges_by_withheld_measurements_and_never_by_the_truth(registry, monkeypatch) -> None:
    chosen = {}
    for select in ("holdout[every=1,share=0.3]", "oracle[every=1]"):
        trial = one(registry, "quarrel", select=select, noises="gaussian[sigma=0.5]")
        monkeypatch.setattr(Quarrel, "draw", judging.draw(trial, registry))
        chosen[select] = run([trial], registry)[0].diagnostics["selected_step"]
    # Step 1 is far off at withheld entries and exact elsewhere, step 2 the other way round.
    assert chosen == {"holdout[every=1,share=0.3]": 2, "oracle[every=1]": 1}


# Scores


def test_scores_are_over_all_entries_and_over_unobserved_ones(registry) -> None:
    trial = one(registry)
    draw = judging.draw(trial, registry)
    estimate = np.random.default_rng(judging.method_seed(trial)).normal(size=(6, 7, 8))
    (record,) = run([trial], registry)
    error = estimate - draw.field.values
    assert record.metrics["rmse"] == pytest.approx(math.sqrt((error**2).mean()))
    assert record.metrics["rmse.unobserved"] == pytest.approx(math.sqrt((error[~draw.mask] ** 2).mean()))
    assert record.metrics["mae"] == pytest.approx(np.abs(error).mean())


class Divides(fieldbench.Metric):
    """It raises."""

    name = "divides"

    def score(self, estimate, truth, where, mask):
        return 1 / 0


class Divided(Waves):
    """Its own metric raises."""

    name = "divided"
    metric = "divides"


def test_a_metric_that_raises_costs_a_trial_only_its_own_score_unless_it_is_the_datasets() -> None:
    registry = Registry(Sources(classes=(Waves, Divided, Spy, Divides)))
    (record,) = run([one(registry)], registry)
    assert record.status == "ok"
    assert {"rmse", "mae"} <= set(record.metrics)
    assert not any(name.startswith("divides") for name in record.metrics)
    assert record.diagnostics["not_scored"] == {"divides": "ZeroDivisionError: division by zero"}
    (failed,) = run([one(registry, datasets="divided")], registry)
    assert failed.status == "failed"
    assert "metric divides: ZeroDivisionError: division by zero" in failed.error


def test_what_was_withheld_does_not_count_as_unobserved(registry) -> None:
    trial = one(registry, select="holdout[share=0.5]")
    draw = judging.draw(trial, registry)
    estimate = np.random.default_rng(judging.method_seed(trial)).normal(size=(6, 7, 8))
    (record,) = run([trial], registry)
    error = (estimate - draw.field.values)[~draw.mask]
    assert record.metrics["rmse.unobserved"] == pytest.approx(math.sqrt((error**2).mean()))


# Failures are records


@pytest.mark.parametrize(
    ("way", "status", "error"),
    [
        ("error", "failed", "ValueError: first line"),
        ("request", "failed", "give a larger window"),
        ("shape", "failed", "ValueError: a window of 9 does not fit into 6"),
        ("memory", "out-of-memory", "MemoryError"),
        ("cuda", "out-of-memory", "OutOfMemoryError: CUDA out of memory"),
        ("mute", "failed", "Mute"),
        ("complex", "failed", "ValueError: the estimate is complex; a field holds real numbers"),
        ("nans", "failed", "ValueError: the method returned NaN or infinite entries"),
        ("vector", "failed", "ValueError: the method returned shape (3,); the field has (6, 7, 8)"),
        ("refuses", "not-applicable", "it is not in the mood"),
    ],
)
def test_a_trial_that_does_not_end_well_says_why_in_one_line(registry, way, status, error) -> None:
    (record,) = run([one(registry, f"fails[way={way}]")], registry)
    assert (record.status, record.error) == (status, error)
    assert record.metrics == {}
    if status != "not-applicable":
        assert "Traceback" in record.diagnostics["traceback"]


def test_an_error_of_a_novel_s_length_is_cut(registry) -> None:
    (record,) = run([one(registry, "fails[way=novel]")], registry)
    assert record.error.startswith("ValueError: xxx")
    assert record.error.endswith("x ...")
    assert len(json.dumps(record.as_row())) < 30_000


# Rows


def test_a_record_survives_its_stored_form(registry) -> None:
    (record,) = run([one(registry, noises="gaussian", select="holdout")], registry)
    row = decode(encode(record.as_row()))
    assert row == record.as_row()
    assert row["key"] == record.trial.key


def test_a_row_of_another_version_is_read(registry) -> None:
    (record,) = run([one(registry)], registry)
    row = {**record.as_row(), "invented_later": 1}
    del row["peak_memory"], row["diagnostics"]
    read = decode(encode(row))
    assert read["metrics"] == record.metrics
    assert "invented_later" not in read


def test_trials_of_a_cell_differ_in_their_number_alone(registry) -> None:
    first, second, third = plan(registry, trials=3)
    assert first.cell == second.cell == third.cell
    assert first.cell != one(registry, rates=0.4).cell
    assert first.cell != one(registry, "other-spy").cell
