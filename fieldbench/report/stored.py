"""A finished or growing run as figures and pages read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fieldbench.errors import RequestError
from fieldbench.execution.again import reconstruction
from fieldbench.reconstructions import Reconstruction
from fieldbench.records import OK, trial_of
from fieldbench.registry import Registry, Sources
from fieldbench.report.factors import SPECS, ordered, with_levels
from fieldbench.report.floors import DRAW, floors_of, has_floor, read_floor_frame
from fieldbench.report.frame import read_frame
from fieldbench.report.labels import must_be_there, named_so
from fieldbench.report.metadata import RunMetadata
from fieldbench.report.numbers import with_unit
from fieldbench.report.settings import SETTING, records_of, settings_of, title_of
from fieldbench.store.manifest import Manifest, existing_run, read_manifest
from fieldbench.store.run import read_rows


def run_name(folder: Path) -> str:
    """What tables and pages call a run: its folder's name, of which the locale may make something that is not text."""
    return os.fsencode(folder.resolve().name).decode(errors="replace")


@dataclass(frozen=True)
class Panel:
    """One observed dataset and selection rule: what the methods of one panel have in common.

    Attributes:
        levels: its factors.
        title: the setting in words, as far as the run needs it.
        metric: the headline metric of its dataset.
        name: what that is called in figures.
        unit: the unit of that metric, or an empty text.
    """

    levels: Mapping[str, Any]
    title: str
    metric: str
    name: str
    unit: str

    @property
    def measure(self) -> str:
        """The metric with its unit: an axis label."""
        return with_unit(self.name, self.unit)


@dataclass(frozen=True)
class StoredRun:
    """A run directory, read when it is needed and at most once.

    Attributes:
        path: the run directory.
        sources: plugins besides the installed ones, for fields that have to be recomputed.
        only: keep the records with these levels of a factor: ``{"rate": ["0.1"], "method": ["tap"]}``. A name
            stands for it with any parameters, but not for its combinations, such as ``tap+tv``.
        labels: what tables, figures and pages call what, by spec, metric or factor.
        beside: other runs whose records are in the frame and the metadata, too.

    Raises:
        RequestError: if there is no run at ``path``, two runs have folders of one name, there is no record of a level,
            nothing is left, or a label is for something that there is not.
    """

    path: Path
    sources: Sources = field(default_factory=Sources.from_environment)
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", existing_run(self.path))
        object.__setattr__(self, "beside", tuple(map(existing_run, self.beside)))
        names = [run_name(folder) for folder in (self.path, *self.beside)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise RequestError(f"two folders are called {twice!r}, by which a table would know their runs; rename one")

    @cached_property
    def manifest(self) -> Manifest:
        return read_manifest(self.path)

    @cached_property
    def metadata(self) -> RunMetadata:
        whole = RunMetadata.of_run(self.manifest, *map(read_manifest, self.beside))
        # Trials that are left out on purpose are not missing.
        return replace(whole, trials={}) if "trial" in self.only else whole

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.sources)

    def chosen(self, only: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> StoredRun:
        """Other levels or labels of the same records, which are read once for all."""
        other = replace(self, only=only, labels=labels)
        vars(other)["everything"] = self.everything
        return other

    @cached_property
    def everything(self) -> pd.DataFrame:
        """All records, as :func:`fieldbench.report.frame.read_frame` gives them, with the name of their ``run``."""
        folders = (self.path, *self.beside)
        frames = [read_frame(folder).assign(run=run_name(folder)) for folder in folders]
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, ignore_index=True).astype(dict.fromkeys(SPECS, "category"))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The records that :attr:`only` leaves."""
        must_be_there(self.labels, self.everything, self.metadata)
        only = {factor: [named_so(text, self.labels) for text in wanted] for factor, wanted in self.only.items()}
        frame = with_levels(self.everything, only, self.metadata)
        if self.only and frame.empty:
            chosen = ", ".join(f"{factor} {' or '.join(wanted)}" for factor, wanted in self.only.items())
            raise RequestError(f"{self.path} has no record of {chosen}")
        return frame.assign(**{name: frame[name].cat.remove_unused_categories() for name in ("method", "dataset")})

    @cached_property
    def floors(self) -> pd.DataFrame:
        """The floors of its draws, as :func:`fieldbench.report.floors.read_floor_frame` gives them."""
        floors = pd.concat([read_floor_frame(folder) for folder in (self.path, *self.beside)], ignore_index=True)
        return floors.drop_duplicates(DRAW)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The chosen records with their diagnostics."""
        return read_rows(self.path, keys=set(self.frame["key"]))

    @cached_property
    def methods(self) -> list[str]:
        """Methods in the order asked for."""
        return [str(name) for name in ordered(list(self.frame["method"].astype(str)), "method", self.metadata)]

    @cached_property
    def settings(self) -> list[Panel]:
        """Every setting of the run, in order."""
        found = []
        for levels in settings_of(self.frame, SETTING, self.metadata):
            metric = self.metadata.headline_of(levels["dataset"])
            title, unit = title_of(levels, self.frame, self.labels), self.metadata.unit(metric, levels["dataset"])
            found.append(Panel(levels, title, metric, self.called(metric), unit))
        return found

    def called(self, metric: str) -> str:
        """A metric as it is written: in capitals, unless it has a label."""
        return self.labels.get(metric, metric.upper())

    def setting_of(self, row: Mapping[str, Any]) -> Panel:
        """The setting that a stored row belongs to."""
        return next(setting for setting in self.settings if setting.levels.items() <= row.items())

    def floor(self, setting: Panel) -> float:
        """The average floor of a setting's draws; NaN unless all have one."""
        draws = records_of(setting.levels, self.frame).drop_duplicates(["seed", "trial"])
        if not has_floor(setting.metric, self.metadata):
            return float("nan")
        return float(floors_of(draws, setting.metric, self.floors).mean(skipna=False))

    def part(self, setting: Panel) -> pd.DataFrame:
        """The records of one setting, with a column ``score``: the headline metric, NaN where not ok."""
        part = records_of(setting.levels, self.frame)
        scores = part[setting.metric] if setting.metric in part else pd.Series(np.nan, index=part.index)
        return part.assign(score=scores.astype(float).where(part["status"] == OK))

    def draw(self, setting: Panel, trial: int | None = None) -> tuple[str, dict[str, dict[str, Any]]]:
        """One draw of a setting: its title, and the row of each method that ended well on it; both may be empty.

        It is of the trial of this number of the first seed that has it, by default of the first trial that is there.
        """
        part = self.part(setting)
        good = part[part["status"] == OK]
        draws = sorted(set(zip(good["trial"], good["seed"], strict=True)))
        wanted = next((draw for draw in draws if trial is None or draw[0] == trial), None)
        if wanted is None:
            return "", {}
        keys = set(good.loc[(good["trial"] == wanted[0]) & (good["seed"] == wanted[1]), "key"])
        rows = {row["method"]: row for row in read_rows(self.path, keys=keys)}
        return f"{setting.title}, {self.draw_name(*wanted)}", rows

    def must_have_trial(self, number: int) -> None:
        """
        Raises:
            RequestError: if no trial of this number ended well.
        """
        there = sorted(self.frame.loc[self.frame["status"] == OK, "trial"].unique())
        if number not in there:
            raise RequestError(f"no trial {number} ended well; these did: {', '.join(map(str, there)) or 'none'}")

    def draw_name(self, trial: int, seed: int) -> str:
        """A draw in words: its trial's number, and its seed where the run has several."""
        return f"seed {seed}, trial {trial}" if self._several_seeds else f"trial {trial}"

    def reconstruction(self, row: Mapping[str, Any]) -> Reconstruction:
        """The fields of a stored row: as kept, or recomputed and then kept.

        Raises:
            RequestError: if they are not kept and cannot be recomputed.
        """
        return reconstruction(self.path, trial_of(row), lambda: self.registry)

    @cached_property
    def _several_seeds(self) -> bool:
        return int(self.frame["seed"].nunique()) > 1
