"""The page: what it says, and how it behaves in a real browser."""

from __future__ import annotations

import base64
import json
import math
import re
import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fieldbench
from fieldbench import Estimate, reconstructions
from fieldbench.reconstructions import Reconstruction
from fieldbench.report.page import page, write_page
from fieldbench.report.page.browser import make_album
from fieldbench.report.page.drawings import Drawing
from fieldbench.report.stored import StoredRun
from tests.report.chromium import DESK, PHONE, faults, scheme, show, until
from tests.report.conftest import written_run
from tests.report.markup import Element, parse

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def path(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(StoredRun(run_folder), tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def root(text: str) -> Element:
    return parse(text)


def test_nothing_is_fetched_from_anywhere(root: Element) -> None:
    names = ("src", "href", "srcset", "action", "data")
    addresses = [item.attributes[name] for item in root.every() for name in names if name in item.attributes]
    assert addresses
    assert [address for address in addresses if not address.startswith(("data:", "#"))] == []
    styles = [style.text for style in root.every("style")]
    assert styles
    assert not any(word in style for style in styles for word in ("@import", "url("))


def test_text_of_plugins_cannot_become_markup(root: Element) -> None:
    assert "<b>too sparse</b> & 'quoted'" in root.text
    assert not any(item.text == "too sparse" for item in root.every("b"))


def test_failures_are_counted_and_named_with_where_they_were_raised(root: Element) -> None:
    assert "32 of 32 trials are done; 4 failed" in root.text
    assert "ValueError: </script>" in root.text
    assert "sea rate 0.2 trial 0, sea rate 0.2 trial 1" in root.text
    (traceback,) = {item.text for item in root.every("pre") if item.text.startswith("Traceback ")}
    raised, line = traceback.splitlines()[-3:-1]
    assert raised.endswith("in complete")
    assert line.strip() == "raise ValueError(NASTY)"


def test_numbers_of_cells_are_as_the_script_reads_them(write_run: Callable[..., StoredRun]) -> None:
    """``Number`` of JavaScript knows ``Infinity`` and no other word for it."""
    scores = [1.5, math.inf, -math.inf, math.nan]
    run = write_run(*({"trial": number, "metrics": {"rmse": score}} for number, score in enumerate(scores)))
    rows = parse(page(run, [])).one(id="trials-table").rows()
    assert [(trial.text, status.text, score.attributes["data-value"]) for _, trial, status, score, *_ in rows] == [
        ("0", "ok", "1.5"), ("1", "ok", "Infinity"), ("2", "ok", "-Infinity"), ("3", "ok", ""),
    ]  # fmt: skip


def test_seeds_have_rows_of_their_own(two_seeds: StoredRun) -> None:
    rows = parse(page(two_seeds, [])).one(id="cells").rows()
    assert [(row[0].text, row[1].attributes["data-value"], row[1].text) for row in rows] == [
        ("a", "0.0", "0"), ("b", "0.0", "0"), ("a", "2.0", "2"), ("b", "2.0", "2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("commands", "said", "lines"),
    [
        (["run --out x --fresh", "run --out x --retry-failed"], "This command repeats it,", ["run --out x"]),
        (
            ["run --seed 0", "run --seed 2 --fresh"],
            "Each of these commands repeats its part,",
            ["run --seed 0", "run --seed 2"],
        ),
    ],
)
def test_the_commands_that_repeat_a_run_destroy_nothing(
    write_run: Callable[..., StoredRun], commands: list[str], said: str, lines: list[str]
) -> None:
    sessions = [{"command": ["/somewhere/bin/fieldbench", *command.split()]} for command in commands]
    root = parse(page(write_run({"metrics": {"rmse": 1.0}}, manifest={"sessions": sessions}), []))
    assert f"{said} or goes on where it stopped:" in [item.text for item in root.every("p")]
    assert "\n".join(f"fieldbench {line}" for line in lines) in [item.text for item in root.every("pre")]


def test_the_command_that_repeats_it_has_no_path_of_this_machine(root: Element) -> None:
    assert "fieldbench run --methods learner,flat,half,fussy" in [item.text for item in root.every("pre")]


def test_scores_of_uncertainty_are_columns_where_a_method_has_them(write_run: Callable[..., StoredRun]) -> None:
    mute = {"method": "mute", "trial": 0, "metrics": {"rmse": 1.0, "crps": 0.5}}
    sure = {"method": "sure", "trial": 0, "metrics": {"rmse": 1.0, "crps": 0.25, "coverage90": 0.875, "width90": 3.5}}
    run = write_run(mute, sure)
    alone = parse(page(StoredRun(run.path, only={"method": ["mute"]}), [])).one(id="cells")
    assert [head.text for head in alone.every("th")] == ["method", "RMSE", "from 0"]
    both = parse(page(run, [])).one(id="cells")
    assert [head.text for head in both.every("th")][3:] == ["crps", "coverage90", "width90"]
    assert [[cell.text for cell in row[3:]] for row in both.rows()] == [
        ["0.500", "-", "-"], ["0.250", "0.875", "3.50"],
    ]  # fmt: skip


def test_what_a_reader_looks_for_first_stands_first(root: Element) -> None:
    order = [item.text for item in root.every("h2")]
    assert order == ["Results", "Figures", "Slices", "Comparison", "Failures", "Trials", "Provenance"]
    folded = [table.attributes["id"] for item in root.every("details") for table in item.every("table")]
    assert folded == ["pairs", "trials-table"]
    assert not [item for item in root.every("details") if "open" in item.attributes]


def test_labels_take_the_place_of_names(run_folder: Path) -> None:
    labels = {"learner": "Ours & more", "sea": "Ocean", "rmse": "Error", "rate": "observed"}
    root = parse(page(StoredRun(run_folder, labels=labels), [], make_album(StoredRun(run_folder, labels=labels))))
    table = root.one(id="cells")
    assert [head.text for head in table.every("th")][:3] == ["method", "observed", "Error (m/s)"]
    assert {row[0].text for row in table.rows()} == {"Ours & more", "flat", "half", "fussy"}
    album = json.loads(root.one("script", type="application/json", id="album").text)
    assert [method["name"] for method in album["entries"][0]["methods"]] == ["Ours & more", "flat", "half"]
    assert all(method["score"].startswith("Error ") for method in album["entries"][0]["methods"])
    assert "Ocean" in table.one("caption").text
    told = [item for item in root.every("section") if item.attributes["aria-labelledby"] != "provenance"]
    assert "learner" not in "".join(item.text for item in told)


def test_the_album_holds_the_fields_to_half_a_level(root: Element, run_folder: Path) -> None:
    album = json.loads(root.one("script", type="application/json", id="album").text)
    assert [(entry["setting"], entry["draw"]) for entry in album["entries"]] == [
        ("sea, rate 20 %", "trial 0"),
        ("sea, rate 40 %", "trial 0"),
    ]
    entry = album["entries"][1]
    stored = StoredRun(run_folder)
    row = next(row for row in stored.rows() if row["method"] == "learner" and row["rate"] == 0.4 and row["trial"] == 0)
    fields = stored.reconstruction(row)
    truth = _levels(entry["truth"], fields.truth.shape)
    low, high = -np.abs(fields.truth.values).max(), np.abs(fields.truth.values).max()
    np.testing.assert_allclose(low + truth / 254 * (high - low), fields.truth.values, atol=(high - low) / 254 / 1.99)
    np.testing.assert_array_equal(_levels(entry["observed"], fields.truth.shape) != 255, fields.observation.mask)
    assert [method["name"] for method in entry["methods"]] == ["learner", "flat", "half", "fussy"]


def test_the_album_holds_every_kept_field_beside_the_truth_of_its_own_draw(two_seeds: StoredRun) -> None:
    album = make_album(two_seeds)
    assert [(entry["draw"], [method["name"] for method in entry["methods"]]) for entry in album.entries] == [
        ("seed 0, trial 0", ["a", "b"]),
        ("seed 2, trial 0", ["a", "b"]),
        ("seed 0, trial 1", ["a"]),
        ("seed 2, trial 1", ["a", "b"]),
    ]
    assert [entry["low"] for entry in album.entries] == [0, 20, 1, 21]
    assert {entry["largest"] for entry in album.entries} == {0.25}
    assert (album.left_out, album.not_kept) == (0, 0)


def _levels(packed: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8).reshape(shape).astype(int)


def test_without_matplotlib_the_tables_are_there_and_the_extra_is_named(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("fieldbench.report.figures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = write_page(StoredRun(run_folder), tmp_path / "page.html").read_text()
    root = parse(text)
    assert "fieldbench-completion[plots]: pip install '.[plots]'" in root.text
    assert list(root.every(id="cells"))
    assert not list(root.every("img"))


def test_a_page_says_what_trials_of_one_field_speak_about(write_run: Callable[..., StoredRun]) -> None:
    rows = [
        {"method": method, "trial": trial, "metrics": {"rmse": float(trial)}} for method in "ab" for trial in range(3)
    ]
    root = parse(page(write_run(*rows, fixed=["sea"]), []))
    said = [item.text for item in root.every("li") if "the trials on sea share one field" in item.text]
    assert len(said) == 2  # below the table, and below the pairs


# In a real browser.


@pytest.fixture
def opened(browser: WebDriver, path: Path) -> WebDriver:
    show(browser, f"file://{path}", DESK)
    return browser


def column(browser: WebDriver, table: str, index: int) -> list[str]:
    script = """return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter(row => !row.hidden)
        .map(row => row.cells[arguments[1]].textContent)"""
    return list(browser.execute_script(script, table, index))


def test_it_renders_without_a_word_on_the_console(opened: WebDriver) -> None:
    assert opened.find_element("css selector", "h1").text == "sea-run"
    assert "flat" in opened.find_element("css selector", ".lead").text
    broken = "return [...document.images].filter(image => !image.complete || image.naturalWidth === 0).length"
    assert opened.execute_script(broken) == 0
    assert opened.execute_script("return document.images.length") >= 7
    assert opened.get_log("browser") == []


def test_tables_sort_by_number_both_ways_and_leave_gaps_last(opened: WebDriver) -> None:
    button = opened.find_element("css selector", "#cells thead th:nth-child(3) button")
    assert button.text == "RMSE (m/s)"
    button.click()
    values = column(opened, "cells", 2)
    assert values[-1] == "failed"  # the cell without any finished trial
    numbers = [float(value.split()[0]) for value in values[:-1]]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 3
    button.click()
    values = column(opened, "cells", 2)
    assert values[-1] == "failed"
    assert [float(value.split()[0]) for value in values[:-1]] == numbers[::-1]
    assert opened.find_element("css selector", "#cells th:nth-child(3)").get_attribute("aria-sort") == "descending"
    opened.find_element("css selector", "#cells th:nth-child(1) button").click()
    assert column(opened, "cells", 0) == sorted(column(opened, "cells", 0))


@pytest.fixture(scope="module")
def page_of_rates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two methods at rates whose texts hold one another; scores are the rates themselves."""
    folder = tmp_path_factory.mktemp("rates")
    run = written_run(
        folder / "run",
        *(
            {"method": method, "rate": rate, "metrics": {"rmse": rate}}
            for method in ("thin-plate", "plate[size=2]")
            for rate in (0.005, 0.05, 0.15, 0.5)
        ),
        order=["thin-plate", "plate[size=2]"],
    )
    return write_page(run, folder / "rates.html")


@pytest.fixture
def rates(browser: WebDriver, page_of_rates: Path) -> WebDriver:
    show(browser, f"file://{page_of_rates}", DESK)
    return browser


@pytest.mark.parametrize(
    ("head", "asked", "index", "found"),
    [
        ("rate", "5 %", 1, ["5 %"]),
        ("rate", "5%", 1, ["5 %"]),
        ("rate", "5", 1, ["5 %", "50 %"]),
        ("rate", ">= 15", 1, ["15 %", "50 %"]),
        ("rate", "< 5 %", 1, ["0.5 %"]),
        ("RMSE", "<0.1", 1, ["0.5 %", "5 %"]),
        ("method", "PLATE", 0, ["thin-plate", "plate[size=2]"]),
        ("method", "plate[size", 0, ["plate[size=2]"]),
        ("method", "late", 0, []),
        ("method", "[size=2]", 0, ["plate[size=2]"]),
        ("method", " ", 0, ["thin-plate", "plate[size=2]"]),
    ],
)
def test_a_filter_finds_in_its_column_what_was_typed(
    rates: WebDriver, head: str, asked: str, index: int, found: list[str]
) -> None:
    field = rates.find_element("css selector", f"#cells [data-filter='{head}']")
    field.send_keys(asked)
    assert list(dict.fromkeys(column(rates, "cells", index))) == found
    count = len(column(rates, "cells", index))
    assert f"{count} of 8 rows" in rates.find_element("css selector", "#results ~ .controls").text


def test_rows_can_be_hidden_and_brought_back(rates: WebDriver) -> None:
    menu = rates.find_element("css selector", "#results ~ .controls details")
    menu.find_element("css selector", "summary").click()
    labels = {label.text: label for label in menu.find_elements("css selector", "label")}
    assert list(labels) == ["thin-plate", "plate[size=2]", "0.5 %", "5 %", "15 %", "50 %"]
    labels["thin-plate"].click()
    labels["5 %"].click()
    assert column(rates, "cells", 0) == ["plate[size=2]"] * 3
    assert column(rates, "cells", 1) == ["0.5 %", "15 %", "50 %"]
    rates.find_element("css selector", "#results ~ .controls > button").click()
    assert len(column(rates, "cells", 0)) == 8


def test_single_rows_can_be_hidden_by_pointer_and_keyboard(rates: WebDriver) -> None:
    from selenium.webdriver.common.keys import Keys

    def rows() -> list[tuple[str, str]]:
        return list(zip(column(rates, "cells", 0), column(rates, "cells", 1), strict=True))

    everything = rows()
    hide = rates.find_element("css selector", "#cells tbody tr:nth-child(2) .hide")
    assert hide.accessible_name == f"Hide {everything[1][0]}, {everything[1][1]}, 0.00500"
    rates.execute_script("arguments[0].focus()", hide)
    hide.send_keys(Keys.ENTER)
    assert rows() == [*everything[:1], *everything[2:]]
    rates.switch_to.active_element.click()  # the next row's
    assert rows() == [*everything[:1], *everything[3:]]
    assert "6 of 8 rows" in rates.find_element("css selector", "#results ~ .controls").text
    rates.find_element("css selector", "#cells thead th:nth-child(2) button").click()
    assert set(rows()) == {*everything[:1], *everything[3:]}  # sorting brings none back
    rates.find_element("css selector", "#results ~ .controls > button").click()
    assert set(rows()) == set(everything)


def part(browser: WebDriver, name: str) -> Any:
    return browser.find_element("css selector", f"#browser [data-part='{name}']")


def pixels(browser: WebDriver, name: str) -> np.ndarray:
    """Red, green, blue and opacity of the cells of a slice, shape (height, width, 4)."""
    script = """const canvas = document.querySelector(`[data-part="${arguments[0]}"]`);
        const {width, height, dataset} = canvas, small = document.createElement('canvas');
        Object.assign(small, {width: width / dataset.cell, height: height / dataset.cell});
        const context = small.getContext('2d');
        context.imageSmoothingEnabled = false;
        context.drawImage(canvas, 0, 0, small.width, small.height);
        return [small.width, small.height, ...context.getImageData(0, 0, small.width, small.height).data]"""
    width, height, *values = browser.execute_script(script, name)
    return np.array(values).reshape(height, width, 4)


def choose(browser: WebDriver, **texts: str) -> None:
    from selenium.webdriver.support.ui import Select

    for name, text in texts.items():
        Select(part(browser, name)).select_by_visible_text(text)


def test_the_slice_browser_draws_what_is_chosen(opened: WebDriver, run_folder: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    choose(opened, setting="sea, rate 40 %")
    part(opened, "slice").send_keys(Keys.HOME)
    part(opened, "slice").send_keys(Keys.ARROW_RIGHT)
    until(opened, "return document.getElementById('browser').dataset.shown === 'sea, rate 40 %|trial 0|2|1'")
    observed = pixels(opened, "observed")[..., 3] > 0  # unobserved entries stay transparent
    stored = StoredRun(run_folder)
    row = next(row for row in stored.rows() if row["method"] == "fussy" and row["rate"] == 0.4 and row["trial"] == 0)
    np.testing.assert_array_equal(observed[::-1], stored.reconstruction(row).observation.mask[:, :, 1].T)
    estimate = pixels(opened, "estimate of fussy").reshape(-1, 4)
    assert len({tuple(pixel) for pixel in estimate}) == 1  # fussy says zero everywhere
    shown = "return [...document.querySelectorAll('#browser canvas[data-part]')].map(item => item.dataset.part)"
    assert [name for name in opened.execute_script(shown) if name.startswith(("estimate", "error"))] == [
        f"{what} of {method}" for method in ("learner", "flat", "half", "fussy") for what in ("estimate", "error")
    ]
    caption = opened.find_element("css selector", "#browser figcaption").text
    assert all(words in caption for words in ("sea, rate 40 %", "trial 0", "depth 10 m"))
    assert opened.get_log("browser") == []


def test_methods_can_be_left_out_of_the_slices(opened: WebDriver) -> None:
    menu = opened.find_element("css selector", "#browser details")
    menu.find_element("css selector", "summary").click()
    next(label for label in menu.find_elements("css selector", "label") if label.text == "flat").click()
    until(opened, "return !document.querySelector('[data-part=\"error of flat\"]')")
    assert pixels(opened, "error of half").any()


def test_slices_have_axes_and_depth_grows_downwards(opened: WebDriver, run_folder: Path) -> None:
    choose(opened, setting="sea, rate 40 %", axis="y")
    until(opened, "return document.getElementById('browser').dataset.shown === 'sea, rate 40 %|trial 0|1|3'")
    texts = """return [...document.querySelectorAll(arguments[0])]
        .map(item => [...item.querySelectorAll('span')].map(span => span.textContent))"""
    (up, across), (below, *_) = (opened.execute_script(texts, name) for name in ("#browser .axis", "#browser .ticks"))
    assert up == across == ["depth (m) ←", "0", "20", "40"]  # the label is turned: its arrow points down
    assert below == ["0", "16", "40", "x (km) →"]
    stored = StoredRun(run_folder)
    row = next(row for row in stored.rows() if row["method"] == "flat" and row["rate"] == 0.4 and row["trial"] == 0)
    mask = stored.reconstruction(row).observation.mask
    np.testing.assert_array_equal(pixels(opened, "observed")[..., 3] > 0, mask[:, 3, :].T)
    assert "depth grows downwards" in opened.find_element("css selector", "#browser figcaption").text


def test_the_value_under_the_pointer_is_shown_for_every_method(opened: WebDriver, run_folder: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    choose(opened, setting="sea, rate 40 %", axis="depth")
    until(opened, "return document.getElementById('browser').dataset.shown === 'sea, rate 40 %|trial 0|2|2'")
    stored = StoredRun(run_folder)
    rows = {row["method"]: row for row in stored.rows() if row["rate"] == 0.4 and row["trial"] == 0}
    names = "return [...document.querySelectorAll('#browser .name')].map(item => item.textContent)"

    def expected(x: int, y: int) -> list[tuple[str, float]]:
        fields = {method: stored.reconstruction(rows[method]) for method in ("flat", "half")}
        truth = fields["flat"].truth.values[x, y, 2]
        estimates = [(method, item.estimate[x, y, 2]) for method, item in fields.items()]
        return [("truth", truth), *estimates]

    def said(expected: list[tuple[str, float]]) -> None:
        shown = opened.execute_script(names)
        step = float(2 * np.abs(stored.reconstruction(rows["flat"]).truth.values).max() / 254)
        for name, value in expected:
            text = next(item for item in shown if item.startswith(name)).removeprefix(name)
            number, unit = text.removeprefix("≥ ").removeprefix("≤ ").replace("\N{MINUS SIGN}", "-").split(" ")
            assert unit == "m/s"
            assert float(number) == pytest.approx(value, abs=step)

    error = part(opened, "error of flat")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", error)
    ActionChains(opened).move_to_element_with_offset(error, 5, 0).perform()
    spoken = opened.find_element("css selector", "#browser [role=status]")
    assert spoken.get_attribute("textContent").startswith("x 24 km, y 24 km: truth ")
    said(expected(3, 3))  # the middle of 6 by 7 cells, the fourth from the left and from below
    panels = opened.find_element("css selector", "#browser .panels")
    opened.execute_script("arguments[0].focus()", panels)
    ActionChains(opened).send_keys(Keys.ARROW_LEFT, Keys.ARROW_UP).perform()
    said(expected(2, 4))
    assert spoken.get_attribute("textContent").startswith("x 16 km, y 32 km: truth ")


def test_one_bad_method_does_not_make_the_errors_of_others_pale(write_run: Callable[..., StoredRun]) -> None:
    """The scale of errors is that of most methods; what is beyond has the colour of its end."""
    run = write_run(
        *({"method": name, "metrics": {"rmse": 0.5}} for name in ("a", "b", "wild")), order=["a", "b", "wild"]
    )
    rng = np.random.default_rng(0)
    truth = fieldbench.Field(rng.standard_normal((8, 8, 8)))
    observation = fieldbench.Observation(truth.values, np.ones(truth.shape, dtype=bool), truth.axes)
    for row, size in zip(run.rows(), (0.5, 0.5, 50), strict=True):
        estimate = Estimate(truth.values + size * rng.uniform(-1, 1, truth.shape))
        reconstructions.save(run.path / "fields", row["key"], Reconstruction(truth, observation, estimate))
    (entry,) = make_album(run).entries
    assert 0.4 < entry["largest"] <= 0.5


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_never_scrolls_sideways(browser: WebDriver, path: Path, width: int) -> None:
    show(browser, f"file://{path}", width)
    browser.execute_script("document.querySelectorAll('details').forEach(item => item.open = true)")
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    small = """return [...document.querySelectorAll('main *')]
        .filter(item => item.textContent.trim() && item.offsetWidth)
        .filter(item => parseFloat(getComputedStyle(item).fontSize) < 13).map(item => item.outerHTML.slice(0, 80))"""
    assert browser.execute_script(small) == []


def test_everything_can_be_reached_and_seen_by_keyboard(opened: WebDriver) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened.execute_script("document.querySelectorAll('details').forEach(item => item.open = true)")
    wanted = set(
        opened.execute_script(
            """const items = [...document.querySelectorAll('a, button, input, select, summary, .scroll')]
                .filter(item => item.checkVisibility());
            items.forEach((item, number) => item.dataset.stop = number);
            return items.map(item => item.dataset.stop)"""
        )
    )
    reached, unseen = set(), []
    for _ in range(len(wanted) + 3):
        ActionChains(opened).send_keys(Keys.TAB).perform()
        stop, outline, style = opened.execute_script(
            """const item = document.activeElement, style = getComputedStyle(item);
            return [item.dataset.stop ?? '', parseFloat(style.outlineWidth), style.outlineStyle]"""
        )
        reached.add(stop)
        if stop and (outline < 2 or style == "none"):
            unseen.append(stop)
    assert wanted - reached == set()
    assert unseen == []
    button = opened.find_element("css selector", "#cells th:nth-child(3) button")
    opened.execute_script("arguments[0].focus()", button)
    ActionChains(opened).send_keys(Keys.ENTER).perform()
    assert opened.find_element("css selector", "#cells th:nth-child(3)").get_attribute("aria-sort") == "ascending"


@pytest.mark.usefixtures("scheme_of_the_system")
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["light", "dark"])
def test_axe_finds_nothing_wrong(browser: WebDriver, path: Path, name: str, width: int) -> None:
    scheme(browser, name)
    show(browser, f"file://{path}", width)
    browser.execute_script("document.querySelectorAll('details').forEach(item => item.open = true)")
    assert faults(browser) == []


@pytest.mark.usefixtures("scheme_of_the_system")
def test_the_page_is_dark_as_the_system_is_until_the_reader_chooses(browser: WebDriver, path: Path) -> None:
    def ground() -> str:
        return str(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))

    grounds = {}
    for name in ("light", "dark"):
        scheme(browser, name)
        show(browser, f"file://{path}", DESK)
        grounds[name] = ground()
    assert (
        max(map(int, re.findall(r"\d+", grounds["dark"])))
        < 64
        < 192
        < min(map(int, re.findall(r"\d+", grounds["light"])))
    )
    browser.find_element("id", "theme").click()
    assert ground() == grounds["light"]
    show(browser, f"file://{path}", DESK)  # the choice is kept
    assert ground() == grounds["light"]
    assert browser.find_element("id", "theme").text == "Dark mode"
    browser.execute_script("localStorage.clear()")


def test_twenty_methods_and_forty_settings_leave_the_first_figure_within_two_screens(
    browser: WebDriver, write_run: Callable[..., StoredRun], tmp_path: Path
) -> None:
    run = write_run(
        *(
            {
                "method": f"idw[power={power}]",
                "rate": rate / 100,
                "metrics": {"rmse": power},
            }
            for power in range(1, 21)
            for rate in range(1, 41)
        )
    )
    picture = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='300' height='200'/>"
    path = tmp_path / "page.html"
    path.write_text(page(run, [Drawing("Error", "sea", picture)]))
    for width in (PHONE, DESK):
        show(browser, f"file://{path}", width)
        assert len(column(browser, "cells", 0)) == 800
        top = browser.execute_script("return document.querySelector('figure').getBoundingClientRect().top + scrollY")
        assert top < 2 * browser.execute_script("return innerHeight")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_names_of_strangers_do_nothing(browser: WebDriver, write_run: Callable[..., StoredRun], tmp_path: Path) -> None:
    """A stranger's spec, error and unit stand on the page as they are and are nothing else."""
    spec = f"mine[note={HOSTILE!r}]"
    session = {"command": ["fieldbench", "run", HOSTILE], "host": HOSTILE}
    run = write_run(
        {"method": spec, "metrics": {"rmse": 1.0}},
        {"method": "b", "metrics": {"rmse": 2.0}, "dataset": "sea"},
        {"method": "b", "status": "failed", "trial": 1, "error": HOSTILE, "diagnostics": {"traceback": HOSTILE}},
        units={"sea": HOSTILE},
        manifest={"sessions": [session]},
    )
    show(browser, f"file://{write_page(run, tmp_path / 'page.html')}", DESK)
    assert browser.title == "written · fieldbench"
    assert browser.execute_script("return document.querySelectorAll('img[src=x], main script').length") == 0
    assert HOSTILE in browser.find_element("id", "cells").get_attribute("textContent")
    assert browser.get_log("browser") == []


@pytest.mark.usefixtures("scheme_of_the_system")
def test_print_is_light_whole_and_says_what_it_shows(opened: WebDriver) -> None:
    """Controls and what is folded stay away, the table is whole, and the slices' caption is there."""
    opened.execute_script("document.documentElement.dataset.theme = 'dark'")
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert opened.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    absent = "nav, header, .controls, details, #cells input"
    seen = "return [...document.querySelectorAll(arguments[0])].filter(item => item.checkVisibility()).length"
    assert opened.execute_script(seen, absent) == 0
    frame = "const frame = document.querySelector('.scroll'); return [frame.scrollHeight, frame.clientHeight]"
    whole, shown = opened.execute_script(frame)
    assert whole == shown
    caption = opened.find_element("css selector", "#browser figcaption").text
    assert all(words in caption for words in ("sea, rate 20 %", "trial 0", "depth 20 m"))
    assert {image.text for image in opened.find_elements("css selector", ".figures figcaption")} >= {
        "Every trial: sea, rate 20 %"
    }
    pdf = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")


def test_a_live_page_takes_news_in_and_keeps_what_the_reader_chose(
    browser: WebDriver, run_folder: Path, tmp_path: Path
) -> None:
    import threading

    from fieldbench.report.watch import serve

    growing = tmp_path / "growing"
    shutil.copytree(run_folder, growing)
    lines = (growing / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (growing / "trials.jsonl").write_bytes(b"".join(lines[:20]))
    with serve(growing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        show(browser, f"http://127.0.0.1:{server.server_port}/", DESK)
        # Each in one step, since the page may take news in between an element's being found and used.
        main = browser.execute_script("return document.getElementById('main').textContent")
        assert "20 of 32 trials are done" in main
        assert browser.execute_script("return document.getElementById('progress').value") == 20
        said = browser.execute_script("return document.getElementById('to-go').textContent")
        assert said == "nothing is running; the same command goes on"
        browser.execute_script(
            "const field = document.querySelector('#cells [data-filter=method]');"
            "field.value = 'flat'; field.dispatchEvent(new Event('input', {bubbles: true}));"
        )
        browser.execute_script("document.querySelector('#cells th:nth-child(3) button').click()")
        (growing / "trials.jsonl").write_bytes(b"".join(lines))
        until(browser, "return document.getElementById('main').textContent.includes('32 of 32 trials are done')")
        assert column(browser, "cells", 0) == ["flat", "flat"]
        sorted_by = browser.execute_script("return document.querySelector('#cells th:nth-child(3)').ariaSort")
        assert sorted_by == "ascending"
        until(browser, "return document.getElementById('to-go').textContent === 'complete'")
        until(browser, "return document.images.length > 0")  # the figures follow
        server.shutdown()
    until(browser, "return document.body.textContent.includes('The server has stopped')")
