"""Settings: what all methods met alike, so what they are compared in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fieldbench.report.factors import label, ordered
from fieldbench.report.labels import called
from fieldbench.report.metadata import RunMetadata

#: Factors that make a setting, in the order in which it is named.
SETTING = ("dataset", "sampler", "noise", "rate", "select")

#: Levels that need no saying.
ORDINARY = {"noise": "none", "select": "final"}


def settings_of(frame: pd.DataFrame, by: Sequence[str], metadata: RunMetadata) -> list[dict[str, Any]]:
    """The settings of a frame's records, as the levels of the factors ``by``, in the order in which they are read.

    Args:
        frame: one row a record.
        by: factors whose levels make a setting.
        metadata: of the run, for the order of the levels.
    """
    present = list(frame[list(by)].drop_duplicates().itertuples(index=False, name=None))
    orders = {factor: ordered(list(frame[factor].unique()), factor, metadata) for factor in by}
    present.sort(key=lambda row: [orders[factor].index(level) for factor, level in zip(by, row, strict=True)])
    return [dict(zip(by, row, strict=True)) for row in present]


def records_of(setting: Mapping[str, Any], frame: pd.DataFrame) -> pd.DataFrame:
    """The records of one setting."""
    return frame[np.logical_and.reduce([frame[factor] == level for factor, level in setting.items()])]


def title_of(setting: Mapping[str, Any], frame: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """A setting in words: its dataset, its rate, and what varies in the frame or is out of the ordinary.

    Args:
        setting: its factors and levels.
        frame: one row a record.
        labels: what to call what.
    """
    return ", ".join(
        named(factor, level, labels)
        for factor, level in setting.items()
        if factor in ("dataset", "rate") or frame[factor].nunique() > 1 or ORDINARY.get(factor, level) != level
    )


def named(factor: str, level: object, labels: Mapping[str, str]) -> str:
    """A level with its factor's name, which a dataset needs not: ``ssf``, ``rate 10 %``.

    Args:
        factor: the factor.
        level: one of its levels.
        labels: what to call what.
    """
    shown = called(label(level, factor), labels)
    return shown if factor == "dataset" else f"{called(factor, labels)} {shown}"


def about_masks(datasets: Iterable[str]) -> str:
    """What to say of trials on datasets whose field is the same in every trial."""
    return (
        f"the trials on {', '.join(datasets)} share one field and differ in their masks: what they tell holds for "
        "other masks of that field, not for other fields"
    )
