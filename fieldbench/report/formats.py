"""Writing tables as text, Markdown, LaTeX, HTML or CSV."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from tabulate import tabulate

from fieldbench.report.blocks import Block, TableCell
from fieldbench.report.numbers import fixed

#: The rows of a table, each cell written in the style of its format.
Rows: TypeAlias = Sequence[Sequence[str]]


class Text:
    """Aligned columns of plain text. Each other format says how it differs."""

    plus_minus, dash = " ± ", "-"
    kind, below_title, line_break = "simple", "\n", "\n"

    def text(self, text: str) -> str:
        """Plain text, escaped."""
        return text

    def best(self, text: str) -> str:
        """A number that is the best of its candidates."""
        return text

    def second(self, text: str) -> str:
        """A number that is the second best."""
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
        aligned = ["left" if column < labels else "right" for column in range(len(heads))]
        grid = tabulate(rows, heads, tablefmt=self.kind, colalign=aligned, disable_numparse=True)
        return f"{title}{self.below_title}{grid}" if title else grid

    def whole(self, tables: Sequence[str], notes: Sequence[str]) -> str:
        """All tables with the notes below them."""
        return "\n\n".join([*tables, self.line_break.join(notes)])


class Terminal(Text):
    """Text for a terminal: best bold, second best underlined."""

    def best(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[22m"

    def second(self, text: str) -> str:
        return f"\x1b[4m{text}\x1b[24m"


class Markdown(Text):
    """GitHub's Markdown, with HTML's underline, which it lacks."""

    kind, below_title, line_break = "pipe", "\n\n", "  \n"

    def text(self, text: str) -> str:
        return "".join(f"\\{letter}" if letter in "\\|*_[]<>`" else letter for letter in text)

    def best(self, text: str) -> str:
        return f"**{text}**"

    def second(self, text: str) -> str:
        return f"<u>{text}</u>"


class Html(Text):
    """A fragment of HTML: the tables, and the notes as a paragraph."""

    def text(self, text: str) -> str:
        return html.escape(text)

    def best(self, text: str) -> str:
        return f"<strong>{text}</strong>"

    def second(self, text: str) -> str:
        return f"<u>{text}</u>"

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

    _ESCAPES: ClassVar[dict[str, str]] = {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"$\dagger$", "‡": r"$\ddagger$",
        "±": r"$\pm$", "[": "{[}", "]": "{]}", "·": r"$\cdot$", "<": r"\textless{}", ">": r"\textgreater{}",
        "≠": r"$\neq$", "◊": r"$\diamond$", "‖": r"$\|$", "*": "{*}", "§": r"\S{}", "¶": r"\P{}",
    }  # fmt: skip

    def text(self, text: str) -> str:
        return "".join(self._ESCAPES.get(letter, letter) for letter in text)

    def best(self, text: str) -> str:
        return rf"\textbf{{{text}}}"

    def second(self, text: str) -> str:
        return rf"\underline{{{text}}}"

    def number(self, value: float, decimals: int) -> str:
        mantissa, _, exponent = fixed(value, decimals).partition("e")
        if exponent:
            return rf"${mantissa}\cdot10^{{{int(exponent)}}}$"
        return mantissa.replace("-", "$-$").replace("inf", r"$\infty$")

    def table(self, title: str, heads: Sequence[str], rows: Rows, labels: int = 1) -> str:
        def line(cells: Sequence[str]) -> str:
            return " & ".join(cells) + r" \\"

        head = [rf"\multicolumn{{{len(heads)}}}{{l}}{{{title}}} \\", r"\midrule"] if title else []
        columns = "l" * labels + "r" * (len(heads) - labels)
        above = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *head, line(heads), r"\midrule"]
        return "\n".join([*above, *map(line, rows), r"\bottomrule", r"\end{tabular}"])

    def whole(self, tables: Sequence[str], notes: Sequence[str]) -> str:
        blocks, below = "\n\\par\\bigskip\n".join(tables), "\\\\\n".join(notes)
        return f"% needs \\usepackage{{booktabs}}\n{blocks}\n\\par\\smallskip\n{{\\footnotesize {below}\\par}}"


#: Every format but CSV, which has one line a cell.
STYLES: dict[str, Text] = {"text": Text(), "markdown": Markdown(), "latex": Latex(), "html": Html()}

FORMATS = (*STYLES, "csv")


def block_table(block: Block, style: Text) -> str:
    """One block of a table."""
    heads = [style.text(text) for text in (block.corner, *map(str, block.columns))]
    places = range(len(block.columns))
    rows = [
        [style.text(str(row)), *(_cell_above(block, i, j, style) for j in places)] for i, row in enumerate(block.rows)
    ]
    if block.floor:
        rows.append(["floor", *(cell_text(block.floor[j], block.decimals, style) for j in places)])
    return style.table(style.text(block.title), heads, rows)


def _cell_above(block: Block, row: int, column: int, style: Text) -> str:
    """One cell, and how far it is above the floor."""
    shown, above = cell_text(block.cells[row, column], block.decimals, style), block.above(row, column)
    return shown if math.isnan(above) else f"{shown} {style.text(f'{round(above) + 0:+d} %')}"


def cell_text(cell: TableCell, decimals: int, style: Text) -> str:
    """One cell: average and spread with their marks, or why there is no number.

    Args:
        cell: what is shown.
        decimals: of the average and the spread.
        style: of the format.
    """
    if cell.count == 0:
        if cell.failed:
            return style.text("failed")
        return style.text("n/a") if cell.not_applicable else style.dash
    shown = style.number(cell.value, decimals)
    shown = {1: style.best, 2: style.second}.get(cell.rank, str)(shown)
    if not math.isnan(cell.spread):
        shown += style.plus_minus + style.number(cell.spread, decimals)
    mark = f" {style.text(cell.mark)}" if cell.mark else ""
    return shown + mark if cell.complete else f"{shown}{mark} ({cell.count}/{cell.planned})"


def csv_text(rows: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> str:
    """Flat rows for programs, unrounded; NaN and None are empty.

    Args:
        rows: one mapping a line.
        names: columns; by default all that any row has.
    """
    rows = list(rows)
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if value != value else value for key, value in row.items()})
    return stream.getvalue().rstrip("\n")
