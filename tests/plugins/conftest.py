"""Throwaway plugins: packages and single files written from source text into a temporary folder."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

METHOD = '''
import numpy as np
import fieldbench


class Mean(fieldbench.Method):
    """Every entry takes the mean of the observed ones."""

    name = "{name}"

    offset: float = fieldbench.parameter(0.0, "added to the mean", unit="m/s")

    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, observation.observed.mean() + self.offset)


@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Mean]
'''


def method_source(name: str) -> str:
    """The text of a working plugin with one method of this name."""
    return METHOD.format(name=name)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Install a distribution with one module: ``install("my-package", source, entry_point="mine")``."""
    loaded = set(sys.modules)

    def install(
        distribution: str,
        source: str,
        *,
        entry_point: str | None = None,
        target: str = "",
        version: str = "1.0",
        editable: bool = False,
    ) -> Path:
        module = distribution.replace("-", "_")
        site = tmp_path / f"site-{distribution}"
        package = site / module
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(textwrap.dedent(source))
        info = site / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[fieldbench]\n{entry_point or distribution} = {module}{target}\n")
        if editable:
            (info / "direct_url.json").write_text(json.dumps({"url": package.as_uri(), "dir_info": {"editable": True}}))
        monkeypatch.syspath_prepend(str(site))
        importlib.invalidate_caches()
        return package

    yield install
    for name in set(sys.modules) - loaded:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a single-file plugin: ``write("mine.py", source)`` returns its path."""

    def write(name: str, source: str) -> str:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source))
        return str(file)

    return write


@pytest.fixture
def working() -> Callable[[str], str]:
    return method_source
