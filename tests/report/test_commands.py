"""The commands that show a run: what they print, where they write, and what they refuse in one line."""

from __future__ import annotations

import re
import shutil
import urllib.request
import webbrowser
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from fieldbench.report.stored import StoredRun
from fieldbench.results import Results
from tests.command import command


@pytest.fixture
def run(run_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(run_folder, tmp_path / "sea-run")
    return tmp_path / "sea-run"


def test_compare_prints_the_sentence_first_and_csv_for_programs(run: Path) -> None:
    done = command("compare", run, "--only", "rate=0.4", "--only", "method=learner,half")
    assert done.code == 0
    expected = Results(run).compare(only={"rate": [0.4], "method": ["learner", "half"]})
    printed = " ".join(done.out.split())  # lines end where the terminal does
    assert printed.startswith(expected.sentence)
    rows = command("compare", run, "--format", "csv").rows
    assert len(rows) == 3 + 6  # pairs of three methods at the lower rate, of four at the higher
    assert {row["dataset"] for row in rows} == {"sea"}


def test_plot_writes_every_kind_it_can_and_says_what_it_cannot(run: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    printed = command("plot", run, "--only", "method=learner,fussy", "--only", "rate=0.4", "--format", "svg")
    assert printed.code == 0
    files = sorted(Path(line).name for line in printed.out.splitlines())
    assert files == ["cost-sea-rate-40.svg", "epoch-sea-rate-40.svg", "settings.svg", "strips-sea-rate-40.svg"]
    assert all((run / "figures" / name).read_text().startswith("<?xml") for name in files)
    assert "no rate: there is nothing to draw against the rate" in printed.err


def test_plot_draws_what_it_can_of_one_method(run: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    printed = command("plot", run, "--only", "method=learner", "--format", "svg")
    assert printed.code == 0
    assert {Path(line).name.partition("-")[0] for line in printed.out.splitlines()} == {
        *("settings.svg", "rate", "epoch", "cost", "strips")
    }
    assert "no ranks: ranks need three methods" in printed.err


def test_a_wrong_kind_is_refused_before_anything_is_written(run: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    assert "unknown kind of figure 'all'; all goes alone" in command("plot", run, "--kind", "strips,all").refusal
    assert not (run / "figures").exists()


def test_trials_that_are_left_out_are_not_missing(run: Path) -> None:
    rows = command("table", run, "--only", "trial=0", "--format", "csv").rows
    assert {(row["planned"], row["count"]) for row in rows if row["failed"] == "0"} == {("1", "1")}


def test_plot_says_which_figure_is_higher_than_a_page(write_run: Callable[..., StoredRun]) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    rows = [
        {"method": f"idw[power={power}]", "rate": rate, "metrics": {"rmse": 1.0}}
        for power in range(1, 51)
        for rate in (0.1, 0.2, 0.3, 0.4, 0.5)
    ]
    many = write_run(*rows).path
    done = command("plot", many, "--kind", "settings", "--width", "column", "--format", "svg")
    assert done.code == 0
    assert re.search(r"settings is \d+ inches high, more than a page; --width column", done.err)
    done = command("plot", many, "--kind", "settings", "--only", "rate=0.1", "--format", "svg")
    assert done.code == 0
    assert done.err == ""


def test_plot_takes_width_style_colours_and_labels(run: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    words = ["--kind", "settings", "--format", "svg", "--width", "column", "--style", "dark"]
    done = command("plot", run, *words, "--colour", "flat=#56b4e9", "--label", "flat=Level")
    assert done.code == 0
    drawn = Path(done.out.strip()).read_text()
    assert 'width="252pt"' in drawn  # 3.5 inches
    assert "#14171c" in drawn  # the ground
    assert "#56b4e9" in drawn
    assert "<!-- Level -->" in drawn
    assert "<!-- flat -->" not in drawn


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["compare", "RUN", "--only", "rate"], "write --only rate=0.1"),
        (["compare", "RUN", "--format", "cvs"], "did you mean 'csv'"),
        (["compare", "RUN", "--average", "trial"], "cannot average over 'trial'"),
        (["compare", "RUN", "--metric", "status"], "unknown metric 'status'"),
        (["table", "RUN", "RUN"], "two folders are called 'sea-run'"),
        (["table", "RUN", "--rows", "methd"], "unknown factor 'methd'; did you mean 'method'"),
        (["table", "RUN", "--rows", "rate"], "factor 'rate' cannot be both rows and columns"),
        (["table", "RUN", "--metric", "rmes"], "unknown metric 'rmes'; did you mean 'rmse'"),
        (["table", "RUN", "--spread", "sdt"], "unknown spread 'sdt'; did you mean 'std'"),
        (["table", "RUN", "--format", "latx"], "did you mean 'latex'"),
        (["table", "RUN", "--order", "method"], "write --order rate=0.1"),
        (["table", "RUN", "--width", "12"], "Invalid value for '--width'"),
        (["plot", "RUN", "--kind", "slice"], "did you mean 'slices'"),
        (["plot", "RUN", "--format", "jpg"], "unknown format 'jpg'"),
        (["plot", "RUN", "--width", "page"], "unknown width 'page'; write column, text or inches, such as 5.5"),
        (["plot", "RUN", "--width", "100"], "a figure cannot be 100 inches wide; choose 2.5 to 40"),
        (["plot", "RUN", "--style", "drak"], "did you mean 'dark'"),
        (["plot", "RUN", "--colour", "flat"], "write --colour tap=#d55e00"),
        (["plot", "RUN", "--colour", "flt=red"], "a colour is for 'flt', which is not drawn; did you mean 'flat'"),
        (["plot", "RUN", "--colour", "flat=blu"], "the colour of flat is 'blu'"),
        (["plot", "RUN", "--kind", "slices", "--at", "a"], "write --at 0,5,10"),
        (["plot", "RUN", "--kind", "slices", "--trial", "99"], "no trial 99 ended well; these did: 0, 1, 2, 3"),
        (["plot", "RUN", "--kind", "settings", "--at", "1"], "'at' has no effect on settings; it is for slices, devi"),
        (["plot", "RUN", "--trial", "1"], "it is for slices, deviation, attention"),
        (["plot", "RUN", "--kind", "slices", "--colour", "flat=red"], "a colour has no effect on slices; it is for se"),
        (["plot", "RUN", "--kind", "attention", "--axis", "x"], "'axis' has no effect on attention"),
        (["plot", "RUN", "--kind", "deviation", "--at", "1,2"], "deviation shows one slice; give one index, such as 1"),
        (["plot", "RUN", "--colour", "flat=white"], "'white', which cannot be seen on the ground; take a darker one"),
        (["plot", "RUN", "--colour", "flat=navy", "--style", "dark"], "take a lighter one"),
        (["plot", "RUN", "--colour", "flat=none"], "the colour of flat is 'none'"),
        (["plot", "RUN", "--kind", "settings", "--out", "A-FILE"], "a-file: a file stands where a folder has to be"),
        (["plot", "RUN", "--kind", "settings", "--out", "A-FILE/x"], "a file stands where a folder has to be"),
        (["report", "RUN", "--out", "A-FILE/x.html"], "a-file: a file stands where a folder has to be"),
        (["report", "RUN", "--out", "RUN"], "Is a directory"),
        (["table", "RUN", "--only", "learner.speed=2"], "unknown factor 'learner.speed'"),
        (["table", "RUN", "--only", "trail=0"], "unknown factor 'trail'; did you mean 'trial'"),
        (["report", "nowhere"], "nowhere is not a run"),
        (["watch", "nowhere"], "nowhere is not a run"),
    ],
)
def test_wrong_requests_get_one_line_and_code_2(run: Path, words: list[str], complaint: str) -> None:
    (run.parent / "a-file").write_text("")
    printed = command(*(word.replace("RUN", str(run)).replace("A-FILE", f"{run.parent}/a-file") for word in words))
    assert printed.code == 2
    assert complaint in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""


def test_report_lies_in_the_run_by_default(run: Path) -> None:
    path = Path(command("report", run).shown.strip().removeprefix("Wrote "))
    assert path == run / "report.html"
    assert "<h1>sea-run</h1>" in path.read_text()


def test_watch_names_its_address_and_ends_quietly(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)

    def one_request_then_ctrl_c(server: ThreadingHTTPServer) -> None:
        import threading

        answers: list[bytes] = []
        asking = threading.Thread(target=lambda: answers.append(urllib.request.urlopen(opened[0]).read()))
        asking.start()
        server.handle_request()
        asking.join()
        assert b"32 of 32 trials are done" in answers[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", one_request_then_ctrl_c)
    assert command("watch", run).shown.startswith(opened[0])


def test_a_table_of_several_folders_in_the_users_order(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other-run"
    shutil.copytree(run, other)
    for folder, left_out in ((run, '"learner"'), (other, '"flat"')):
        lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
        (folder / "trials.jsonl").write_text("".join(line for line in lines if left_out not in line))
    words = ["table", run, other, "--only", "rate=0.4", "--only", "method=learner,half,flat", "--format", "csv"]
    rows = command(*words, "--order", "method=half").rows
    assert [(row["method"], row["count"], row["planned"]) for row in rows] == [
        ("half", "4", "4"), ("learner", "4", "4"), ("flat", "4", "4"),
    ]  # fmt: skip
    rows = command(*words, "--rows", "run,method").rows
    counts = {(row["run"], row["method"]): row["count"] for row in rows if row["count"] != "0"}
    assert counts == {
        ("sea-run", "half"): "4", ("sea-run", "flat"): "4", ("other-run", "half"): "4", ("other-run", "learner"): "4",
    }  # fmt: skip


def test_methods_of_two_folders_are_compared(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other-run"
    shutil.copytree(run, other)
    for folder, kept in ((run, "learner"), (other, "flat")):
        lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
        (folder / "trials.jsonl").write_text("".join(line for line in lines if f'"method":"{kept}"' in line))
    (row,) = command("compare", run, other, "--only", "rate=0.4", "--format", "csv").rows
    assert {row["better"], row["worse"]} == {"learner", "flat"}
    assert row["count"] == "4"


@pytest.mark.parametrize("name", ["table", "compare"])
def test_both_tables_come_in_every_format_and_fit_the_terminal(
    name: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = {"text": ("sea", "learner", "half", "flat"), "markdown": ("sea", "learner", "half", "flat"),
              "latex": ("% needs",), "html": ("<div",), "csv": ("sampler", "dataset")}  # fmt: skip
    for format, expected in starts.items():
        assert command(name, run, "--format", format).shown.startswith(expected), format
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, command(name, run).shown.splitlines())) <= 60
    assert 60 < max(map(len, command(name, run, "--width", "100").shown.splitlines())) <= 100


def test_a_baseline_that_is_not_there_is_refused(run: Path) -> None:
    done = command("compare", run, "--baseline", "lerner")
    assert done.code == 2
    assert done.err == "fieldbench: the baseline 'lerner' is not in this run; did you mean 'learner'?\n"
    rows = command("compare", run, "--baseline", "learner", "--format", "csv").rows
    assert len(rows) == 2 + 3  # of the other methods that have scores
    assert all("learner" in (row["better"], row["worse"]) for row in rows)


def test_only_takes_parameters_as_rows_do(write_run: Callable[..., StoredRun]) -> None:
    methods = ["idw[power=1.0]", "idw[power=2.0]", "nearest"]
    path = write_run(
        *({"method": method, "metrics": {"rmse": 1.0}} for method in methods),
        parameters={"idw[power=1.0]": {"idw.power": "1.0"}, "idw[power=2.0]": {"idw.power": "2.0"}},
    ).path
    for words, kept in (
        (["--only", "idw.power=2"], [methods[1]]),
        (["--only", "power=2,-"], methods[1:]),
        (["--only", "method=idw", "--only", "power=1"], methods[:1]),
    ):
        assert [row["method"] for row in command("table", path, *words, "--format", "csv").rows] == kept


def test_a_label_stands_for_its_method_in_options(run: Path) -> None:
    words = ["--label", "learner=Ours", "--only", "rate=0.4", "--format", "csv"]
    for name in ("learner", "Ours"):
        rows = command("compare", run, "--baseline", name, *words).rows
        assert all("Ours" in (row["better"], row["worse"]) for row in rows)
        assert len(rows) == 3
        rows = command("table", run, "--only", f"method={name},half", "--order", f"method={name}", *words).rows
        assert [row["method"] for row in rows] == ["Ours", "half"]


def test_a_baseline_may_leave_its_parameters_out(write_run: Callable[..., StoredRun]) -> None:
    methods = ["idw[power=1.0]", "idw[power=2.0]", "tap[epochs=5]"]
    path = write_run(*({"method": method, "metrics": {"rmse": 1.0}} for method in methods)).path
    assert len(command("compare", path, "--baseline", "tap", "--format", "csv").shown.splitlines()) == 3
    done = command("compare", path, "--baseline", "idw")
    assert done.code == 2
    assert "may be any of idw[power=1.0], idw[power=2.0]; give one of these" in done.err


def test_a_run_without_records_has_no_page(write_run: Callable[..., StoredRun]) -> None:
    path = write_run().path
    assert "has no record yet" in command("report", path).refusal
    assert not (path / "report.html").exists()


@pytest.mark.parametrize("columns", ["40", "52", "80"])
def test_a_narrow_terminal_breaks_no_name(run: Path, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    words = ["--label", "learner=tucker-als", "--label", "flat=thin-plate"]
    printed = command("compare", run, "--only", "rate=0.4", *words).shown
    assert max(map(len, printed.splitlines())) <= int(columns)
    for name in ("tucker-als", "thin-plate", "half", "fussy"):
        assert printed.split().count(name) >= 3  # in each of its pairs
        assert not {name[:end] for end in range(3, len(name))} & set(printed.split())
