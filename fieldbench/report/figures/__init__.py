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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldbench.errors import RequestError, how_to_install, nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fieldbench.report.stored import Panel, StoredRun

FORMATS = ("png", "pdf", "svg")

_LOG = logging.getLogger("fieldbench")

#: Characters that no font has, as was said already.
_SAID: set[str] = set()


class NothingToDraw(RequestError):
    """A run has nothing that a kind of figure shows."""


_UNDATED: dict[str, dict[str, None]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


#: Widths in inches of one column and of the whole text of a journal page with two columns.
WIDTHS = {"column": 3.5, "text": 7.16}

#: Inches that a figure may be wide.
NARROWEST, WIDEST = 2.5, 40.0


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
    """One kind of figure: a module with a function ``draw(run, view)`` that gives figures by name.

    Attributes:
        summary: what it shows.
        module: its name.
        of_fields: whether it shows fields, which may have to be computed again.
        takes: what of a :class:`View` it makes use of besides width, style and number.
    """

    summary: str
    module: str
    of_fields: bool = False
    takes: tuple[str, ...] = ("colours",)


KINDS: dict[str, Kind] = {
    "settings": Kind("error in every setting, side by side", "settings"),
    "rate": Kind("error against sampling rate, with 95 % bands", "rate"),
    "param": Kind("error against a parameter that was run at several values, a line for each rate", "param", takes=()),
    "epoch": Kind("error against epoch, with the sparsity of the core beside it", "epoch"),
    "cost": Kind("error against seconds, and the methods that no other beats in both", "cost"),
    "strips": Kind("every trial's error, trials of one draw joined", "strips"),
    "calibration": Kind(
        "observed against promised coverage, and where in its distribution the truth lies", "calibration"
    ),
    "ranks": Kind("mean ranks over settings, with critical differences", "ranks"),
    "slices": Kind(
        "truth, observation, reconstructions, their errors and deviations", "slices", True, ("trial", "axis", "at")
    ),
    "deviation": Kind(
        "where and how well a stated deviation tells the size of the error",
        "deviation",
        True,
        ("colours", "trial", "axis", "at"),
    ),
    "attention": Kind("attention maps of methods that have one", "attention", True, ("trial",)),
}


def draw(run: StoredRun, kind: str, view: View | None = None) -> dict[str, Figure]:
    """All figures of one kind, by name: one for each setting or dataset, which is the figure's label.

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
    module = importlib.import_module(f"{__name__}.{KINDS[kind].module}")
    with printing(view.style):
        figures: dict[str, Figure] = module.draw(run, view)
        boxes = "".join(letter for letter in without_glyph(figures.values()) if letter not in _SAID)
        if boxes:
            _SAID.update(boxes)
            _LOG.warning("no font here has %s: boxes stand for it in figures; install one, as Noto Sans CJK", boxes)
    return figures


def must_take(kinds: Sequence[str], asked: Iterable[str]) -> None:
    """
    Args:
        kinds: of figures.
        asked: what of a :class:`View` was chosen.

    Raises:
        RequestError: if none of the kinds makes use of it.
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
        # Without a date, and with fixed ids, the same figure is the same file.
        figure.savefig(path, metadata=_UNDATED.get(path.suffix))
    return path


def of_settings(
    kind: str, run: StoredRun, view: View, drawn: Callable[[Panel], Figure | None], nothing: str
) -> dict[str, Figure]:
    """A figure for each setting that has something to show, by file name, as far as the view goes.

    Args:
        kind: of the figures.
        run, view: what is shown.
        drawn: draws a setting, with the figure's title as its label; None for nothing to show.
        nothing: what to say where no setting has anything.

    Raises:
        NothingToDraw: if no setting has.
    """
    figures = filter(None, map(drawn, run.settings))
    return by_file_name(kind, ((str(figure.get_label()), figure) for figure in figures), view, nothing)


def by_file_name(kind: str, drawn: Iterable[tuple[str, Figure]], view: View, nothing: str) -> dict[str, Figure]:
    """Figures by file names such as ``rate-ssf-noise-gaussian-sigma-0.3``, as many as the view asks for.

    Args:
        kind: of the figures.
        drawn: title and figure of each, drawn when it is taken.
        view: what is shown.
        nothing: what to say where there is none.

    Raises:
        NothingToDraw: if there is none.
    """
    figures: dict[str, Figure] = {}
    for title, figure in islice(drawn, view.most):
        slug = re.sub(r"[^a-z0-9.]+", "-", f"{kind}-{title}".lower()).strip("-.")
        numbered = (f"{slug}-{number}" for number in count(2))
        figures[next(name for name in chain([slug], numbered) if name not in figures)] = figure
    if not figures:
        raise NothingToDraw(nothing)
    return figures
