"""The site of some runs: every link leads somewhere, every cell has its address, and nothing needs a server."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pytest

import fieldbench
from fieldbench.errors import RequestError
from fieldbench.registry import Sources
from fieldbench.report.comparison import about_masks
from fieldbench.report.page.contents import anchor
from fieldbench.report.site import slug, write_site
from fieldbench.results import Results
from tests.command import command
from tests.report.chromium import DESK, PHONE, faults, scheme, show
from tests.report.markup import Element, parse

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver


def run(out: Path, methods: list[str], datasets: list[str]) -> Path:
    return fieldbench.run(methods, datasets, rates=[0.3], trials=3, out=out, progress=False, jobs=1, device="cpu").path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    fields = ["gaussian-field[shape=6x6]", "ssf-synthetic[shape=4x4x4]"]
    return [
        run(folder / "first", ["nearest", "idw", "linear"], fields),
        run(folder / "Sea & air", ["nearest"], fields[:1]),
    ]


@pytest.fixture(scope="module")
def site(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(runs, tmp_path_factory.mktemp("public"), Sources()).parent


def test_there_is_a_page_of_each_run_dataset_and_method(site: Path) -> None:
    assert {page.name for page in site.glob("*.html")} == {
        "index.html", "run-first.html", f"run-{slug('Sea & air')}.html",
        "dataset-gaussian-field.html", "dataset-ssf-synthetic.html",
        "method-nearest.html", "method-idw.html", "method-linear.html",
    }  # fmt: skip


def anchors(page: Element) -> set[str]:
    return {item.attributes["id"] for item in page.every() if "id" in item.attributes}


def test_every_link_leads_somewhere_within_the_site(site: Path) -> None:
    pages = {page.name: parse(page.read_text()) for page in site.glob("*.html")}
    for name, page in pages.items():
        targets = [link.attributes["href"] for link in page.every("a")]
        targets += [image.attributes["src"] for image in page.every("img")]
        for target in targets:
            if target.startswith("data:"):
                continue
            path, _, fragment = target.partition("#")
            assert "://" not in path, f"{name} leads outside: {target}"
            assert not path or (site / unquote(path)).is_file(), f"{name}: {target}"
            if fragment:
                assert fragment in anchors(pages[path or name]), f"{name}: {target}"


def test_the_address_of_a_row_stays_when_runs_are_added(site: Path, runs: list[Path], tmp_path: Path) -> None:
    alone = write_site(runs[:1], tmp_path / "alone", Sources()).parent
    rows = [
        {row.attributes["id"] for row in parse((where / "run-first.html").read_text()).one(id="cells").every("tr")
         if "id" in row.attributes}
        for where in (site, alone)
    ]  # fmt: skip
    assert rows[0] == rows[1]
    assert len(rows[0]) == 6
    cell = {"method": "nearest", "dataset": "gaussian-field[shape=6x6]", "sampler": "random", "noise": "none"}
    assert anchor({**cell, "select": "final", "rate": 0.3}) in rows[0]


def test_pages_show_scores_ranks_floors_and_what_made_them(site: Path, runs: list[Path]) -> None:
    cells = [cell for cell in Results(runs[0]).table().cells() if "gaussian" in str(cell["dataset"])]
    page = (site / "method-idw.html").read_text()
    idw = next(cell for cell in cells if cell["method"] == "idw")
    rank = 1 + sum(cell["mean"] < idw["mean"] for cell in cells)
    figures = 1 - math.floor(math.log10(idw["interval"]))  # two of the half width
    assert f"rmse {idw['mean']:.{figures}f}" in page
    assert f"{rank} of 3" in page
    assert f"{idw['above_floor']:+.0f} %" in page
    assert "Shepard" in page or "nverse distance" in page
    assert "Best:" in page
    assert "floor: nobody can do better" in (site / "dataset-gaussian-field.html").read_text()
    assert "Mean rank over 6 draws" in (site / "run-first.html").read_text()


def test_records_can_be_downloaded_as_they_are(site: Path, runs: list[Path]) -> None:
    for name in ("trials.jsonl", "manifest.json", "floors.jsonl"):
        assert (site / "records" / "first" / name).read_bytes() == (runs[0] / name).read_bytes()


@pytest.mark.usefixtures("scheme_of_the_system")
@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize("page", ["index", "run-first", "dataset-gaussian-field", "method-idw"])
def test_axe_finds_nothing_wrong_and_nothing_overflows(browser: WebDriver, site: Path, page: str, name: str) -> None:
    scheme(browser, name)
    for width in (PHONE, DESK):
        show(browser, f"file://{site / page}.html", width)
        assert faults(browser) == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_two_runs_of_one_name_are_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="one name"):
        write_site([runs[0], runs[0]], tmp_path / "out", Sources())
    assert not (tmp_path / "out").exists()


def test_the_first_page_shows_every_mean_with_the_best_bold_ranks_and_floors(site: Path, runs: list[Path]) -> None:
    tables = list(parse((site / "index.html").read_text()).every("table"))
    rows = [[cell.text for cell in row.every("td")] for row in tables[0].every("tr")][1:]
    bold = [[any(cell.every("strong")) for cell in row.every("td")] for row in tables[0].every("tr")][1:]
    assert len(tables) == len(runs)
    frame = Results(runs[0]).frame()
    means = frame.groupby(["dataset", "method"], observed=True)["rmse"].mean()
    shown = {row[0]: row[2:] for row in rows}
    for column, dataset in enumerate(["gaussian-field[shape=6x6]", "ssf-synthetic[shape=4x4x4]"]):
        for method in ("nearest", "idw", "linear"):
            assert float(shown[method][column]) == pytest.approx(means[dataset, method], rel=0.01)
        best = [row[0] for row, strong in zip(rows, bold, strict=True) if strong[2 + column]]
        assert best == [means[dataset].idxmin()]
    ranks = frame.assign(rank=frame.groupby(["dataset", "trial"], observed=True)["rmse"].rank()).groupby("method")[
        "rank"
    ]
    order = ranks.mean().sort_values()
    assert [row[0] for row in rows] == [*order.index, "floor"]
    assert [float(row[1].split(" ± ")[0]) for row in rows[:-1]] == pytest.approx([*order], abs=0.05)
    assert rows[-1][1:] == ["", rows[-1][2], ""]
    assert float(rows[-1][2]) < means["gaussian-field[shape=6x6]"].min()


def test_the_first_page_says_what_trials_of_one_field_speak_about(tmp_path: Path) -> None:
    np.save(tmp_path / "field.npy", np.add.outer(np.arange(6.0), np.arange(6.0)))
    out = run(tmp_path / "run", ["nearest"], [f"file[path={tmp_path / 'field.npy'}]"])
    (dataset,) = Results(out).frame()["dataset"].unique()
    page = parse(write_site([out], tmp_path / "site", Sources()).read_text())
    assert about_masks([dataset]) in page.text


def test_labels_take_the_place_of_names_and_change_no_address(site: Path, runs: list[Path], tmp_path: Path) -> None:
    words = ["site", *map(str, runs), "--out", f"{tmp_path}/labelled"]
    labels = ["--label", "idw=Weighted & near", "--label", "gaussian-field=Gauss", "--label", "nearest=Next"]
    assert "index.html" in command(*words, *labels).shown
    labelled = tmp_path / "labelled"
    assert {page.name for page in labelled.glob("*.html")} == {page.name for page in site.glob("*.html")}
    for page in labelled.glob("*.html"):
        root, plain = parse(page.read_text()), parse((site / page.name).read_text())
        assert anchors(root) == anchors(plain)
        told, before = (
            [item.text for name in ("td", "th", "h1", "a", "caption", "li") for item in page.every(name)]
            for page in (root, plain)
        )
        for name, label in (("idw", "Weighted & near"), ("gaussian-field", "Gauss"), ("nearest", "Next")):
            is_named = [any(text == name or text.startswith(f"{name}[") for text in texts) for texts in (told, before)]
            assert not is_named[0], (page.name, name)
            assert any(label in text for text in told) or not is_named[1], (page.name, label)
    refusal = command(*words, "--label", "idv=Ours").refusal
    assert "a label is for 'idv', which no run has; did you mean 'idw'" in refusal


def test_a_site_goes_into_a_folder(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    refusal = command("site", runs[0], "--out", f"{tmp_path}/a-file").refusal
    assert "a file stands where a folder has to be" in refusal
