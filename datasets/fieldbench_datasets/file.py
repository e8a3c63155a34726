"""Fields from one's own files as a dataset."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, ConfigDict, model_validator

import fieldbench
from fieldbench import SUFFIXES, DataPath, Selector, folder_files, located, parameter, read


def _several(value: object) -> object:
    """One word or number in place of a tuple of one."""
    return (value,) if isinstance(value, str | int | float) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_several)]
Counts = Annotated[tuple[int, ...], BeforeValidator(_several)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_several)]


class FileDataset(fieldbench.Dataset):
    """A field from a file of your own, or from a folder of them: file:PATH[variable=temp].

    NetCDF, Zarr, .npy, .npz, MATLAB .mat, HDF5, GeoTIFF, and CSV or Parquet tables of points. Entries that are
    missing in the file (NaN, fill values) are taken as entries where the field does not exist: they are neither
    observed nor scored. A folder holds one field a file, and every trial draws one of them; with draw=time it draws
    a position along that dimension, so that trials are of other fields. Results are kept by the content of the
    file, so it may be moved.
    """

    #: What is written draw=time has another name inside, where draw is what draws.
    model_config = ConfigDict(populate_by_name=True)

    name = "file"
    revision = "3"

    path: DataPath = parameter(meaning="the file, or a folder with one field a file")
    variable: str | None = parameter(None, "name of the variable (column, path in HDF5); none if there is but one")
    coordinates: Words = parameter(
        (), "variables with the coordinates of each dimension; of a table, the columns that say where a row is"
    )
    grid: Counts = parameter((), "grid points along each coordinate of a table whose rows lie on no grid")
    valid: str | None = parameter(None, "variable of the same file that is not zero where the field exists")
    at: Words = parameter((), "positions along dimensions to be fixed, such as (time=0,depth=3)")
    missing: Numbers = parameter((), "numbers that stand for a missing value, such as -999")
    draw_along: str | None = parameter(
        None, "dimension along which every trial draws another position; draw=time says the same", alias="draw"
    )
    window: int = parameter(1, "positions along it that a trial has; one leaves the dimension out", ge=1)
    log_floor: float | None = parameter(
        None, "for positive fields that vary over decades: the value added before taking logarithms", gt=0
    )

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        if self.window > 1 and self.draw_along is None:
            raise ValueError("window is of a dimension that draw names, such as draw=time")
        if self.valid is not None and Path(self.valid).suffix.lower() in SUFFIXES:
            raise ValueError("valid names a variable of the same file, not another file")
        return self

    @property
    def metric(self) -> str:  # type: ignore[override]
        """SLNRE for a field that is compared by its logarithm, RMSE for any other."""
        return "rmse" if self.log_floor is None else "slnre"

    @property
    def fixed_field(self) -> bool:  # type: ignore[override]
        """Whether there is one file and no part of it is drawn."""
        return self.draw_along is None and len(self._files()) == 1

    def prepare(self) -> None:
        for file in self._files():
            field = self._field(file)
            if self.draw_along is not None:
                self._starts(field)

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        files = self._files()
        field = self._field(files[int(rng.integers(len(files)))])
        return field if self.draw_along is None else self._part(field, int(rng.choice(self._starts(field))))

    def _starts(self, field: fieldbench.Field) -> NDArray[np.intp]:
        """First positions of the windows along the drawn dimension in which the field exists somewhere."""
        names = [axis.name for axis in field.axes]
        if self.draw_along not in names:
            raise fieldbench.RequestError(
                f"draw={self.draw_along}: {field.quantity} has no such dimension; it has {', '.join(names)}"
            )
        dimension = names.index(self.draw_along)
        if len(names) == 1 and self.window == 1:
            raise fieldbench.RequestError(f"draw={self.draw_along} leaves no dimension; give a window")
        others = tuple(other for other in range(len(names)) if other != dimension)
        valid = np.atleast_1d(field.valid.any(axis=others))
        if self.window > len(valid):
            raise fieldbench.RequestError(f"window={self.window}: {self.draw_along} has {len(valid)} positions")
        return np.flatnonzero(np.lib.stride_tricks.sliding_window_view(valid, self.window).any(axis=1))

    def _part(self, field: fieldbench.Field, start: int) -> fieldbench.Field:
        """The window of the field from a position on, without the dimension where it has but one."""
        dimension = [axis.name for axis in field.axes].index(str(self.draw_along))
        positions = start if self.window == 1 else slice(start, start + self.window)
        index = (*[slice(None)] * dimension, positions)
        along = field.axes[dimension]
        kept = () if self.window == 1 else (replace(along, coordinates=along.coordinates[positions], period=None),)
        axes = (*field.axes[:dimension], *kept, *field.axes[dimension + 1 :])
        valid = field.valid[index]
        return replace(field, values=field.values[index], axes=axes, valid=valid)

    def _files(self) -> list[Path]:
        path = located(self.path)
        if not path.is_dir() or path.suffix.lower() == ".zarr":
            return [path]
        files = [file for file in folder_files(path) if file.suffix.lower() in SUFFIXES]
        if not files:
            raise fieldbench.RequestError(f"the folder {path} holds no file that can be read ({', '.join(SUFFIXES)})")
        return files

    def _field(self, file: Path) -> fieldbench.Field:
        selector = Selector(
            variable=self.variable,
            coordinates=self.coordinates,
            grid=self.grid,
            valid=self.valid,
            at=self.at,
            missing=self.missing,
        )
        return _read(file, file.stat().st_mtime_ns, selector, self.log_floor)


@lru_cache(maxsize=8)
def _read(file: Path, modified: int, selector: Selector, log_floor: float | None) -> fieldbench.Field:
    return read(file, selector).field(log_floor)
