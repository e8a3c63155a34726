"""Reference files: small, ordered, and read back as they were written."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench.errors import RequestError
from fieldbench.regression import reference
from fieldbench.regression.reference import Scores


def test_it_is_read_back_to_the_digits_it_shows(make, tmp_path) -> None:
    scores = make(made="today", slots="2")
    (tmp_path / "ref.csv").write_text(reference.write(scores))
    again = reference.read(tmp_path / "ref.csv")
    assert again.origin == {"made": "today", "slots": "2"}
    np.testing.assert_allclose(sorted(again.frame["score"]), sorted(scores.frame["score"]), rtol=1e-5)
    lines = (tmp_path / "ref.csv").read_text().splitlines()
    assert sorted(reference.write(again).splitlines()) == sorted(lines)


def test_exact_methods_keep_the_digits_that_count(make, tmp_path) -> None:
    scores = make(["nearest"], rtol=1e-9)
    (tmp_path / "ref.csv").write_text(reference.write(scores))
    again = reference.read(tmp_path / "ref.csv")
    np.testing.assert_allclose(sorted(again.frame["score"]), sorted(scores.frame["score"]), rtol=1e-10)
    assert set(again.frame["rtol"]) == {1e-9}


def test_missing_scores_stay_missing(make, changed, tmp_path) -> None:
    scores = changed(make(), 0, status="failed", score=np.nan, unobserved=np.nan, memory_mib=np.nan, cost=np.nan)
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
    [("", "is no reference"), ("method,score\ntap,1\n", "is no reference"), (None, "there is no reference")],
)
def test_other_files_are_refused(tmp_path, text, complaint) -> None:
    if text is not None:
        (tmp_path / "ref.csv").write_text(text)
    with pytest.raises(RequestError, match=complaint):
        reference.read(tmp_path / "ref.csv")


def test_a_file_that_is_no_text_is_refused(tmp_path) -> None:
    (tmp_path / "ref.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(RequestError, match="is no reference"):
        reference.read(tmp_path / "ref.npy")


def test_a_damaged_number_is_named(make, tmp_path) -> None:
    text = reference.write(make())
    (tmp_path / "ref.csv").write_text(text.replace(",ok,rmse,", ",ok,rmse,x", 1))
    with pytest.raises(RequestError, match="is damaged"):
        reference.read(tmp_path / "ref.csv")
