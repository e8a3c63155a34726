"""Writing tables as text, Markdown, LaTeX, HTML or CSV."""

from __future__ import annotations

import csv
import html
import io
import logging
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from tabulate import tabulate

from fieldbench.errors import RequestError, nearest
from fieldbench.report.blocks import Block, TableCell
from fieldbench.report.floors import distance
from fieldbench.report.numbers import fixed

_LOG = logging.getLogger("fieldbench")

#: The rows of a table, each cell written in the style of its format.
Rows: TypeAlias = Sequence[Sequence[str]]


#: What of a cell takes no room: styles of a terminal, commands and braces of LaTeX.
_MARKUP = re.compile(r"\x1b\[\d+m|\\[a-zA-Z]+(?:\{\})?|[{}$\\]")

#: Characters of a LaTeX table's line; wider tables are split.
LATEX_WIDTH = 90


class _Wrapper(textwrap.TextWrapper):
    """Breaks specs, too."""

    wordsep_simple_re = re.compile(r"( +|(?<=[,[+])(?=[a-z]))")


class Text:
    """Aligned columns of plain text; tables wider than a line of ``width`` characters are split by columns.

    Each other format says how it differs.
    """

    plus_minus, dash = " ± ", "-"
    kind, below_title, line_break = "simple", "\n", "\n"
    gap, padding = 2, 2
    #: What stands around the best of some numbers, and around the second best.
    bold, underlined = "{}", "{}"

    def __init__(self, width: int | None = None) -> None:
        self.width = width

    def text(self, text: str) -> str:
        """Plain text, escaped."""
        return text

    def number(self, value: float, decimals: int) -> str:
        """A number with ``decimals`` digits behind the point, or in powers of ten for a negative number of them."""
        return fixed(value, decimals)

    def table(self, title: str, heads: Sequence[str], rows: Rows, labels: int = 1) -> str:
        """One table.

        Args:
            title: above it; empty for none.
            heads: of the columns.
            rows: the cells.
            labels: how many columns at the left hold words.
        """
        if self.width is not None:
            title = self._filled(title)
            heads = [self._filled(head, self.width // 3) for head in heads]
            heads, rows, labels = self._with_labels_that_fit(heads, rows, labels)
        grids = []
        for part in self.parts([heads, *rows], labels):
            aligned = ["left" if column < labels else "right" for column in range(len(part[0]))]
            grids.append(tabulate(part[1:], part[0], tablefmt=self.kind, colalign=aligned, disable_numparse=True))
        grid = "\n\n".join(grids)
        return f"{title}{self.below_title}{grid}" if title else grid

    def _with_labels_that_fit(self, heads: Sequence[str], rows: Rows, labels: int) -> tuple[Sequence[str], Rows, int]:
        """The labels of a table broken to fit; two stand one below the other where one of them would lose a word."""
        width, numbers = self.width or 0, self._sizes([heads, *rows])[labels:]
        broken = (_Wrapper.wordsep_simple_re.split(cell) for row in rows for cell in row[:labels])
        longest = max((len(piece) for pieces in broken for piece in pieces), default=0)
        most = width - max(numbers, default=0)
        columns = 1 if labels * (longest + self.gap) > most else labels
        least = max(width // (3 * columns), min(longest + self.gap, most // columns))
        share = max((width - sum(numbers)) // columns, least) - self.gap
        lines = [[*(self._filled(cell, share) for cell in row[:labels]), *row[labels:]] for row in (heads, *rows)]
        if columns < labels:
            lines = [["\n".join(line[:labels]), *line[labels:]] for line in lines]
        return lines[0], lines[1:], columns

    def parts(self, lines: Rows, labels: int) -> list[list[list[str]]]:
        """A table's head and rows, split by columns so that each part fits; labels at the left stand in all parts."""
        sizes = self._sizes(lines)
        groups: list[list[int]] = [[]]
        for column in range(labels, len(sizes)):
            used = sum(sizes[:labels]) + sum(sizes[taken] for taken in groups[-1])
            if self.width is not None and groups[-1] and used + sizes[column] - self.gap > self.width:
                groups.append([])
            groups[-1].append(column)
        return [[[*line[:labels], *(line[column] for column in group)] for line in lines] for group in groups]

    def _sizes(self, lines: Rows) -> list[int]:
        """Characters that each column takes of a line, with the gap behind it."""
        padding = [self.padding, *[0] * (len(lines) - 1)]  # tabulate gives the head more room
        columns = zip(*lines, strict=True)
        return [max(map(sum, zip(map(_size, column), padding, strict=True))) + self.gap for column in columns]

    def paragraph(self, text: str) -> str:
        """Words on lines that fit."""
        return self._filled(text)

    def whole(self, tables: Sequence[str], notes: Sequence[str]) -> str:
        """All tables with the notes below them."""
        return "\n\n".join([*tables, self.line_break.join(map(self._filled, notes))])

    def _filled(self, text: str, width: int | None = None) -> str:
        """Text broken at blanks and within specs, so that no terminal breaks it in the middle of a number."""
        width = width or self.width
        return text if width is None else "\n".join(_Wrapper(max(1, width), break_on_hyphens=False).wrap(text))


class Terminal(Text):
    """Text for a terminal: best bold, second best underlined."""

    bold, underlined = "\x1b[1m{}\x1b[22m", "\x1b[4m{}\x1b[24m"


class Markdown(Text):
    """GitHub's Markdown, with HTML's underline, which it lacks."""

    kind, below_title, line_break = "pipe", "\n\n", "  \n"
    bold, underlined = "**{}**", "<u>{}</u>"

    def text(self, text: str) -> str:
        return "".join(f"\\{letter}" if letter in "\\|*_[]<>`" else letter for letter in text)


class Html(Text):
    """A fragment of HTML: the tables, and the notes as a paragraph."""

    bold, underlined = "<strong>{}</strong>", "<u>{}</u>"

    def text(self, text: str) -> str:
        return html.escape(text)

    def paragraph(self, text: str) -> str:
        return f"<p>{text}</p>"

    def table(self, title: str, heads: Sequence[str], rows: Rows, labels: int = 1) -> str:
        def line(cells: Sequence[str], scope: str = "row", heads: int = labels) -> str:
            written = (f'<th scope="{scope}">{cell}</th>' for cell in cells[:heads])
            return f"<tr>{''.join([*written, *(f'<td>{cell}</td>' for cell in cells[heads:])])}</tr>"

        caption = f"<caption>{title}</caption>" if title else ""
        above = f"<table>{caption}\n<thead>{line(heads, 'col', len(heads))}</thead>\n<tbody>"
        return "\n".join([above, *map(line, rows), "</tbody></table>"])

    def whole(self, tables: Sequence[str], notes: Sequence[str]) -> str:
        below = "<br>\n".join(notes)
        return "\n".join(['<div class="fieldbench">', *tables, f"<p><small>{below}</small></p>", "</div>"])


class Latex(Text):
    """Tables in the manner of booktabs, ready to be ``\\input`` (needs ``\\usepackage{booktabs}``)."""

    plus_minus, dash = " $\\pm$ ", "--"
    padding = 0
    bold, underlined = r"\textbf{{{}}}", r"\underline{{{}}}"

    _ESCAPES: ClassVar[dict[str, str]] = {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"$\dagger$", "‡": r"$\ddagger$",
        "±": r"$\pm$", "[": "{[}", "]": "{]}", "·": r"$\cdot$", "<": r"\textless{}", ">": r"\textgreater{}",
        "≠": r"$\neq$", "◊": r"$\diamond$", "‖": r"$\|$", "*": "{*}", "§": r"\S{}", "¶": r"\P{}",
    }  # fmt: skip

    def text(self, text: str) -> str:
        escaped = "".join(self._ESCAPES.get(letter, letter) for letter in text).replace("--", "-{}-")  # no dash
        return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)  # a minus, and no hyphen

    def number(self, value: float, decimals: int) -> str:
        mantissa, _, exponent = fixed(value, decimals).partition("e")
        if exponent:
            return rf"${mantissa}\cdot10^{{{int(exponent)}}}$"
        return mantissa.replace("-", "$-$").replace("inf", r"$\infty$")

    def table(self, title: str, heads: Sequence[str], rows: Rows, labels: int = 1) -> str:
        def line(cells: Sequence[str]) -> str:
            return " & ".join(cells) + r" \\"

        made = []
        for part in self.parts([heads, *rows], labels):
            columns = "l" * labels + "r" * (len(part[0]) - labels)
            above = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(part[0]), r"\midrule"]
            made.append("\n".join([*above, *map(line, part[1:]), r"\bottomrule", r"\end{tabular}"]))
        heading = self.paragraph(title) + "\n" if title else ""
        return heading + "\n\\par\\smallskip\n".join(map(_no_wider_than_a_line, made))

    def paragraph(self, text: str) -> str:
        return rf"{{\raggedright {text}\par}}"

    def whole(self, tables: Sequence[str], notes: Sequence[str]) -> str:
        blocks, below = "\n\\par\\bigskip\n".join(tables), "\\\\\n".join(notes)
        head = "% needs \\usepackage{booktabs,graphicx}"
        if foreign := "".join(dict.fromkeys(filter(_is_foreign, blocks + below))):
            said = f"pdflatex stops at {foreign}: use lualatex with a font that has it, or other labels"
            head += f"; {said}"
            _LOG.warning("%s", said)
        return f"{head}\n{blocks}\n\\par\\smallskip\n{{\\footnotesize\\raggedright {below}\\par}}"


def _is_foreign(letter: str) -> bool:
    """Whether pdflatex has no letter for it: whatever is not Latin or a mark of its own."""
    return ord(letter) > 0x17F and letter not in "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u20ac\u2122"


def _no_wider_than_a_line(tabular: str) -> str:
    """TeX measures the table, and makes it smaller where it is wider than a line: no overfull box."""
    fitted = r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi"
    return f"\\sbox0{{%\n{tabular}}}%\n\\noindent\\mbox{{{fitted}}}"


#: Every format but CSV, which has one line a cell.
STYLES: dict[str, Text] = {"text": Text(), "markdown": Markdown(), "latex": Latex(LATEX_WIDTH), "html": Html()}

FORMATS = (*STYLES, "csv")


def style_of(format: str, *, styled: bool = False, width: int | None = None) -> Text:
    """How a format is written.

    Args:
        format: one of :data:`STYLES`.
        styled: for ``text``, whether bold and underline may be used (a terminal that shows them).
        width: of a line in characters, for ``text`` and ``latex``; their own where None.

    Raises:
        RequestError: if there is no such format.
    """
    if format not in STYLES:
        raise RequestError(f"unknown format {format!r}{nearest(format, FORMATS)}")
    style = Terminal() if styled and format == "text" else STYLES[format]
    return style if width is None or format not in ("text", "latex") else type(style)(width)


def _size(cell: str) -> int:
    """Characters that a cell takes of a line."""
    return max(map(len, _MARKUP.sub("", cell).splitlines()), default=0)


def block_table(block: Block, style: Text) -> str:
    """One block of a table."""
    heads = [style.text(text) for text in (block.corner, *map(str, block.columns))]
    columns = range(len(block.columns))
    rows = []
    for i, row in enumerate(block.rows):
        shown = ((cell_text(block.cells[i, j], style), distance(block.above(i, j))) for j in columns)
        rows.append([style.text(str(row)), *(f"{text} {style.text(above)}".rstrip() for text, above in shown)])
    if block.floor:
        rows.append(["floor", *(cell_text(block.floor[j], style) for j in columns)])
    return style.table(style.text(block.title), heads, rows)


def cell_text(cell: TableCell, style: Text) -> str:
    """One cell: average and spread with their marks, or why there is no number."""
    if cell.count == 0:
        if cell.failed:
            return style.text("failed")
        return style.text("n/a") if cell.not_applicable else style.dash
    shown = style.number(cell.value, cell.decimals)
    shown = {1: style.bold, 2: style.underlined}.get(cell.rank, "{}").format(shown)
    if not math.isnan(cell.spread):
        shown += style.plus_minus + style.number(cell.spread, cell.decimals)
    mark = f" {style.text(cell.mark)}" if cell.mark else ""
    return shown + mark if cell.complete else f"{shown}{mark} ({cell.count}/{cell.planned})"


def csv_text(rows: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> str:
    """Flat rows for programs, unrounded; NaN and None are empty, and the columns by default all that any row has."""
    rows = list(rows)
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if value != value else value for key, value in row.items()})
    return stream.getvalue().rstrip("\n")
