"""One's own files as a dataset: any spelling of the path, gaps, folders, and a whole run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fieldbench.errors import DataUnavailable, RequestError
from fieldbench.plan import Plan, Request
from fieldbench.registry import Registry
from fieldbench_datasets.file import FileDataset
from tests.here import run

VALUES = np.random.default_rng(0).normal(size=(6, 5, 4))


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.data" / "field.v1.npy"
    path.parent.mkdir()
    np.save(path, VALUES)
    return path


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_file_is_a_field(file: Path, registry: Registry) -> None:
    field = registry.dataset(f"file:{file}").draw(rng())
    np.testing.assert_array_equal(field.values, VALUES)
    assert field.quantity == "field.v1"


def test_the_text_form_is_the_same_for_every_spelling_and_holds_no_folder(
    file: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = str(registry.dataset(f"file:{file}"))
    assert str(file.parent) not in text
    assert os.sep not in text
    monkeypatch.chdir(file.parent)
    for spelling in ("file:field.v1.npy", "file:./field.v1.npy", "file:../my.data/field.v1.npy", text):
        assert str(registry.dataset(spelling)) == text
        np.testing.assert_array_equal(registry.dataset(spelling).draw(rng()).values, VALUES)


def test_parameters_follow_the_path(tmp_path: Path, registry: Registry) -> None:
    path = tmp_path / "a.npz"
    sea = np.ones((5, 4))
    sea[0] = 0
    both = np.stack([VALUES[0], VALUES[1]])
    np.savez(path, temp=both, salt=both + 30, sea=sea, lat=10 + np.arange(5.0))
    dataset = registry.dataset(f"file:{path}[variable=temp,valid=sea,at=x=1]")
    field = dataset.draw(rng())
    np.testing.assert_array_equal(field.values, VALUES[1])
    np.testing.assert_array_equal(field.valid, sea == 1)
    assert registry.dataset(str(dataset)) == dataset
    assert "at=(x=1,)" in str(dataset)


def test_missing_entries_do_not_exist(tmp_path: Path, registry: Registry) -> None:
    gappy = VALUES.copy()
    gappy[2, 3] = np.nan
    np.save(tmp_path / "gappy.npy", gappy)
    field = registry.dataset(f"file:{tmp_path / 'gappy.npy'}").draw(rng())
    np.testing.assert_array_equal(field.valid, ~np.isnan(gappy))


def test_every_trial_draws_a_file_of_the_folder(tmp_path: Path, registry: Registry) -> None:
    for number in range(4):
        np.save(tmp_path / f"map{number}.npy", np.full((3, 3), float(number)))
    (tmp_path / "README.txt").write_text("not a field")
    dataset = registry.dataset(f"file:{tmp_path}")
    drawn = [dataset.draw(rng(seed)).values[0, 0] for seed in range(80)]
    assert set(drawn) == {0.0, 1.0, 2.0, 3.0}
    assert dataset.draw(rng(5)).values[0, 0] == drawn[5]


def test_every_trial_draws_another_slice(file: Path, registry: Registry) -> None:
    dataset = registry.dataset(f"file:{file}[draw=x]")
    dataset.prepare()
    fields = [dataset.draw(rng(seed)) for seed in range(60)]
    assert {field.values.tobytes() for field in fields} == {part.tobytes() for part in VALUES}
    assert [axis.name for axis in fields[0].axes] == ["y", "z"]
    assert registry.dataset(str(dataset)) == dataset
    np.testing.assert_array_equal(dataset.draw(rng(5)).values, fields[5].values)


def test_every_trial_draws_another_window(file: Path, registry: Registry) -> None:
    dataset = registry.dataset(f"file:{file}[draw=y,window=2]")
    fields = [dataset.draw(rng(seed)) for seed in range(60)]
    windows = {VALUES[:, start : start + 2].tobytes(): [float(start), start + 1] for start in range(4)}
    assert {field.values.tobytes() for field in fields} == set(windows)
    assert all(field.axes[1].coordinates.tolist() == windows[field.values.tobytes()] for field in fields)


def test_slices_without_any_entry_are_not_drawn(tmp_path: Path, registry: Registry) -> None:
    gappy = VALUES.copy()
    gappy[[0, 3]], gappy[1, 2, 2] = np.nan, np.nan
    np.save(tmp_path / "gappy.npy", gappy)
    dataset = registry.dataset(f"file:{tmp_path / 'gappy.npy'}[draw=x]")
    drawn = {float(dataset.draw(rng(seed)).values[0, 0]) for seed in range(60)}
    assert drawn == set(VALUES[[1, 2, 4, 5], 0, 0])
    assert any(not dataset.draw(rng(seed)).valid.all() for seed in range(60))


def test_a_wrong_draw_is_one_clear_line(file: Path, registry: Registry) -> None:
    for text, message in [
        ("draw=time", r"draw=time: field\.v1 has no such dimension; it has x, y, z"),
        ("draw=x,window=7", "window=7: x has 6 positions"),
        ("window=2", "window is of a dimension that draw names"),
        ("drawn=x", "no parameter 'drawn'"),
    ]:
        with pytest.raises(RequestError, match=message):
            registry.dataset(f"file:{file}[{text}]").prepare()


def test_codes_for_missing_values_can_be_named(tmp_path: Path, registry: Registry) -> None:
    np.save(tmp_path / "coded.npy", np.where(VALUES > 1, -999.0, VALUES))
    field = registry.dataset(f"file:{tmp_path / 'coded.npy'}[missing=-999]").draw(rng())
    np.testing.assert_array_equal(field.valid, VALUES <= 1)


def test_a_zarr_store_is_one_field_and_named_by_all_that_it_holds(tmp_path: Path, registry: Registry) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    names = set()
    for number in range(2):
        data = xarray.Dataset({"t": (("x", "y", "z"), VALUES + number)})
        data.to_zarr(tmp_path / "a.zarr", mode="w", consolidated=False)
        dataset = registry.dataset(f"file:{tmp_path / 'a.zarr'}")
        np.testing.assert_array_equal(dataset.draw(rng()).values, VALUES + number)
        names.add(str(dataset))
    assert len(names) == 2


def test_a_folder_is_examined_whole_before_a_run(tmp_path: Path, registry: Registry) -> None:
    np.save(tmp_path / "good.npy", VALUES)
    np.save(tmp_path / "bad.npy", np.full((3, 3), np.inf))
    with pytest.raises(RequestError, match="infinite"):
        registry.dataset(f"file:{tmp_path}").prepare()


def test_power_is_scored_by_its_logarithm(file: Path, registry: Registry) -> None:
    with pytest.raises(RequestError, match=r"\d+ of 120 values are at or below -1e-09 .* leave out the log floor"):
        registry.dataset(f"file:{file}[log_floor=1e-9]").prepare()
    np.save(file, np.exp(VALUES))
    assert registry.dataset(f"file:{file}").metric == "rmse"
    dataset = registry.dataset(f"file:{file}[log_floor=1e-9]")
    assert dataset.metric == "slnre"
    assert dataset.draw(rng()).log_floor == 1e-9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file", "path of file: field required"),
        ("file:/no/such/file.nc", "'/no/such/file.nc' is not there"),
        ("file:{file}[valid=land.npy]", "not another file"),
        ("file:{file}[varable=temp]", "did you mean 'variable'"),
    ],
)
def test_a_wrong_request_is_one_clear_line(file: Path, registry: Registry, text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        registry.dataset(text.format(file=file))


def test_data_of_another_machine_is_missed_only_when_drawn(registry: Registry) -> None:
    dataset = registry.dataset("file:elsewhere.npy#0123456789ab")
    assert dataset.metric == "rmse"
    with pytest.raises(DataUnavailable, match=r"elsewhere\.npy#0123456789ab is not here"):
        dataset.prepare()


def test_a_trial_is_the_same_wherever_the_file_lies(file: Path, tmp_path: Path, registry: Registry) -> None:
    moved = tmp_path / "elsewhere" / file.name
    moved.parent.mkdir()
    moved.write_bytes(file.read_bytes())
    plans = [
        Plan(Request(methods=["nearest"], datasets=[f"file:{path}"], trials=2, rates=[0.3]), registry)
        for path in (file, moved)
    ]
    first, second = (list(plan) for plan in plans)
    assert [trial.key for trial in first] == [trial.key for trial in second]
    assert plans[0].digest == plans[1].digest
    records = run(first[:1], registry)
    assert records[0].status == "ok", records[0].error
    assert str(tmp_path) not in str(first[0])


def test_another_content_is_another_trial(file: Path, registry: Registry) -> None:
    request = Request(methods=["nearest"], datasets=[f"file:{file}"], trials=1)
    before = next(iter(Plan(request, registry))).key
    np.save(file, VALUES + 1)
    assert next(iter(Plan(request, registry))).key != before


def test_the_class_takes_a_path_too(file: Path) -> None:
    assert FileDataset(path=str(file)).draw(rng()).shape == (6, 5, 4)
