"""Factors: what the rows and columns of a table can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import numpy as np
import pandas as pd

from fieldbench.errors import RequestError, nearest
from fieldbench.records import NOT_APPLICABLE, OK, percent
from fieldbench.report.metadata import MEASURES, RunMetadata
from fieldbench.spec import format_part, name_of, parse

#: The level of a parameter where a spec has no such parameter.
ABSENT = "-"

#: The factors that every record has.
FACTORS = ("method", "dataset", "sampler", "noise", "select", "rate", "seed", "device", "machine", "run")

#: Factors that hold specs, whose parameters are factors too.
SPECS = ("method", "dataset", "sampler", "noise", "select")


def with_parameters(frame: pd.DataFrame, names: Sequence[str], metadata: RunMetadata) -> pd.DataFrame:
    """The frame with a column for each of these parameters, which are taken out of the specs.

    ``epochs`` is that parameter of whatever has it, ``tap.epochs`` that of tap alone. So
    ``tap[epochs=500]`` becomes method ``tap`` with ``500`` in the new column; a spec without such a
    parameter gets ``-``.

    Args:
        frame: one row a record.
        names: of parameters.
        metadata: of the run.

    Raises:
        RequestError: if nothing in the frame has such a parameter, or its name alone does not say which is meant.
    """
    taken: dict[str, dict[str, set[str]]] = {}
    columns = {}
    for name in names:
        spec, keys = _owners(name, frame, metadata)
        values = {text: metadata.parameters_of(text)[key] for text, key in keys.items()}
        columns[name] = frame[spec].astype(object).map(lambda text, values=values: values.get(text, ABSENT))
        for text, key in keys.items():
            taken.setdefault(spec, {}).setdefault(text, set()).add(key)
    for spec, texts in taken.items():
        shorter = {text: _without(text, texts.get(text, set())) for text in map(str, frame[spec].cat.categories)}
        columns[spec] = frame[spec].astype(object).map(shorter).astype("category")
    return frame.assign(**columns)


def measures(frame: pd.DataFrame) -> list[str]:
    """What can be tabled and compared: the metrics of the records, ``seconds`` and ``peak_memory``."""
    others = ("key", "trial", "status", "error", "slots", "session", "timed", *FACTORS)
    return [str(name) for name in frame.columns if name not in others]


def must_be_measured(metric: str, frame: pd.DataFrame) -> None:
    """
    Raises:
        RequestError: if no record has this metric.
    """
    known = measures(frame)
    if metric not in known:
        raise RequestError(f"unknown metric {metric!r}{nearest(metric, known)}")


def is_of_methods(name: str, frame: pd.DataFrame, metadata: RunMetadata) -> bool:
    """Whether a factor is a parameter of methods (or of their selection) and of nothing observed.

    Args:
        name: of the factor.
        frame: one row a record.
        metadata: of the run.

    Raises:
        RequestError: as :func:`with_parameters` does.
    """
    return _owners(name, frame, metadata)[0] in ("method", "select")


def choices(frame: pd.DataFrame, metadata: RunMetadata) -> list[str]:
    """Every factor that the frame can be arranged by."""
    parameters = {
        key for spec in SPECS for text in frame[spec].cat.categories for key in metadata.parameters_of(str(text))
    }
    return [*FACTORS, *parameters, *{key.partition(".")[2] for key in parameters}]


def ordered(values: Sequence[object], factor: str, metadata: RunMetadata) -> list[object]:
    """Levels of a factor in the order in which they are read: numbers by size, specs as asked for.

    Args:
        values: the levels, some perhaps more than once.
        factor: whose levels they are.
        metadata: of the run.
    """
    distinct, first = list(dict.fromkeys(values)), list(metadata.first.get(factor, ()))
    usual = _spec_order(distinct, metadata) if factor in SPECS else sorted(distinct, key=_size)
    return sorted(usual, key=lambda value: first.index(value) if value in first else len(first))


def _spec_order(specs: Sequence[object], metadata: RunMetadata) -> list[object]:
    names = [name_of(text) for text in metadata.order]

    def reading_order(value: object) -> tuple[int, str]:
        text = str(value)
        if text in metadata.order:
            return metadata.order.index(text), text
        return names.index(name_of(text)) if name_of(text) in names else len(names), text

    return sorted(specs, key=reading_order)


def levels_meant(frame: pd.DataFrame, factor: str, wanted: Sequence[str]) -> list[list[object]]:
    """For each text the levels of a factor that it stands for, as ``--only method=tap`` names them.

    Args:
        frame: one row a record.
        factor: whose levels.
        wanted: the texts.

    Raises:
        RequestError: if there is no such factor, or a text stands for no level.
    """
    if factor not in frame:
        raise RequestError(f"unknown factor {factor!r}{nearest(factor, [*FACTORS, 'trial'])}")
    levels = list(frame[factor].unique())
    found = [[level for level in levels if _is_meant(level, text, factor)] for text in wanted]
    if [] in found:
        absent = wanted[found.index([])]
        raise RequestError(f"there is no record of {factor} {absent}{nearest(absent, map(str, levels))}")
    return found


def with_levels(frame: pd.DataFrame, only: Mapping[str, Sequence[str]], metadata: RunMetadata) -> pd.DataFrame:
    """The records with these levels of factors or parameters.

    Args:
        frame: one row a record.
        only: texts by factor, as ``--only method=tap`` and ``--only tap.epochs=500`` have them.
        metadata: of the run.

    Raises:
        RequestError: if there is no such factor, or a text stands for no level.
    """
    kept, known_factors = frame, [*choices(frame, metadata), "trial"]
    for factor, wanted in only.items():
        if factor not in (*frame, *known_factors):
            raise RequestError(f"unknown factor {factor!r}{nearest(factor, known_factors)}")
        known = frame if factor in frame else with_parameters(frame, [factor], metadata)
        meant = chain.from_iterable(levels_meant(known, factor, wanted))
        kept = kept[known.loc[kept.index, factor].isin(list(meant))]
    return kept


def once(frame: pd.DataFrame, factors: Sequence[str] = ()) -> pd.DataFrame:
    """The frame with each trial once, where it is of several runs and the ``factors`` do not tell these apart.

    Raises:
        RequestError: if two runs have different scores of one trial.
    """
    if "run" in factors or "run" not in frame or frame["run"].nunique() < 2:
        return frame
    good_first = frame.sort_values("status", key=lambda status: ~status.isin([OK, NOT_APPLICABLE]), kind="stable")
    scores = [name for name in measures(frame) if name not in MEASURES]
    trials = good_first[good_first["status"] == OK].groupby("key", sort=False)[scores]
    low, high = trials.min(), trials.max()
    told = (high - low > 1e-6 * np.maximum(high.abs(), low.abs())).any(axis=1)  # machines differ in last digits
    if told.any():
        one = frame[frame["key"] == told.index[told][0]]
        runs, what = " and ".join(one["run"].unique()), f"{one['method'].iloc[0]} on {one['dataset'].iloc[0]}"
        raise RequestError(
            f"{runs} have different scores of the same trials, as of {what}; choose one with --only run=NAME, or "
            "tell them apart in a table with --rows method,run"
        )
    return good_first.drop_duplicates("key").sort_index()


def label(value: object, factor: str) -> str:
    """How a level is written as the head of a row or column."""
    if factor == "rate":
        return percent(float(str(value)))
    return str(value)


def _owners(name: str, frame: pd.DataFrame, metadata: RunMetadata) -> tuple[str, dict[str, str]]:
    """The kind of spec that has a parameter, and for each such spec that has it the parameter's full name."""
    found: dict[str, dict[str, list[str]]] = {}
    for spec in SPECS:
        for text in map(str, frame[spec].cat.categories):
            keys = [key for key in metadata.parameters_of(text) if name in (key, key.partition(".")[2])]
            if keys:
                found.setdefault(spec, {})[text] = keys
    if not found:
        raise RequestError(f"unknown factor {name!r}{nearest(name, choices(frame, metadata))}")
    listed = [keys for texts in found.values() for keys in texts.values()]
    full = sorted({key for keys in listed for key in keys})
    # One column for several would tell apart by one of them what differs in another; a record's own column
    # (status, a metric) has to stay what it is.
    if name not in full and (len(found) > 1 or max(map(len, listed)) > 1 or name in frame):
        raise RequestError(f"factor {name!r} may be any of {', '.join(full)}; give one of these")
    spec, texts = next(iter(found.items()))
    return spec, {text: keys[0] for text, keys in texts.items()}


def _without(text: str, keys: Collection[str]) -> str:
    parts = parse(text)
    # Of two parts of one name (a+tv+tv) the last is the one whose parameters the metadata have.
    last = {part.name: index for index, part in enumerate(parts)}
    texts = []
    for index, part in enumerate(parts):
        taken = keys if last[part.name] == index else ()
        kept = {key: value for key, value in part.parameters.items() if f"{part.name}.{key}" not in taken}
        texts.append(format_part(part.name, kept))
    return "+".join(texts)


def _size(value: object) -> tuple[bool, float, str]:
    """Sorts words, such as the mark of what is absent, before numbers."""
    text = str(value)
    try:
        return True, float(text), text
    except ValueError:
        return False, 0.0, text


def _is_meant(level: object, text: str, factor: str) -> bool:
    """Whether a level is the one asked for: the same text, an equal number, or a spec of these very parts.

    Parameters that are not named may be any: ``tap`` is ``tap[epochs=500]``, too. A combination is another
    method: ``tap`` is not ``tap+tv``, but ``tap+tv`` is ``tap[epochs=500]+tv[weight=0.1]``.
    """
    if str(level) == text:
        return True
    if factor in SPECS:
        there, asked = parse(str(level)), parse(text)
        return [part.name for part in there] == [part.name for part in asked] and all(
            part.parameters.items() <= known.parameters.items() for part, known in zip(asked, there, strict=True)
        )
    try:
        return float(str(level)) == float(text)
    except ValueError:
        return False
