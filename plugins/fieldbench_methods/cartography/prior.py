"""How the prior of Nasdac and DowJons is trained: the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import model_validator

from fieldbench import PriorTraining, TrainingProgress, parameter

_SOURCE = "Shrestha, Fu, Hong, IEEE TSP 70, 2022"


class LossFieldPrior(PriorTraining):
    """Autoencoder over spatial loss fields, trained to complete them from a few pixels.

    Every step draws fields and pixel masks that no step has seen. The loss is the absolute error over all
    pixels, the optimiser Adam. Published: eta, decorrelation, exponent and observed as they stand here,
    batches of 128, learning rates 1e-3, 1e-4 and 2e-5 in turn, 65 million fields. The learning rate here
    follows the number of steps instead, so that a shorter training ends as settled as a long one. The card of
    the prior that comes with fieldbench says how that was trained.
    """

    name = "loss-field-prior"

    steps: int = parameter(50000, "training steps", ge=1)
    batch: int = parameter(32, "fields in a step", ge=2)
    learning_rate: float = parameter(2e-3, "learning rate of Adam, on the plateau", gt=0)
    warmup: int = parameter(500, "steps of linear warm-up", ge=0)
    decay: float = parameter(0.7, "share of the steps, at the end, in which the learning rate descends", gt=0, le=1)
    eta: tuple[float, float] = parameter((3.0, 9.0), "shadowing, standard deviation", source=_SOURCE, unit="dB")
    decorrelation: tuple[float, float] = parameter(
        (50.0, 60.0), "decorrelation distance of the shadowing", source=_SOURCE, unit="grid steps"
    )
    exponent: tuple[float, float] = parameter((2.0, 2.5), "path loss exponent", source=_SOURCE)
    observed: tuple[float, float] = parameter((0.01, 0.2), "share of pixels observed", source=_SOURCE)
    start: str | None = parameter(None, "weights to start from, a file as for weights=; none: random ones")
    validation: int = parameter(1024, "validation fields", ge=1)
    validate_every: int = parameter(500, "steps between validations", ge=1)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for key, least in (("eta", 0.0), ("decorrelation", 1e-3), ("exponent", 0.0), ("observed", 1e-3)):
            low, high = getattr(self, key)
            if not least <= low <= high:
                raise ValueError(
                    f"{key} must be a range (low,high) with {least:g} <= low <= high, not ({low:g},{high:g})"
                )
        if self.observed[1] > 1:
            raise ValueError(f"observed must end at 1 at most, not {self.observed[1]:g}")
        return self

    def run(self, out: Path, *, seed: int, device: str, progress: TrainingProgress, resume: bool) -> None:
        from fieldbench_methods.cartography.training import train

        train(self, out, seed=seed, device=device, progress=progress, resume=resume)
