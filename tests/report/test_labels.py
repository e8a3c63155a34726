"""Labels: what a paper calls methods, datasets and metrics, the same in every command and escaped in every format."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from fieldbench.errors import RequestError
from fieldbench.report.labels import called, read_labels
from fieldbench.report.stored import StoredRun
from fieldbench.results import Results
from tests.command import command
from tests.report.markup import parse

NASTY = "Ours & <b>50 %</b> a_b"


def test_a_file_and_options_are_read_and_options_win(tmp_path: Path) -> None:
    (tmp_path / "labels.toml").write_text('learner = "Learned"\n"tap[epochs=5]" = "TAP"\nrmse = "RMSE"\n')
    found = read_labels(tmp_path / "labels.toml", ["learner=Ours = best", 'file:"a=b.nc"[x="]="]=File [1'])
    assert found == {
        "learner": "Ours = best", "tap[epochs=5]": "TAP", "rmse": "RMSE", 'file:"a=b.nc"[x="]="]': "File [1",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["tap", "=Ours", "tap=", "tap[a=1]"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="write --label tap=Ours"):
        read_labels(None, [text])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("rmse.unobserved = 'RMSE'", "label of 'rmse' is not a text"),
        ("tap = ", "not a TOML file"),
        (None, "No such"),
        *((f'tap = "{text}"', "label of 'tap' is empty or has more than one line") for text in ("", "  ", "A\\nB")),
    ],
)
def test_a_file_that_is_no_table_of_labels_is_refused(content: str | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "labels.toml").write_text(content)
    with pytest.raises(RequestError, match=words):
        read_labels(tmp_path / "labels.toml")


def test_a_label_of_a_name_stands_wherever_the_name_does() -> None:
    labels = {"tap": "Ours", "tap[epochs=5]": "Quick", "10 %": "one in ten"}
    texts = ("tap", "tap[epochs=9]", "tap[epochs=5]", "tap+tv", "tv+tap", "tapp", "10 %", "flat[kind=tap]")
    assert [called(text, labels) for text in texts] == [
        "Ours", "Ours[epochs=9]", "Quick", "Ours+tv", "tv+Ours", "tapp", "one in ten", "flat[kind=tap]",
    ]  # fmt: skip


def test_every_format_escapes_them(run_folder: Path) -> None:
    labels = {"learner": NASTY, "sea": "Sea & sky", "rmse": "error_r", "method": "Who", "40 %": "many"}
    table = Results(run_folder).table(labels=labels)
    root = parse(table.to("html"))
    assert NASTY in [item.text for item in root.every("th")]
    assert root.one("caption").text == "Sea & sky: error_r (m/s)"
    assert [item.text for item in root.every("th")][:3] == ["Who", "20 %", "many"]
    assert r"Ours \& \textless{}b\textgreater{}50 \%\textless{}/b\textgreater{} a\_b" in table.to("latex")
    assert r"Ours & \<b\>50 %\</b\> a\_b" in table.to("markdown")
    rows = list(csv.DictReader(io.StringIO(table.to("csv"))))
    assert {row["Who"] for row in rows} == {NASTY, "flat", "half", "fussy"}
    assert {row["metric"] for row in rows} == {"error_r"}


def test_labels_change_names_and_no_number(run_folder: Path) -> None:
    labels = {"learner": "A", "flat": "B", "sea": "Sea"}
    plain, named = Results(run_folder).compare(), Results(run_folder).compare(labels=labels)
    expected = str(plain).replace("learner", "A").replace("flat", "B").replace("sea", "Sea")
    assert str(named).split() == expected.split()
    assert [row["dataset"] for row in named.pairs()] == ["Sea"] * len(list(plain.pairs()))


@pytest.mark.parametrize("name", ["table", "compare", "plot", "report"])
@pytest.mark.parametrize(
    ("label", "complaint"),
    [
        ("lerner=Ours", "a label is for 'lerner', which this run does not have; did you mean 'learner'?"),
        ("learner=flat", "two methods would be called 'flat'; give each a label of its own"),
    ],
)
def test_every_command_refuses_a_label_for_nothing_in_one_line(
    name: str, label: str, complaint: str, run_folder: Path
) -> None:
    printed = command(name, run_folder, "--label", label)
    assert printed.code == 2
    assert (printed.err, printed.out) == (f"fieldbench: {complaint}\n", "")


def test_labels_of_a_whole_paper_serve_for_a_part_of_its_run(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.toml").write_text('learner = "Ours"\nflat = "Mean"\n')
    words = ["table", run_folder, "--only", "method=flat,half", "--labels", tmp_path / "labels.toml"]
    printed = command(*words).shown
    assert "Mean" in printed
    assert "learner" not in printed


CHINESE = "\u6211\u4eec"  # ours


def test_a_label_that_no_font_has_is_said_in_one_line(
    run_folder: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    nobody_has = "\U00012000\U00012001"  # cuneiform
    words = ["plot", run_folder, "--format", "png,svg", "--out", tmp_path, "--label", f"flat=O{nobody_has}"]
    done = command(*words, "--kind", "settings,strips")
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith(f"fieldbench: no font here has {nobody_has}: boxes stand for it")
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_a_font_that_has_a_label_is_used(run_folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    from matplotlib.font_manager import fontManager

    from fieldbench.report.figures import draw
    from fieldbench.report.figures.style import FALLBACKS, without_glyph

    if not set(FALLBACKS) & set(fontManager.get_font_names()):
        pytest.skip("no font for Chinese on this machine")
    figures = draw(StoredRun(run_folder, labels={"flat": CHINESE}), "settings").values()
    assert without_glyph(figures) == ""


def test_latex_says_what_pdflatex_cannot_write(run_folder: Path) -> None:
    words = ["table", run_folder, "--format", "latex"]
    printed = command(*words, "--label", f"flat={CHINESE}")
    assert printed.code == 0
    assert f"pdflatex stops at {CHINESE}: use lualatex" in printed.out.splitlines()[0]
    assert len(printed.err.splitlines()) == 1
    assert f"pdflatex stops at {CHINESE}" in printed.err
    done = command(*words, "--label", "flat=Fl\u00e4che \u2013 \u201c\u00df\u201d \u0141")
    assert done.code == 0
    assert done.err == ""
