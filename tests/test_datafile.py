"""Files named by their content: the same name wherever they lie, another one when they change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fieldbench import datafile
from fieldbench.errors import DataUnavailable, RequestError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "temps.bin"
    path.parent.mkdir()
    path.write_bytes(b"one")
    return path


def test_the_name_does_not_depend_on_where_the_file_lies(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = datafile.reference(str(file))
    monkeypatch.chdir(file.parent)
    for spelt in ("temps.bin", "./temps.bin", str(file.parent / ".." / "data" / "temps.bin")):
        assert datafile.reference(spelt) == named
    moved = tmp_path / "temps.bin"
    shutil.move(file, moved)
    assert datafile.reference(str(moved)) == named
    assert datafile.located(named) == moved


def test_an_empty_path_is_not_the_folder_where_one_happens_to_be(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    with pytest.raises(ValueError, match="the path is empty"):
        datafile.reference(" ")


def test_what_is_neither_file_nor_folder_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe")):
        with pytest.raises(ValueError, match="is a device or pipe; give a file"):
            datafile.reference(path)


def test_the_name_is_that_of_the_content(file: Path) -> None:
    first = datafile.reference(str(file))
    assert first == "temps.bin#7692c3ad3540"  # sha256 of b"one"
    file.write_bytes(b"two!")
    assert datafile.reference(str(file)) != first


def test_a_change_behind_the_back_is_noticed(file: Path) -> None:
    named = datafile.reference(str(file))
    file.write_bytes(b"three")
    with pytest.raises(RequestError, match="has changed since"):
        datafile.located(named)


def test_a_folder_is_named_by_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "maps"
    folder.mkdir()
    (folder / "a.npy").write_bytes(b"a")
    first = datafile.reference(str(folder))
    (folder / ".hidden").write_bytes(b"h")
    assert datafile.reference(str(folder)) == first
    (folder / "b.npy").write_bytes(b"b")
    second = datafile.reference(str(folder))
    (folder / "b.npy").rename(folder / "c.npy")
    assert len({first, second, datafile.reference(str(folder))}) == 3


def test_an_odd_file_name_still_makes_a_name_that_specs_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "my field [v2],a+b=1.npy"
    path.write_bytes(b"x")
    named = datafile.reference(str(path))
    assert named.startswith("my_field__v2__a_b_1.npy#")
    assert datafile.located(named) == path


def test_a_name_is_kept_and_its_path_can_be_told(file: Path) -> None:
    named = datafile.reference(str(file))
    assert datafile.reference(named) == named
    program = (
        "import sys; from fieldbench import datafile; datafile.remember([(sys.argv[1], sys.argv[2])]);"
        "print(datafile.located(datafile.reference(sys.argv[1])))"
    )
    path = dict(datafile.locations())[named]
    done = subprocess.run(
        [sys.executable, "-c", program, named, path], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == str(file)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not there"):
        datafile.reference(str(tmp_path / "absent.npy"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no file"):
        datafile.reference(str(tmp_path / "empty"))
    with pytest.raises(DataUnavailable, match="is not here"):
        datafile.located("absent.npy#0123456789ab")
