"""Fields from one's own files as a dataset."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import BeforeValidator, model_validator

import fieldbench
from fieldbench import parameter
from fieldbench.datafile import DataPath, folder_files, located
from fieldbench.files import SUFFIXES, Wanted, read


def _several(value: object) -> object:
    """One word or number in place of a tuple of one."""
    return (value,) if isinstance(value, str | int) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_several)]
Counts = Annotated[tuple[int, ...], BeforeValidator(_several)]


class FileDataset(fieldbench.Dataset):
    """A field from a file of your own, or from a folder of them: file:PATH[variable=temp].

    NetCDF, .npy, .npz, MATLAB .mat, HDF5, and CSV or Parquet tables of points. Entries that are missing in
    the file (NaN, fill values) are taken as places where the field does not exist: they are neither observed
    nor scored. A folder holds one field a file, and every trial draws one of them. Results are kept by the
    content of the file, so it may be moved.
    """

    name = "file"
    revision = "2"

    path: DataPath = parameter(meaning="the file, or a folder with one field a file")
    variable: str | None = parameter(None, "name of the variable (column, path in HDF5); none if there is but one")
    coordinates: Words = parameter(
        (), "variables with the coordinates of each dimension; of a table, the columns that say where a row is"
    )
    grid: Counts = parameter((), "grid points along each coordinate of a table whose rows lie on no grid")
    valid: str | None = parameter(None, "variable of the same file that is not zero where the field exists")
    at: Words = parameter((), "positions along dimensions to be fixed, such as (time=0,depth=3)")
    log_floor: float | None = parameter(
        None, "for positive fields that vary over decades: the value added before taking logarithms", gt=0
    )

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        if self.valid is not None and Path(self.valid).suffix.lower() in SUFFIXES:
            raise ValueError("valid names a variable of the same file, not another file")
        return self

    @property
    def metric(self) -> str:  # type: ignore[override]
        """SLNRE for a field that is compared by its logarithm, RMSE for any other."""
        return "rmse" if self.log_floor is None else "slnre"

    def prepare(self) -> None:
        for file in self._files():
            self._field(file)

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        files = self._files()
        return self._field(files[int(rng.integers(len(files)))])

    def _files(self) -> list[Path]:
        path = located(self.path)
        if not path.is_dir():
            return [path]
        files = [file for file in folder_files(path) if file.suffix.lower() in SUFFIXES]
        if not files:
            raise fieldbench.RequestError(f"the folder {path} holds no file that can be read ({', '.join(SUFFIXES)})")
        return files

    def _field(self, file: Path) -> fieldbench.Field:
        wanted = Wanted(
            variable=self.variable,
            coordinates=self.coordinates,
            grid=self.grid,
            valid=self.valid,
            at=self.at,
        )
        return _read(file, file.stat().st_mtime_ns, wanted, self.log_floor)


@lru_cache(maxsize=8)
def _read(file: Path, modified: int, wanted: Wanted, log_floor: float | None) -> fieldbench.Field:
    return read(file, wanted).field(log_floor)
