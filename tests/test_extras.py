"""The extras of the package, as pyproject.toml has them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]


def test_the_extra_all_has_every_other() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    found = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", everything)
    assert found is not None
    assert set(found[1].split(",")) == set(extras) - {"all"}
