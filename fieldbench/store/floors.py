"""Floors of a run: how well each of its draws could be completed by who knows its generator; one row a draw."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import Field as Limited
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from fieldbench.records import LARGEST
from fieldbench.store.files import FLOORS, write_whole
from fieldbench.store.rows import opened

DrawKey = tuple[str, str, str, float, int, int]


@dataclass(frozen=True)
class Floor:
    """The scores of the best estimate that a generator allows for one draw.

    Attributes:
        dataset, sampler, noise, rate, seed, trial: the draw.
        identity: of its dataset, sampler and noise.
        metrics: scores by name; none where it has no floor.
    """

    dataset: str
    sampler: str
    noise: str
    rate: Annotated[float, Limited(gt=0, le=1)]
    seed: Annotated[int, Limited(ge=0, le=LARGEST)]
    trial: Annotated[int, Limited(ge=0, le=LARGEST)]
    identity: str
    metrics: dict[str, float]

    @property
    def draw(self) -> DrawKey:
        """What it is of."""
        return self.dataset, self.sampler, self.noise, self.rate, self.seed, self.trial


_FLOOR = TypeAdapter(Floor)


def read_floors(folder: Path) -> dict[DrawKey, Floor]:
    """The floors of a run, by draw; of several the last. A line that is not a floor counts for nothing."""
    found: dict[DrawKey, Floor] = {}
    with opened(folder / FLOORS) as stream:
        for line in stream:
            try:
                floor = _FLOOR.validate_json(line)
            except ValidationError:  # it is computed again by the same run
                continue
            found[floor.draw] = floor
    return found


def write_floors(folder: Path, floors: Iterable[Floor]) -> None:
    """Replace the floors of a run.

    Raises:
        StorageError: if they cannot be written.
    """
    write_whole(folder / FLOORS, "".join(f"{json.dumps(asdict(floor))}\n" for floor in floors))
