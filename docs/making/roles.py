"""Docstrings in Markdown: names of other objects (:class:`Field`) become code, examples become blocks of it."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|attr|mod|data):`~?([^`]+)`")
CODE = re.compile(r"``([^`]+)``")


class Roles(griffe.Extension):
    """Rewrites the docstrings of everything that is loaded."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = with_examples(plain(obj.docstring.value))


def plain(text: str) -> str:
    """A docstring in Markdown.

    >>> plain("See :class:`fieldbench.Field` and ``rmse``.")
    'See `Field` and `rmse`.'
    """
    return CODE.sub(r"`\1`", ROLE.sub(lambda found: f"`{found[1].removeprefix('fieldbench.')}`", text))


def with_examples(text: str) -> str:
    """The same with every example of a prompt fenced, so that it is not taken for a quotation."""
    blocks = [
        f"```pycon\n{re.sub(' *# doctest:.*', '', block)}\n```" if block.startswith(">>>") else block
        for block in text.split("\n\n")
    ]
    return "\n\n".join(blocks)
