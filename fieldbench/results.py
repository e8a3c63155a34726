"""The results of a run, for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fieldbench.registry import Sources
from fieldbench.report.metadata import RunMetadata
from fieldbench.store.manifest import read_manifest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fieldbench.report.comparison import Comparison
    from fieldbench.report.stored import StoredRun
    from fieldbench.report.tables import Table


class Results:
    """The results of a run, for a notebook.

    >>> import fieldbench
    >>> specs = ["nearest", "linear"]
    >>> results = fieldbench.run(specs, "ssf-synthetic[shape=6x6x6]", trials=1, out=False, progress=False)
    >>> results.frame()["status"].tolist()
    ['ok', 'ok']
    """

    def __init__(self, path: str | Path, *, sources: Sources | None = None, keep: object = None) -> None:
        """
        Args:
            path: a run directory.
            sources: plugins besides the installed ones, for fields that have to be computed again.
            keep: anything that must live as long as the results, such as a temporary folder.

        Raises:
            RequestError: if there is no run at ``path``.
        """
        self.path = Path(path)
        RunMetadata.of_run(read_manifest(self.path))  # what is damaged is said now, and not by the first table
        self._sources = sources
        self._keep = keep

    @cached_property
    def _whole(self) -> StoredRun:
        from fieldbench.report.stored import StoredRun

        return StoredRun(self.path, self._sources or Sources.from_environment())

    def frame(self) -> pd.DataFrame:
        """The records as a pandas frame, one row a trial, metrics as columns."""
        return self._whole.everything.copy()

    @cached_property
    def leaks(self) -> list[str]:
        """One line for each method that is below the floor of a dataset beyond chance; none where all is well."""
        from fieldbench.report.floors import leaks

        run = self._whole
        return [] if run.floors.empty else leaks(run.frame, run.metadata, run.floors)

    def table(
        self,
        *,
        rows: str | Sequence[str] | None = None,
        columns: str | Sequence[str] = "rate",
        metric: str | Sequence[str] | None = None,
        spread: str | None = None,
        beside: Sequence[str | Path] = (),
        order: Mapping[str, Sequence[object]] | None = None,
        only: Mapping[str, Sequence[object]] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Table:
        """A table of means, as :func:`fieldbench.report.tables.make_table` describes it.

        Args:
            rows: factor or factors; methods where None.
            columns: factor or factors.
            metric: name; the datasets' own where None.
            spread: what follows the mean: ``interval`` (the default), ``std``, ``stderr`` or ``none``.
            beside: other runs, whose trials stand in the same table.
            order: levels that come first, in this order: ``{"method": ["tap", "tnn"]}``.
            only: levels of factors: ``{"method": ["tap", "tnn"], "rate": [0.1]}``.
            labels: what to call what, by spec, metric or factor: ``{"tap": "Ours"}``.

        Raises:
            RequestError: for an unknown factor, metric, spread or label.
        """
        from fieldbench.report.tables import make_table

        rows = [rows] if isinstance(rows, str) else rows
        columns = [columns] if isinstance(columns, str) else columns
        run = self._stored(only, labels, tuple(map(Path, beside)))
        table = make_table(
            run.frame,
            run.metadata,
            rows=rows,
            columns=columns,
            metric=metric,
            spread=spread,
            floors=run.floors,
            labels=run.labels,
            order=_texts(order),
        )
        here, asked = len(run.everything), run.metadata.size
        return replace(table, unfinished=f"unfinished: {here} of {asked} trials are here" if here < asked else "")

    def compare(
        self,
        *,
        metric: str | None = None,
        average: str | Sequence[str] = (),
        baseline: str | None = None,
        beside: Sequence[str | Path] = (),
        only: Mapping[str, Sequence[object]] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Comparison:
        """Every pair of methods, trial by trial, as :func:`fieldbench.report.comparison.compare` describes it.

        Args:
            metric: what is compared; by default the headline metric of each dataset.
            average: factors over which each trial's scores are averaged first.
            baseline: the one method that each other is tested against; every pair is tested where None.
            beside, only, labels: as in :meth:`table`.

        Raises:
            RequestError: for an unknown factor, metric, baseline or label, or fewer than two methods.
        """
        from fieldbench.report.comparison import compare

        run = self._stored(only, labels, tuple(map(Path, beside)))
        average = [average] if isinstance(average, str) else average
        return compare(run.frame, run.metadata, metric=metric, average=average, baseline=baseline, labels=run.labels)

    def plot(
        self,
        kind: str,
        *,
        only: Mapping[str, Sequence[object]] | None = None,
        labels: Mapping[str, str] | None = None,
        trial: int | None = None,
        axis: str | int | None = None,
        at: Sequence[int] = (),
        width: str | float = "text",
        style: str = "paper",
        colours: Mapping[str, str] | None = None,
    ) -> dict[str, Figure]:
        """Figures of one kind, by name.

        Args:
            kind: ``settings``, ``rate``, ``param``, ``epoch``, ``cost``, ``strips``, ``calibration``, ``ranks``,
                ``slices``, ``deviation`` or ``attention``.
            only, labels: as in :meth:`table`.
            trial, axis, at: for the kinds that show fields: which trial, the axis that is cut, indices along it.
            width: ``column``, ``text`` or inches.
            style: ``paper``, ``talk`` or ``dark``.
            colours: of methods, in place of those that follow from their names: ``{"nearest": "black"}``.

        Raises:
            RequestError: if this run has nothing to show of that kind, or for an unknown width, style or colour.
        """
        from fieldbench.report.figures import View, draw, width_of_page

        cut = None if axis is None else str(axis)
        view = View(width_of_page(width), style, colours or {}, trial=trial, axis=cut, at=tuple(at))
        return draw(self._stored(only, labels), kind, view)

    def report(
        self,
        path: str | Path | None = None,
        *,
        recompute: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> Path:
        """Write the run as one HTML file (``report.html`` in its folder by default), and return where it is.

        Args:
            path: the file.
            recompute: compute fields again that were not kept, for the slice browser.
            labels: as in :meth:`table`.
        """
        from fieldbench.report.page import write_page

        stored = self._stored(labels=labels)
        return write_page(stored, Path(path) if path else stored.path / "report.html", recompute=recompute)

    def _stored(
        self,
        only: Mapping[str, Sequence[object]] | None = None,
        labels: Mapping[str, str] | None = None,
        beside: tuple[Path, ...] = (),
    ) -> StoredRun:
        run = replace(self._whole, beside=beside) if beside else self._whole
        return run.chosen(_texts(only), labels or {})

    def __repr__(self) -> str:
        return f"Results of {self.path}" + (": no trials" if self._whole.everything.empty else f"\n\n{self.table()}")

    def _repr_html_(self) -> str:
        from html import escape

        table = "no trials" if self._whole.everything.empty else self.table().to("html")
        return f"{table}\n<p><small>{escape(str(self.path))}</small></p>"


def _texts(levels: Mapping[str, Sequence[object]] | None) -> dict[str, list[str]]:
    """Levels by factor as texts; one alone is a list of one."""
    return {
        factor: [str(level) for level in ([listed] if isinstance(listed, str) else listed)]
        for factor, listed in (levels or {}).items()
    }
