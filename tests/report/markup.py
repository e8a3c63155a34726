"""HTML as a tree, to ask a page for its elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

#: Elements that have no end tag.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class Element:
    """One element: its tag, its attributes, and what is in it in order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    content: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, entities decoded."""
        return "".join(item if isinstance(item, str) else item.text for item in self.content)

    def every(self, tag: str = "", **attributes: str) -> Iterator[Element]:
        """Elements below this one, in the order of the page, with this tag and these attributes (``class_`` too)."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        for item in self.content:
            if isinstance(item, Element):
                if tag in ("", item.tag) and wanted.items() <= item.attributes.items():
                    yield item
                yield from item.every(tag, **attributes)

    def one(self, tag: str = "", **attributes: str) -> Element:
        """The first of :meth:`every`."""
        return next(self.every(tag, **attributes))

    def rows(self) -> list[list[Element]]:
        """The cells of each row of the tables inside that has data."""
        children = [[item for item in row.content if isinstance(item, Element)] for row in self.every("tr")]
        return [cells for cells in children if "td" in [cell.tag for cell in cells]]


def parse(text: str) -> Element:
    """The root of a page; every start tag needs its end tag."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [item.tag for item in reader.open] == ["root"], "an element is not closed"
    return reader.open[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("root")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].content.append(found)
        if tag not in VOID:
            self.open.append(found)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].content.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)
