"""Writing a table as text, Markdown, CSV, LaTeX or HTML."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable
from typing import ClassVar, Protocol

from tabulate import tabulate

from fieldbench.report.settings import ORDINARY
from fieldbench.report.tables import Block, Cell, Head, Table


class Style(Protocol):
    """How one format writes the pieces of a table."""

    def text(self, text: str) -> str:
        """Plain text, escaped."""

    def best(self, text: str) -> str:
        """A number that is the best of its rivals."""

    def second(self, text: str) -> str:
        """A number that is the second best."""

    def number(self, value: float, decimals: int) -> str:
        """A number with so many decimals, or in powers of ten for a negative number of them."""


class Plain:
    """Text without any styling."""

    plus_minus, dash = " ± ", "-"

    def text(self, text: str) -> str:
        return text

    def best(self, text: str) -> str:
        return text

    def second(self, text: str) -> str:
        return text

    def number(self, value: float, decimals: int) -> str:
        return f"{value:.2e}" if decimals < 0 else f"{value:.{decimals}f}"


class Terminal(Plain):
    """Text for a terminal: best bold, second best underlined."""

    def best(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[22m"

    def second(self, text: str) -> str:
        return f"\x1b[4m{text}\x1b[24m"


class Markdown(Plain):
    """GitHub's Markdown, with HTML's underline, which it lacks."""

    def text(self, text: str) -> str:
        return "".join(f"\\{letter}" if letter in "\\|*_[]<>`" else letter for letter in text)

    def best(self, text: str) -> str:
        return f"**{text}**"

    def second(self, text: str) -> str:
        return f"<u>{text}</u>"


class Html(Plain):
    """HTML text."""

    def text(self, text: str) -> str:
        return html.escape(text)

    def best(self, text: str) -> str:
        return f"<strong>{text}</strong>"

    def second(self, text: str) -> str:
        return f"<u>{text}</u>"


class Latex(Plain):
    """LaTeX text."""

    plus_minus, dash = " $\\pm$ ", "--"

    _ESCAPES: ClassVar[dict[str, str]] = {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"$\dagger$", "‡": r"$\ddagger$",
        "±": r"$\pm$", "[": "{[}", "]": "{]}", "·": r"$\cdot$", "<": r"\textless{}", ">": r"\textgreater{}",
    }  # fmt: skip

    def text(self, text: str) -> str:
        return "".join(self._ESCAPES.get(letter, letter) for letter in text)

    def best(self, text: str) -> str:
        return rf"\textbf{{{text}}}"

    def second(self, text: str) -> str:
        return rf"\underline{{{text}}}"

    def number(self, value: float, decimals: int) -> str:
        if decimals >= 0:
            return f"{value:.{decimals}f}".replace("-", "$-$").replace("inf", r"$\infty$")
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return rf"${mantissa}\cdot10^{{{int(exponent)}}}$" if exponent else mantissa


def as_text(table: Table, styled: bool = False) -> str:
    """Aligned columns; with ``styled`` the best is bold and the second best underlined."""
    style = Terminal() if styled else Plain()
    pieces = [f"{block.title}\n{_grid(block, table, style, 'simple')}" for block in table.blocks]
    return "\n\n".join([*pieces, "\n".join([*_common(table), *table.notes])])


def as_markdown(table: Table, styled: bool = False) -> str:
    """A GitHub table for each block, its title above and the notes below."""
    style = Markdown()
    pieces = [f"{style.text(block.title)}\n\n{_grid(block, table, style, 'pipe')}" for block in table.blocks]
    notes = "  \n".join(style.text(note) for note in [*_common(table), *table.notes])
    return "\n\n".join([*pieces, notes])


def as_csv(table: Table, styled: bool = False) -> str:
    """One line a cell, with every factor and count in a column of its own: for programs, unrounded."""
    cells = list(table.cells())
    names = list(dict.fromkeys(name for cell in cells for name in cell))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
    writer.writeheader()
    for cell in cells:
        writer.writerow({key: "" if value != value else value for key, value in cell.items()})
    return stream.getvalue().rstrip("\n")


def as_html(table: Table, styled: bool = False) -> str:
    """A fragment of HTML: a table for each block and the notes as a paragraph."""
    style = Html()
    blocks = [_html_block(block, table, style) for block in table.blocks]
    notes = "<br>\n".join(style.text(note) for note in [*_common(table), *table.notes])
    return "\n".join(['<div class="fieldbench">', *blocks, f"<p><small>{notes}</small></p>", "</div>"])


def as_latex(table: Table, styled: bool = False) -> str:
    """Tables in the manner of booktabs, ready to be ``\\input`` (needs ``\\usepackage{booktabs}``)."""
    style = Latex()
    blocks = "\n\\par\\bigskip\n".join(_latex_block(block, table, style) for block in table.blocks)
    notes = "\\\\\n".join(style.text(note) for note in [*_common(table), *table.notes])
    return f"% needs \\usepackage{{booktabs}}\n{blocks}\n\\par\\smallskip\n{{\\footnotesize {notes}\\par}}"


def _grid(block: Block, table: Table, style: Plain, kind: str) -> str:
    corner = style.text(", ".join(table.row_factors))
    heads = [corner, *(style.text(_head(column)) for column in block.columns)]
    body = [
        [style.text(_head(row)), *(write_cell(block.cells[i, j], block, style) for j in range(len(block.columns)))]
        for i, row in enumerate(block.rows)
    ]
    aligned = ("left", *("right" for _ in block.columns))
    return tabulate(body, heads, tablefmt=kind, colalign=aligned, disable_numparse=True)


def write_cell(cell: Cell, block: Block, style: Plain) -> str:
    """One cell: mean and spread, marked if it is best or second best, or why there is no number."""
    if cell.count == 0:
        if cell.failed:
            return style.text("failed")
        return style.text("n/a") if cell.not_applicable else style.dash
    shown = style.number(cell.mean, block.decimals)
    shown = {1: style.best, 2: style.second}.get(cell.place, str)(shown)
    if not math.isnan(cell.spread):
        shown += style.plus_minus + style.number(cell.spread, block.decimals)
    return shown if cell.complete else f"{shown} ({cell.count}/{cell.planned})"


def _head(head: Head) -> str:
    return head.text + " †" * head.oracle + " ‡" * head.trained


def _common(table: Table) -> list[str]:
    """A line saying what the whole table has in common, as far as it is not the plainest case."""
    plain = {**ORDINARY, "seed": 0}
    shown = {factor: value for factor, value in table.common.items() if str(value) != str(plain.get(factor))}
    return [", ".join(f"{factor} {value}" for factor, value in shown.items())] if shown else []


def _html_block(block: Block, table: Table, style: Html) -> str:
    corner = style.text(", ".join(table.row_factors))
    heads = "".join(f'<th scope="col">{style.text(_head(column))}</th>' for column in block.columns)
    lines = [
        f"<table><caption>{style.text(block.title)}</caption>",
        f'<thead><tr><th scope="col">{corner}</th>{heads}</tr></thead>',
        "<tbody>",
    ]
    for i, row in enumerate(block.rows):
        cells = "".join(f"<td>{write_cell(block.cells[i, j], block, style)}</td>" for j in range(len(block.columns)))
        lines.append(f'<tr><th scope="row">{style.text(_head(row))}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table>"])


def _latex_block(block: Block, table: Table, style: Latex) -> str:
    width = len(block.columns)
    corner = style.text(", ".join(table.row_factors))
    lines = [
        rf"\begin{{tabular}}{{l{'r' * width}}}",
        r"\toprule",
        rf"\multicolumn{{{width + 1}}}{{l}}{{{style.text(block.title)}}} \\",
        r"\midrule",
        " & ".join([corner, *(style.text(_head(column)) for column in block.columns)]) + r" \\",
        r"\midrule",
    ]
    for i, row in enumerate(block.rows):
        cells = (write_cell(block.cells[i, j], block, style) for j in range(width))
        lines.append(" & ".join([style.text(_head(row)), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


FORMATS: dict[str, Callable[[Table, bool], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "latex": as_latex,
    "html": as_html,
}
