"""A run as one HTML file that opens anywhere: no network, no other file, nothing to install.

:mod:`contents` says what is shown, :mod:`drawings` makes the figures and :mod:`browser` the fields behind the
slice browser; ``templates/`` holds how it looks. What a plugin says is escaped there and nowhere else.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fieldbench.errors import RequestError
from fieldbench.report.page.browser import Album, make_album
from fieldbench.report.page.contents import contents
from fieldbench.report.page.drawings import Drawing, drawings
from fieldbench.report.stored import StoredRun


def write_page(run: StoredRun, path: Path, *, recompute: bool = False) -> Path:
    """Write the page of a run.

    Args:
        run: the run.
        path: the file.
        recompute: whether fields that were not kept are computed again for the slice browser.

    Raises:
        RequestError: if the run has no record yet.
    """
    if run.frame.empty:
        raise RequestError(f"{run.path} has no record yet; a page shows finished trials")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page(run, drawings(run), make_album(run, recompute=recompute))
    path.write_text(text, encoding="utf-8", errors="replace")  # names of files may be no text
    return path


def page(run: StoredRun, figures: list[Drawing], album: Album | None = None) -> str:
    """The whole page as text.

    Args:
        run: what is shown.
        figures: on the page.
        album: slices of reconstructions.
    """
    return render("run.html", album=album, **contents(run, figures, album))


def render(template: str, **values: Any) -> str:
    """A page, or a part of one, as text: one of the files in ``templates/`` with what it shows."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__name__), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    made.globals.update(live=False, album=None)
    return made
