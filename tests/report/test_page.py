"""The page: what it says, and how it behaves in a real browser."""

from __future__ import annotations

import base64
import json
import math
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fieldbench.report.page import page, write_page
from fieldbench.report.page.browser import make_album
from fieldbench.report.stored import StoredRun
from tests.report.markup import Element, parse

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

PHONE, DESK = 360, 1200


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


def test_a_unit_cannot_become_markup(write_run: Callable[..., StoredRun]) -> None:
    unit = "<img src=x onerror=alert(1)>"
    written = write_run({"metrics": {"rmse": 1.5}}, {"method": "b", "metrics": {"rmse": 2.5}}, units={"sea": unit})
    root = parse(page(written, []))
    assert not list(root.every("img", src="x"))
    assert any(item.text.endswith(f" {unit}") for item in root.every("strong"))


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


def test_scores_of_uncertainty_are_a_section_where_a_method_has_them(write_run: Callable[..., StoredRun]) -> None:
    from fieldbench.report.page.parts import sections

    mute = {"method": "mute", "trial": 0, "metrics": {"rmse": 1.0, "crps": 0.5}}
    sure = {"method": "sure", "trial": 0, "metrics": {"rmse": 1.0, "crps": 0.25, "coverage90": 0.875, "width90": 3.5}}
    run = write_run(mute, sure)
    assert "Uncertainty" not in sections(StoredRun(run.path, only={"method": ["mute"]}), [])
    section = sections(run, []).partition('id="uncertainty"')[2].partition("</section>")[0]
    for shown in ("crps", "0.250", "coverage90", "0.875", "width90", "3.50"):
        assert shown in section


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
    assert [float(entry["low"]) for entry in album.entries] == [0, 20, 1, 21]
    assert {entry["largest"] for entry in album.entries} == {"0.25"}
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


# In a real browser.


@pytest.fixture(scope="module")
def browser() -> Iterator[WebDriver]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with its driver on this machine (Debian: chromium and chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


@pytest.fixture
def opened(browser: WebDriver, path: Path) -> WebDriver:
    show(browser, f"file://{path}", DESK)
    return browser


def show(browser: WebDriver, address: str, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(address)
    _until(
        browser, "return !document.getElementById('browser') || 'shown' in document.getElementById('browser').dataset"
    )


def _until(browser: WebDriver, condition: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20, 0.05).until(lambda driver: driver.execute_script(condition))


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
    assert button.text == "mean"
    button.click()
    values = column(opened, "cells", 2)
    assert values[-1] == "-"  # the cell without any finished trial
    numbers = [float(value.split()[0]) for value in values[:-1]]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 3
    button.click()
    values = column(opened, "cells", 2)
    assert values[-1] == "-"
    assert [float(value.split()[0]) for value in values[:-1]] == numbers[::-1]
    assert opened.find_element("css selector", "#cells th:nth-child(3)").get_attribute("aria-sort") == "descending"
    opened.find_element("css selector", "#cells th:nth-child(1) button").click()
    assert column(opened, "cells", 0) == sorted(column(opened, "cells", 0))


def test_filtering_shows_rows_with_every_word_and_counts_them(opened: WebDriver) -> None:
    field = opened.find_element("css selector", "[data-filter-of=cells]")
    field.send_keys("FLAT 40")
    assert column(opened, "cells", 0) == ["flat"]
    assert column(opened, "cells", 1) == ["40 %"]
    assert opened.find_element("css selector", "[data-count-of=cells]").text == "1 of 8 rows"
    field.clear()
    field.send_keys("nothing like it")
    assert column(opened, "cells", 0) == []


def test_the_slice_browser_draws_what_is_chosen(opened: WebDriver, run_folder: Path) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    def part(name: str) -> Any:
        return opened.find_element("css selector", f"#browser [data-part={name}]")

    Select(part("setting")).select_by_visible_text("sea, rate 40 %")
    Select(part("method")).select_by_visible_text("fussy")
    part("slice").send_keys(Keys.HOME)
    part("slice").send_keys(Keys.ARROW_RIGHT)
    _until(opened, "return document.getElementById('browser').dataset.shown === 'sea, rate 40 %|trial 0|fussy|2|1'")
    assert part("where").text == "depth 10 m"
    pixels = """const canvas = document.querySelector(`[data-part=${arguments[0]}]`);
        const {width, height} = canvas;
        return [width, height, ...canvas.getContext('2d').getImageData(0, 0, width, height).data]"""
    width, height, *values = opened.execute_script(pixels, "observed")
    assert (width, height) == (6, 7)
    shown = np.array(values).reshape(7, 6, 4)[..., 3] > 0  # unobserved entries stay transparent
    stored = StoredRun(run_folder)
    row = next(row for row in stored.rows() if row["method"] == "fussy" and row["rate"] == 0.4 and row["trial"] == 0)
    np.testing.assert_array_equal(shown[::-1], stored.reconstruction(row).observation.mask[:, :, 1].T)
    _, _, *estimate = opened.execute_script(pixels, "estimate")
    assert len({tuple(pixel) for pixel in np.array(estimate).reshape(-1, 4)}) == 1  # fussy says zero everywhere
    Select(part("axis")).select_by_visible_text("x")
    _until(opened, "return document.querySelector('[data-part=truth]').width === 7")
    assert opened.get_log("browser") == []


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


def test_controls_and_pictures_have_names(opened: WebDriver) -> None:
    nameless = """return [...document.querySelectorAll('input, select, canvas[role=img], img, table, button')]
        .filter(item => !(item.labels?.length || item.getAttribute('aria-label') || item.alt || item.caption
            || item.textContent.trim())).map(item => item.outerHTML.slice(0, 100))"""
    assert opened.execute_script(nameless) == []
    assert opened.execute_script("return document.documentElement.lang") == "en"
    levels = opened.execute_script("return [...document.querySelectorAll('h1, h2, h3')].map(item => +item.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_text_stands_out_from_its_ground(opened: WebDriver) -> None:
    """At least 4.5 to 1, as WCAG 2.1 asks for (success criterion 1.4.3)."""
    opened.execute_script("document.querySelectorAll('details').forEach(item => item.open = true)")
    pairs = opened.execute_script(
        """const ground = item => {
            for (let at = item; at; at = at.parentElement) {
                const colour = getComputedStyle(at).backgroundColor;
                if (!colour.startsWith('rgba(') || !colour.endsWith(' 0)')) return colour;
            }
            return 'rgb(255, 255, 255)';
        };
        return [...document.querySelectorAll('main *')]
            .filter(item => item.offsetWidth)
            .filter(item => [...item.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
            .map(item => [getComputedStyle(item).color, ground(item), item.outerHTML.slice(0, 80)])"""
    )
    assert len(pairs) > 100
    assert [(pair, round(contrast(*pair[:2]), 1)) for pair in pairs if contrast(*pair[:2]) < 4.5] == []


def contrast(ink: str, ground: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    bright, dark = sorted([luminance(ink), luminance(ground)], reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_published() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(118, 118, 118)", "rgb(255, 255, 255)") == pytest.approx(4.54, abs=0.01)


def test_print_leaves_out_what_needs_a_screen(opened: WebDriver) -> None:
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = opened.execute_script(
        "return [...document.querySelectorAll('nav, .controls')].filter(item => item.offsetWidth).length"
    )
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert shown == 0
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
        assert "20 of 32 trials are done" in browser.find_element("id", "main").text
        # Each in one step, since the page may take news in between an element's being found and used.
        browser.execute_script(
            "const field = document.querySelector('[data-filter-of=cells]');"
            "field.value = 'flat'; field.dispatchEvent(new Event('input', {bubbles: true}));"
        )
        browser.execute_script("document.querySelector('#cells th:nth-child(3) button').click()")
        (growing / "trials.jsonl").write_bytes(b"".join(lines))
        _until(browser, "return document.getElementById('main').textContent.includes('32 of 32 trials are done')")
        assert column(browser, "cells", 0) == ["flat", "flat"]
        assert browser.find_element("css selector", "#cells th:nth-child(3)").get_attribute("aria-sort") == "ascending"
        _until(browser, "return document.images.length > 0")  # the figures follow
        server.shutdown()
    _until(browser, "return document.body.textContent.includes('The server has stopped')")
