"""The measured sound speed field, and where its file may come from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldbench.errors import DataUnavailable
from fieldbench_datasets.download import PublishedFile, cache_folder
from fieldbench_datasets.ssf import ANOMALY, MEAN, SoundSpeedField

RNG = np.random.default_rng(0)
CONTENT = b"twenty by twenty by twenty"
PUBLISHED = PublishedFile("ocean/field.bin", "https://example.org/field.bin", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FIELDBENCH_DATA", raising=False)
    monkeypatch.setenv("FIELDBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A network that serves ``content``, or is not there if that is None; it counts the ``requests``."""
    state: dict[str, Any] = {"content": CONTENT, "requests": 0}

    def fetch(url: str, target: str, _: Any) -> None:
        state["requests"] += 1
        if state["content"] is None:
            raise ConnectionError("Name or service not known")
        Path(target).write_bytes(state["content"])

    monkeypatch.setattr("pooch.core.choose_downloader", lambda url, progressbar=False: fetch)
    return state


def test_the_field_has_the_published_size_scale_and_axes(data_folder: Path) -> None:
    field = SoundSpeedField().draw(RNG)
    assert field.shape == (20, 20, 20)
    assert (field.unit, field.quantity) == ("m/s", "sound speed anomaly")
    assert field.values.std() == pytest.approx(2.847, abs=5e-4)
    assert np.abs(field.values).max() == pytest.approx(9.078, abs=5e-4)
    assert [(axis.name, axis.unit, axis.spacing) for axis in field.axes] == [
        ("x", "km", 8.0),
        ("y", "km", 8.0),
        ("depth", "m", 10.0),
    ]
    np.testing.assert_allclose(field.values.mean(axis=(0, 1)), 0, atol=1e-4)  # the mean profile is removed


def test_with_its_mean_profile_it_is_absolute_sound_speed(data_folder: Path) -> None:
    field = SoundSpeedField(mean=True).draw(RNG)
    profile = field.values.mean(axis=(0, 1))
    assert 1523 < profile.min() < profile.max() < 1534
    anomaly = SoundSpeedField().draw(RNG).values
    np.testing.assert_allclose(field.values - anomaly, np.broadcast_to(profile, field.shape), atol=1e-3)
    assert field.quantity == "sound speed"
    assert SoundSpeedField(mean=True).fingerprint() != SoundSpeedField().fingerprint() == ANOMALY.sha256


def test_files_are_pinned_to_one_commit() -> None:
    for file in (ANOMALY, MEAN):
        assert "/2437b6178f8ce74f062d38a73b209338612fd4ef/" in file.url
        assert len(file.sha256) == 64


def test_a_given_folder_is_used_and_nothing_downloaded(
    cache: Path, network: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "ocean").mkdir(parents=True)
    given = tmp_path / "data" / "ocean" / "field.bin"
    given.write_bytes(CONTENT)
    monkeypatch.setenv("FIELDBENCH_DATA", str(tmp_path / "data"))
    assert PUBLISHED.obtain() == given
    assert network["requests"] == 0


def test_another_file_of_that_name_is_refused(
    cache: Path, network: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ocean").mkdir()
    (tmp_path / "ocean" / "field.bin").write_bytes(b"something else")
    monkeypatch.setenv("FIELDBENCH_DATA", str(tmp_path))
    with pytest.raises(DataUnavailable, match="is not the published file"):
        PUBLISHED.obtain()


def test_it_is_downloaded_once_and_kept(cache: Path, network: dict[str, Any]) -> None:
    assert PUBLISHED.obtain() == cache / "ocean" / "field.bin"
    assert PUBLISHED.obtain().read_bytes() == CONTENT
    assert network["requests"] == 1


def test_a_damaged_download_is_fetched_again(cache: Path, network: dict[str, Any]) -> None:
    PUBLISHED.obtain().write_bytes(b"half a f")
    assert PUBLISHED.obtain().read_bytes() == CONTENT


def test_a_server_with_other_content_is_not_believed(cache: Path, network: dict[str, Any]) -> None:
    network["content"] = b"a login page"
    with pytest.raises(DataUnavailable):
        PUBLISHED.obtain()
    assert not (cache / "ocean" / "field.bin").exists()


def test_without_network_one_line_says_how_to_get_it(cache: Path, network: dict[str, Any]) -> None:
    network["content"] = None
    with pytest.raises(DataUnavailable) as raised:
        PUBLISHED.obtain()
    message = str(raised.value)
    assert "\n" not in message
    for part in (PUBLISHED.url, str(cache / "ocean" / "field.bin"), "FIELDBENCH_DATA"):
        assert part in message


def test_prepare_fetches_what_draw_needs(data_folder: Path, cache: Path, network: dict[str, Any]) -> None:
    network["content"] = (data_folder / "ssf" / "data.mat").read_bytes()
    SoundSpeedField().prepare()
    network["content"] = None
    assert SoundSpeedField().draw(RNG).values.std() == pytest.approx(2.847, abs=5e-4)
    with pytest.raises(DataUnavailable):
        SoundSpeedField(mean=True).prepare()


def test_the_cache_is_the_users_own_unless_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDBENCH_CACHE", "~/elsewhere")
    assert cache_folder() == Path.home() / "elsewhere"
    monkeypatch.delenv("FIELDBENCH_CACHE")
    assert cache_folder().name == "fieldbench"
