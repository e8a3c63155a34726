"""The pictures of the gallery: its page's own commands are run, and the first figure of each is shown there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pictures import RUNS, fieldbench_command

PAGE = Path(__file__).resolve().parents[1] / "gallery.md"


@cache
def gallery() -> dict[str, bytes]:
    """What the page shows by its path in the site, made by the commands on the page, in their order."""
    made: dict[str, bytes] = {}
    for words in commands():
        printed = fieldbench_command(words)
        if words[0] == "plot":
            kind = words[words.index("--kind") + 1]
            made[f"pictures/gallery/{kind}.png"] = (RUNS / printed.split()[0]).read_bytes()
        elif words[0] == "report":
            made["examples/report.html"] = (RUNS / words[1] / "report.html").read_bytes()
    return made


def commands() -> Iterator[list[str]]:
    """The words after ``fieldbench`` of every command on the page."""
    for block in re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        for line in block.splitlines():
            yield shlex.split(line)[1:]
