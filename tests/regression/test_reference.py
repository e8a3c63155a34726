"""Reference files: small, ordered, and read back as they were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fieldbench.errors import RequestError
from fieldbench.regression import reference
from fieldbench.regression.reference import Scores

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = [*ROOT.glob("results/*/*.csv"), *ROOT.glob("examples/*/tests/*.csv")]


def test_it_is_read_back_to_the_digits_it_shows(make, tmp_path) -> None:
    scores = make(made="today", machine="two cores")
    (tmp_path / "ref.csv").write_text(reference.write(scores))
    again = reference.read(tmp_path / "ref.csv")
    assert again.origin == {"made": "today", "machine": "two cores"}
    np.testing.assert_allclose(sorted(again.frame["score"]), sorted(scores.frame["score"]), rtol=1e-5)
    lines = (tmp_path / "ref.csv").read_text().splitlines()
    assert sorted(reference.write(again).splitlines()) == sorted(lines)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_those_that_ship_are_read(file: Path) -> None:
    """Column by column as the file has them; those of times, which older files have, are passed over."""
    frame = reference.read(file).frame
    stored = pd.read_csv(file, comment="#", keep_default_na=False)
    assert len(frame) == len(stored)
    for name in ("method", "dataset", "status", "metric"):
        assert frame[name].tolist() == stored[name].tolist()
    for name in ("trial", "score", "unobserved", "rtol", "memory_mib"):
        np.testing.assert_array_equal(frame[name], pd.to_numeric(stored[name]), strict=False)


def test_what_is_read_is_written_again(make, tmp_path) -> None:
    text = reference.write(make(["nearest"], rtol=1e-9, made="today"))
    (tmp_path / "ref.csv").write_text(text)
    assert sorted(reference.write(reference.read(tmp_path / "ref.csv")).splitlines()) == sorted(text.splitlines())


def test_what_made_it_takes_one_line_each(make, tmp_path) -> None:
    scores = make(command="run --methods 'tap,\r\n  tnn'", machine="two\u2028cores\x0b")
    (tmp_path / "ref.csv").write_text(reference.write(scores))
    again = reference.read(tmp_path / "ref.csv")
    assert again.origin == {"command": "run --methods 'tap, tnn'", "machine": "two cores"}
    assert len(again.frame) == len(scores.frame)


def test_exact_methods_keep_the_digits_that_count(make, tmp_path) -> None:
    scores = make(["nearest"], rtol=1e-9)
    (tmp_path / "ref.csv").write_text(reference.write(scores))
    again = reference.read(tmp_path / "ref.csv")
    np.testing.assert_allclose(sorted(again.frame["score"]), sorted(scores.frame["score"]), rtol=1e-10)
    assert set(again.frame["rtol"]) == {1e-9}


def test_missing_scores_stay_missing(make, changed, tmp_path) -> None:
    scores = changed(make(), 0, status="failed", score=np.nan, unobserved=np.nan, memory_mib=np.nan)
    (tmp_path / "ref.csv").write_text(reference.write(scores))
    again = reference.read(tmp_path / "ref.csv").frame
    assert list(again["status"] == "failed") == list(again["score"].isna())
    assert int(again["score"].isna().sum()) == 1


def test_the_order_in_which_trials_ended_does_not_show(make, tmp_path) -> None:
    scores = make()
    (tmp_path / "ref.csv").write_text(reference.write(scores))
    first = reference.write(reference.read(tmp_path / "ref.csv"))
    shuffled = Scores(scores.frame.sample(frac=1, random_state=1), scores.origin)
    (tmp_path / "ref.csv").write_text(reference.write(shuffled))
    assert reference.write(reference.read(tmp_path / "ref.csv")) == first


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "is not a reference"), ("method,score\ntap,1\n", "is not a reference"), (None, "there is no reference")],
)
def test_other_files_are_refused(tmp_path, text, complaint) -> None:
    if text is not None:
        (tmp_path / "ref.csv").write_text(text)
    with pytest.raises(RequestError, match=complaint):
        reference.read(tmp_path / "ref.csv")


def test_a_file_that_is_no_text_is_refused(tmp_path) -> None:
    (tmp_path / "ref.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(RequestError, match="is not a reference"):
        reference.read(tmp_path / "ref.npy")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda text: text[: text.rindex("1.")] + "1.", "line 34: the line below is cut short"),
        (lambda text: text.replace(",score,", ",scores,"), "line 3: the header lacks score"),
        (lambda text: text.replace("method,", "", 1), "line 3: the header lacks method"),
        (lambda text: text[: text.index("method,")], "line 3: the header lacks method, dataset"),
        (lambda text: text + text[text.index("tap,") :].partition("\n")[0] + "\n", "line 36: .* the same trial"),
        (lambda text: text.replace(",ok,rmse,", ",ok,rmse,x", 1), "line 4: 'x[0-9.]+' is not a score"),
        (lambda text: text.replace(",ok,rmse,", ",ok,", 1), "line 4: 14 cells and not 15"),
        (lambda text: text.replace(",0,0,ok,", ",0,,ok,", 1), "line 4: no trial"),
        (lambda text: text.replace(",0,0,ok,", f",{2**64},0,ok,", 1), f"line 4: '{2**64}' is not a seed"),
        (lambda text: text.replace("tap,", '"tap,', 1), "line 35: unexpected end of data"),
        (lambda text: text.replace("\ntap,", "\n<<<<<<< ours\ntap,", 1), "line 4: 1 cells and not 15"),
    ],
)
def test_a_damaged_one_is_refused_with_the_line(make, tmp_path, damage, complaint) -> None:
    """Two lines above the header, and 32 rows below it."""
    whole = reference.write(make(made="today"))
    (tmp_path / "ref.csv").write_text(damage(whole))
    with pytest.raises(RequestError, match=rf"ref\.csv is damaged: {complaint}.*; restore it or freeze again"):
        reference.read(tmp_path / "ref.csv")
