"""The figures of a page, as pictures that lie within it."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from fieldbench.errors import RequestError
from fieldbench.report.stored import StoredRun

#: Kinds that a page shows, each with a heading.
SHOWN = {
    "settings": "Error in every setting",
    "rate": "Error against sampling rate",
    "param": "Error against a parameter",
    "epoch": "Error and core sparsity against epoch",
    "cost": "Error against seconds",
    "strips": "Every trial",
    "calibration": "Coverage of intervals",
    "ranks": "Ranks over settings",
}

#: Inches of a figure, so that its text has the size of a caption on a desk and can be read on a phone; of one with
#: more panels than :data:`SEVERAL`, which takes the whole width.
WIDTH, WHOLE, SEVERAL = 5.0, 12.0, 4

#: The page has at most this many figures of one kind; the others are drawn by `fieldbench plot`.
MOST = 12


@dataclass(frozen=True)
class Drawing:
    """One figure: its kind's heading, what it shows, and an address that holds the picture itself."""

    heading: str
    caption: str
    address: str

    @property
    def alt(self) -> str:
        """What the picture shows, for who cannot see it and for a printed page."""
        return f"{self.heading}: {self.caption}" if self.caption else self.heading


def drawings(run: StoredRun) -> list[Drawing]:
    """Every figure that this run has something to show of; none without matplotlib."""
    from fieldbench.report.figures import View, draw

    try:
        from fieldbench.report.figures.style import printing
    except ImportError:
        return []
    made = []
    for kind, heading in SHOWN.items():
        try:
            whole = kind == "settings" and len(run.settings) > SEVERAL
            figures = draw(run, kind, View(width=WHOLE if whole else WIDTH, most=MOST))
        except RequestError:
            continue
        for figure in figures.values():
            picture = io.BytesIO()
            with printing():
                figure.savefig(picture, format="svg", metadata={"Date": None})
            address = "data:image/svg+xml;base64," + base64.b64encode(picture.getvalue()).decode()
            made.append(Drawing(heading, str(figure.get_label()), address))
    return made
