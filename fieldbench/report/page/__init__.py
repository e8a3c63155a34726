"""A run as one HTML file that opens anywhere: no network, no other file, nothing to install.

The parts are made by :mod:`parts` (tables, failures, provenance), :mod:`drawings` (figures) and
:mod:`browser` (the fields behind the slice browser); ``template.html``, ``style.css`` and ``script.js`` hold
what is the same in every page.
"""

from __future__ import annotations

import html
from importlib.resources import files
from pathlib import Path
from string import Template

from fieldbench.report.page.browser import Album, make_album
from fieldbench.report.page.drawings import Drawing, drawings
from fieldbench.report.page.parts import sections
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
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page(run, drawings(run), make_album(run, recompute=recompute))
    path.write_text(text, encoding="utf-8", errors="replace")  # names of files may be no text
    return path


def page(run: StoredRun, figures: list[Drawing], album: Album | None = None, *, live: bool = False) -> str:
    """The whole page as text; a ``live`` one asks its server for news.

    Args:
        run: what is shown.
        figures: on the page.
        album: slices of reconstructions.
        live: whether the page asks its server for news.
    """
    title = html.escape(f"{run.path.resolve().name} · fieldbench")
    return framed(title, sections(run, figures, album), album, live=live)


def framed(title: str, main: str, album: Album | None = None, *, live: bool = False) -> str:
    """Some HTML as a page with style and script.

    Args:
        title: of the page, as HTML.
        main: what is between its head and foot.
        album: the fields behind a slice browser.
        live: whether it asks its server for news.
    """
    here = files(__name__)
    return Template((here / "template.html").read_text(encoding="utf-8")).substitute(
        title=title,
        connect="'self'" if live else "'none'",
        live="true" if live else "false",
        style=(here / "style.css").read_text(encoding="utf-8"),
        script=(here / "script.js").read_text(encoding="utf-8"),
        main=main,
        album=(album or Album()).json,
    )
