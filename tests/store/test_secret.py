"""A secret base seed: unknown while the run goes on, told when it is complete, and the same when it goes on again."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from fieldbench.errors import RequestError
from fieldbench.execution import Options
from fieldbench.plan import Request
from fieldbench.registry import Sources
from fieldbench.session import Session
from fieldbench.store.manifest import read_manifest
from fieldbench.store.run import read_rows
from fieldbench.store.secret import kept_seed, label, secrets_of
from tests.store.test_growth import Notes, files  # noqa: F401 - a fixture

FIRST = {"methods": ["one", "two"], "datasets": "wave", "trials": 2}


def session(
    out: Path,
    files: dict[str, Path],  # noqa: F811
    secret: bool = True,
    secrets: Mapping[int, int] = MappingProxyType({}),
    **asked: object,
) -> Session:
    sources = Sources(files=tuple(map(str, files.values())))
    request = Request.model_validate({**FIRST, **asked})
    options = Options(device="cpu", jobs=1, secrets=dict(secrets))
    return Session(request, sources=sources, options=options, out=out, secret=secret)


def scores(out: Path) -> list[tuple[str, float]]:
    return sorted((row["method"] + str(row["trial"]), row["metrics"]["rmse"]) for row in read_rows(out))


def test_the_seed_is_told_when_the_run_is_complete_and_draws_the_same_again(
    tmp_path: Path,
    files: dict[str, Path],  # noqa: F811
) -> None:
    listener = Notes()
    session(tmp_path / "run", files).run(watch=listener)
    ((name, text),) = read_manifest(tmp_path / "run").secrets.items()
    seed = int(text, 16)
    assert label(seed) == name
    assert {row["seed"] for row in read_rows(tmp_path / "run")} == {name}
    assert text in listener.said[-1]
    assert not (tmp_path / "run" / "secret").exists()
    session(tmp_path / "other", files).run()
    assert scores(tmp_path / "other") != scores(tmp_path / "run")
    # Whoever knows the seed draws the same fields, masks and noise.
    session(tmp_path / "again", files, secret=False, secrets={name: seed}, seed=name).run()
    assert scores(tmp_path / "again") == scores(tmp_path / "run")


def test_an_unfinished_run_keeps_its_seed_for_its_owner_alone(tmp_path: Path, files: dict[str, Path]) -> None:  # noqa: F811
    out = tmp_path / "run"
    begun = session(out, files)

    class Interrupt(Notes):
        def update(self, progress, record) -> None:  # type: ignore[no-untyped-def]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begun.run(watch=Interrupt())
    assert stat.S_IMODE((out / "secret").stat().st_mode) == 0o600
    seed = kept_seed(out)
    assert seed is not None
    assert f"{seed:x}" not in (out / "manifest.json").read_text() + (out / "trials.jsonl").read_text()
    assert str(seed) not in (out / "manifest.json").read_text() + (out / "trials.jsonl").read_text()
    session(out, files).run()
    assert secrets_of(out) == {label(seed): seed}
    assert len(list(read_rows(out))) == 4


def test_a_run_that_grows_after_its_seed_is_known_says_so(tmp_path: Path, files: dict[str, Path]) -> None:  # noqa: F811
    session(tmp_path / "run", files).run()
    before = read_manifest(tmp_path / "run").secrets
    listener = Notes()
    session(tmp_path / "run", files, trials=3).run(watch=listener)
    assert any("is known since" in text for text in listener.said)
    assert len(listener.computed) == 2
    assert read_manifest(tmp_path / "run").secrets == before


def test_a_damaged_secret_is_one_line(tmp_path: Path, files: dict[str, Path]) -> None:  # noqa: F811
    session(tmp_path / "run", files).run()
    (tmp_path / "run" / "secret").write_text("no number")
    with pytest.raises(RequestError, match="holds no seed"):
        session(tmp_path / "run", files)
    (tmp_path / "run" / "secret").unlink()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["secrets"] = {"1": "xyz"}
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RequestError, match="is damaged"):
        session(tmp_path / "run", files)
