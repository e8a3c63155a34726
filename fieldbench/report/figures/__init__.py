"""Figures of a run, made for print: one module a kind, all drawn with matplotlib and none with its global state.

>>> from fieldbench.report.figures import draw, save
>>> from fieldbench.report.stored import StoredRun
>>> for name, figure in draw(StoredRun("runs/tap-tnn-ssf-1a2b3c4d"), "rate").items():  # doctest: +SKIP
...     save(figure, f"{name}.pdf")
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldbench.errors import RequestError, how_to_install, nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fieldbench.report.stored import StoredRun

FORMATS = ("png", "pdf", "svg")

_LOG = logging.getLogger("fieldbench")

#: Characters that no font has, as was said already.
_SAID: set[str] = set()

#: What is left out of a file's metadata, so that the same figure is the same file.
_UNDATED: dict[str, dict[str, None]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}

#: Widths in inches of one column and of the whole text of a journal page with two columns.
WIDTHS = {"column": 3.5, "text": 7.16}

#: Inches that a figure may be wide.
NARROWEST, WIDEST = 2.5, 40.0


class NothingToDraw(RequestError):
    """A run has nothing that a kind of figure shows."""


@dataclass(frozen=True)
class View:
    """What of a run is shown, and how.

    Attributes:
        width: of every figure, in inches.
        style: ``paper``, ``talk`` (larger text and thicker lines) or ``dark`` (on a dark ground).
        colours: colours of methods in place of those that follow from their names, by spec or name.
        most: largest number of figures, those of the first settings; None means all.
        trial: number of the trial, of the first seed that has it; the first that is there by default.
        axis: name or number of the axis that is cut; the last by default.
        at: indices along it; three spread over it by default.

    ``colours``, ``trial``, ``axis`` and ``at`` are for some kinds only (:attr:`Kind.takes`).
    """

    width: float = WIDTHS["text"]
    style: str = "paper"
    colours: Mapping[str, str] = field(default_factory=dict)
    most: int | None = None
    trial: int | None = None
    axis: str | None = None
    at: tuple[int, ...] = ()

    @property
    def asked(self) -> list[str]:
        """What was chosen of that which only some kinds take."""
        return [name for name in ("colours", "trial", "axis", "at") if getattr(self, name) not in (None, (), {})]

    def of_kind(self, kind: str) -> View:
        """The view with what a kind takes of it."""
        left_out: dict[str, Any] = {name: getattr(View(), name) for name in self.asked if name not in KINDS[kind].takes}
        return replace(self, **left_out)


@dataclass(frozen=True)
class Kind:
    """One kind of figure: the module of its name has a ``draw(run, view)`` that gives the title and figure of each.

    Attributes:
        nothing: what is said of a run that has nothing to show of it.
        of_fields: whether it shows fields, which may have to be computed again.
        takes: what of a :class:`View` it makes use of besides width, style and number.
    """

    nothing: str
    of_fields: bool = False
    takes: tuple[str, ...] = ("colours",)


KINDS: dict[str, Kind] = {
    "settings": Kind("no trial of this run has a score"),
    "rate": Kind("there is nothing to draw against the rate: no setting has scores and several rates"),
    "param": Kind(
        "no method of this run has several values of a parameter; run --methods 'idw[power=1],idw[power=2]'", takes=()
    ),
    "epoch": Kind("no method of this run reports estimates while it works, so there is no curve to draw"),
    "cost": Kind("no trial of this run has both a score and seconds"),
    "strips": Kind("no trial of this run has a score"),
    "calibration": Kind("no method of this run says how sure it is; add +conformal to one"),
    "ranks": Kind("ranks need three methods and two settings in which all have a score"),
    "slices": Kind("no trial that ended well is there to be shown", True, ("trial", "axis", "at")),
    "deviation": Kind(
        "no method of this run states a deviation; add +conformal to one", True, ("colours", "trial", "axis", "at")
    ),
    "attention": Kind("no trial that ended well is there to be shown", True, ("trial",)),
}


def draw(run: StoredRun, kind: str, view: View | None = None) -> dict[str, Figure]:
    """All figures of one kind, by file name: one for each setting or dataset, such as ``rate-ssf-noise-gaussian``.

    Args:
        run: the run.
        kind: one of :data:`KINDS`.
        view: what of the run is shown.

    Raises:
        RequestError: for an unknown kind or style, a width that no figure can have, a choice that is without effect on
            the kind, a trial that is not there, or a missing matplotlib.
        NothingToDraw: for a run that has nothing to show of it.
    """
    view = view or View()
    if kind not in KINDS:
        raise RequestError(f"unknown kind of figure {kind!r}{nearest(kind, KINDS)}")
    must_take([kind], view.asked)
    if view.trial is not None:
        run.must_have_trial(view.trial)
    if not NARROWEST <= view.width <= WIDEST:
        raise RequestError(f"a figure cannot be {view.width:g} inches wide; choose {NARROWEST:g} to {WIDEST:g}")
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise RequestError(f"figures need matplotlib, which is not installed; {how_to_install('plots')}") from None
    from fieldbench.report.figures.style import STYLES, printing, without_glyph

    if view.style not in STYLES:
        raise RequestError(f"unknown style {view.style!r}{nearest(view.style, STYLES)}")
    module = importlib.import_module(f"{__name__}.{kind}")
    with printing(view.style):
        figures: dict[str, Figure] = {}
        for title, figure in islice(module.draw(run, view), view.most):
            slug = re.sub(r"[^a-z0-9.]+", "-", f"{kind}-{title}".lower()).strip("-.")
            numbered = (f"{slug}-{number}" for number in count(2))
            figures[next(name for name in chain([slug], numbered) if name not in figures)] = figure
        boxes = "".join(letter for letter in without_glyph(figures.values()) if letter not in _SAID)
        if boxes:
            _SAID.update(boxes)
            _LOG.warning("no font here has %s: boxes stand for it in figures; install one, as Noto Sans CJK", boxes)
    if not figures:
        raise NothingToDraw(KINDS[kind].nothing)
    return figures


def must_take(kinds: Sequence[str], asked: Iterable[str]) -> None:
    """
    Raises:
        RequestError: if none of the kinds makes use of something that was ``asked`` for of a :class:`View`.
    """
    for name in asked:
        if not any(name in KINDS[kind].takes for kind in kinds):
            takers = ", ".join(kind for kind, known in KINDS.items() if name in known.takes)
            what = "a colour" if name == "colours" else repr(name)
            raise RequestError(f"{what} has no effect on {', '.join(kinds)}; it is for {takers}")


def width_of_page(text: str | float) -> float:
    """Inches of a width as it is asked for: ``column``, ``text`` or a number of inches.

    >>> width_of_page("column"), width_of_page("5.5")
    (3.5, 5.5)

    Raises:
        RequestError: if it is none of these.
    """
    try:
        return WIDTHS[str(text)] if text in WIDTHS else float(text)
    except ValueError:
        raise RequestError(f"unknown width {text!r}; write column, text or inches, such as 5.5") from None


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the ending of the name chooses the format.

    Raises:
        RequestError: for an ending that is none of :data:`FORMATS`.
    """
    from fieldbench.report.figures.style import printing

    path = Path(path)
    if path.suffix.removeprefix(".") not in FORMATS:
        raise RequestError(f"{path.name}: cannot write {path.suffix or 'this'}; use {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with printing():
        figure.savefig(path, metadata=_UNDATED.get(path.suffix))
    return path
