"""Labels: what a paper calls what a run knows by a spec, a metric or a factor."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from fieldbench.errors import RequestError, nearest
from fieldbench.report.factors import FACTORS, SPECS, choices, label, measures
from fieldbench.report.metadata import RunMetadata

#: The names of a spec's parts.
_PART = re.compile(r"(?:^|(?<=\+))[a-z][a-z0-9-]*(?=$|[+:]|\[)")

#: A name, an equals sign outside all brackets and quotes, and its label.
_GIVEN = re.compile(r"""\s*((?:"(?:[^"\\]|\\.)*"|\[(?:"(?:[^"\\]|\\.)*"|[^]"])*\]|[^=\["])+)=\s*(\S.*)""", re.DOTALL)


def read_labels(file: Path | None, given: Sequence[str] = ()) -> dict[str, str]:
    """Labels from a TOML table of texts (``"tap[epochs=500]" = "Ours"``) and from texts ``tap=Ours``, which win.

    >>> read_labels(None, ["tap[epochs=500]=Ours", "rmse=RMSE = error"])
    {'tap[epochs=500]': 'Ours', 'rmse': 'RMSE = error'}

    Raises:
        RequestError: if the file cannot be read or holds something else, or a text is not of this form.
    """
    labels: dict[str, str] = {}
    if file is not None:
        try:
            labels = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise RequestError(f"labels {file}: {error.strerror}; give a TOML file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RequestError(f"{file}: not a TOML file: {error}") from None
        wrong = next((name for name, text in labels.items() if not isinstance(text, str)), None)
        if wrong is not None:
            raise RequestError(f'{file}: the label of {wrong!r} is not a text; write "{wrong}" = "its label"')
        unfit = next((name for name, text in labels.items() if not text.strip() or not text.isprintable()), None)
        if unfit is not None:
            raise RequestError(f"{file}: the label of {unfit!r} is empty or has more than one line; write one line")
    for text in given:
        found = _GIVEN.match(text)
        if not found:
            raise RequestError(f"--label {text!r} is not understood; write --label tap=Ours")
        labels[found[1].strip()] = found[2].strip()
    return labels


def called(text: str, labels: Mapping[str, str]) -> str:
    """What is written in place of a name: its label, or the spec with the labels of its parts.

    >>> called("tap[epochs=500]", {"tap": "Ours"}), called("tap", {"tnn": "TNN"})
    ('Ours[epochs=500]', 'tap')
    """
    if text in labels or not labels:
        return labels.get(text, text)
    return _PART.sub(lambda part: labels.get(part[0], part[0]), text)


def named_so(text: str, labels: Mapping[str, str]) -> str:
    """What a text is the label of; the text itself where it is none.

    >>> named_so("Ours", {"tap": "Ours"}), named_so("tnn", {"tap": "Ours"})
    ('tap', 'tnn')
    """
    return text if text in labels else next((name for name, label in labels.items() if label == text), text)


def labelled(rows: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Flat rows with labels in place of names, in their keys too."""
    for row in rows:
        yield {
            called(name, labels): called(value, labels) if isinstance(value, str) else value
            for name, value in row.items()
        }


def nameable(frame: pd.DataFrame, metadata: RunMetadata) -> set[str]:
    """All that a label may be for: specs and their parts, levels, factors, metrics."""
    present = [factor for factor in FACTORS if factor in frame]
    levels = {factor: [label(level, factor) for level in frame[factor].unique()] for factor in present}
    parts = [part for factor in SPECS for text in levels[factor] for part in _PART.findall(text)]
    return {*parts, *choices(frame, metadata), *measures(frame), *chain.from_iterable(levels.values())}


def must_be_there(labels: Mapping[str, str], frame: pd.DataFrame, metadata: RunMetadata) -> None:
    """
    Args:
        labels: what to call what.
        frame: one row a record.
        metadata: of the run.

    Raises:
        RequestError: if a label is for something that the records do not have, or two methods would have one name.
    """
    if not labels:
        return
    known = nameable(frame, metadata)
    for name in labels:
        if name not in known:
            raise RequestError(f"a label is for {name!r}, which this run does not have{nearest(name, known)}")
    for factor in ("method", "dataset"):
        names = Counter(called(str(text), labels) for text in frame[factor].unique())
        twice = [text for text, count in names.items() if count > 1]
        if twice:
            raise RequestError(f"two {factor}s would be called {twice[0]!r}; give each a label of its own")
