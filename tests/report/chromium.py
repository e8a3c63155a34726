"""Pages in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

PHONE, DESK = 400, 1400


def show(browser: WebDriver, address: str, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(address)
    until(
        browser, "return !document.getElementById('browser') || 'shown' in document.getElementById('browser').dataset"
    )


def until(browser: WebDriver, condition: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20, 0.05).until(lambda driver: driver.execute_script(condition))


def scheme(browser: WebDriver, name: str) -> None:
    """Has the system ask for light or dark."""
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def faults(browser: WebDriver) -> list[str]:
    """What axe finds wrong with the page as it stands, each with the first element that has it."""
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    browser.execute_script(source)
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert len(found["passes"]) > 20
    return [f"{item['id']}: {item['nodes'][0]['html'][:150]}" for item in found["violations"]]
