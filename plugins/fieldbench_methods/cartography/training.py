"""Training the autoencoder prior: the loop, its checkpoints, its validation and its card."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import fieldbench
from fieldbench import expanded
from fieldbench_methods.cartography import weight_files
from fieldbench_methods.cartography.autoencoder import Autoencoder, initialised
from fieldbench_methods.cartography.loss_fields import Fields, Population, Uniform, generator

if TYPE_CHECKING:
    from fieldbench import TrainingProgress
    from fieldbench_methods.cartography.prior import LossFieldPrior

#: A pool, drawn at once, has at least this many fields and serves at least this many steps, which spreads the fields
#: that share a shadowing over steps.
POOL_FIELDS, POOL_STEPS = 5632, 16

#: Fields made of each shadowing.
VIEWS = 8

#: Seconds between checkpoints.
CHECKPOINT_INTERVAL = 30.0

#: What keeps the streams of one seed apart.
POOL, MASK, VALIDATION = 0, 1, 2


@dataclass
class History:
    """How far a training has come.

    Attributes:
        step: steps done.
        seconds: wall-clock seconds spent on them, all sessions together.
        losses: (step, mean training loss since the last entry, validation loss), for each validation.
        schedules: (first step, steps, decay), whenever a session was begun with another end in view.
    """

    step: int = 0
    seconds: float = 0.0
    losses: list[tuple[int, float, float]] = field(default_factory=list)
    schedules: list[tuple[int, int, float]] = field(default_factory=list)

    def validated(self, step: int) -> bool:
        """Whether ``step`` is the last one done, and its loss known."""
        return self.step == step and bool(self.losses) and self.losses[-1][0] == step

    def begin(self, settings: LossFieldPrior) -> None:
        """Note the schedule of a session that begins."""
        schedule = (settings.steps, settings.decay)
        if not self.schedules or tuple(self.schedules[-1][1:]) != schedule:
            self.schedules.append((self.step, *schedule))


@dataclass(frozen=True)
class ValidationSet:
    """Validation fields with their masks, the same whenever they are asked for."""

    complete: Tensor
    mask: Tensor

    def loss(self, network: Autoencoder) -> float:
        """Mean over the fields of the summed absolute error, batch norm in eval mode."""
        network.eval()
        with torch.no_grad():
            parts = zip(self.mask.split(256), self.complete.split(256), strict=True)
            errors = [absolute_error(network(mask, complete), complete) for mask, complete in parts]
        network.train()
        return float(torch.stack(errors).double().sum()) / len(self.complete)


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """Let a GPU try its algorithms on the first batch and keep the fastest: all batches have one shape."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@fastest_convolutions()
def train(
    settings: LossFieldPrior, out: Path, *, seed: int, device: str, progress: TrainingProgress, resume: bool
) -> None:
    """Train a prior and write it; see :class:`fieldbench_methods.cartography.prior.LossFieldPrior`.

    The fields and masks of a step depend on seed and step alone, so a training that was cut short and
    resumed ends with the weights of one that was not (on one processor, with one number of threads; the
    kernels of a GPU round as they come).

    On a GPU fields are drawn where they are used, and between validations nothing waits for it: the training
    loss is summed there. Convolutions use TF32, as torch does by default; weights, the product that draws the
    shadowing and everything else are in single precision.

    Args:
        settings: of the training.
        out: the weights file to be written.
        seed: of weights, fields and masks.
        device: where it is trained.
        progress: told of each validation.
        resume: go on from the checkpoint beside ``out``.

    Raises:
        RequestError: if ``out`` exists, if there is a checkpoint and ``resume`` is off, if the checkpoint
            is of other settings or another seed or of more steps than are asked for, or if the weights to start
            from cannot be read.
    """
    checkpoint = Checkpoint(out.with_name(out.name + ".checkpoint"), settings, seed)
    if out.exists():
        raise fieldbench.RequestError(f"{str(out)!r} exists; remove it or choose another --out")
    torch_device = torch.device(device)
    network = _beginning(settings, seed).to(torch_device)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, fused=True)
    history = checkpoint.restore(network, optimizer, resume)
    history.begin(settings)

    fields = Fields(population(settings), torch_device)
    validation = validation_set(fields, settings.validation, seed)
    started, before, saved = time.monotonic(), history.seconds, time.monotonic()
    recent, counted = torch.zeros((), device=torch_device), 0
    for step, complete, mask in batches(fields, settings, seed, history.step):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, step)
        recent += _learn(network, optimizer, complete, mask)
        counted += 1
        history.step = step + 1
        if history.step % settings.validate_every == 0 or history.step == settings.steps:
            history.losses.append((history.step, float(recent) / counted, validation.loss(network)))
            recent, counted = torch.zeros_like(recent), 0
        history.seconds = before + time.monotonic() - started
        latest = history.losses[-1] if history.losses else None
        progress(history.step, settings.steps, **({"validation loss": latest[2]} if latest else {}))
        if time.monotonic() - saved > CHECKPOINT_INTERVAL:
            checkpoint.save(network, optimizer, history)
            saved = time.monotonic()

    weight_files.save(network, out)
    card = _card(settings, out, history, seed, torch_device)
    out.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n")
    checkpoint.path.unlink(missing_ok=True)


def _beginning(settings: LossFieldPrior, seed: int) -> Autoencoder:
    if settings.start is None:
        return initialised(seed)
    return weight_files.load(_start(settings.start)).requires_grad_(True).train()


def _start(name: str) -> Path:
    file = expanded(name)
    if not file.is_file():
        raise fieldbench.RequestError(f"start={name} is not a file; give weights that train-prior wrote")
    return file


def population(settings: LossFieldPrior) -> Population:
    """The fields that the settings describe: decorrelation distances about one grid step apart."""
    nearest, farthest = settings.decorrelation
    distances = np.linspace(nearest, farthest, max(1, round(farthest - nearest) + 1))
    return Population(
        eta=Uniform(*settings.eta),
        decorrelation=tuple(distances.tolist()),
        exponent=Uniform(*settings.exponent),
        rate=Uniform(*settings.observed),
    )


def batches(fields: Fields, settings: LossFieldPrior, seed: int, start: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Training batches from step ``start`` on: (step, complete fields, masks).

    Each pool of fields is drawn at once and then used batch by batch; masks are fresh in every step.

    Args:
        fields: draws them.
        settings: sizes of a batch and number of steps.
        seed: of fields and masks.
        start: the first step.
    """
    least = max(POOL_FIELDS, POOL_STEPS * settings.batch)
    shadowings = -(-least // (VIEWS * len(fields.population.decorrelation)))
    per_pool = shadowings * VIEWS * len(fields.population.decorrelation) // settings.batch
    for number in count(start // per_pool):
        pool = fields.draw(shadowings, generator(fields.device, seed, POOL, number), VIEWS)
        for index, complete in enumerate(pool.split(settings.batch)[:per_pool]):
            step = number * per_pool + index
            if step >= settings.steps:
                return
            if step >= start:
                yield step, complete, fields.masks(len(complete), generator(fields.device, seed, MASK, step))


def validation_set(fields: Fields, size: int, seed: int) -> ValidationSet:
    """``size`` validation fields of their own stream, the same for every device.

    Args:
        fields: draws them.
        size: number of fields.
        seed: of fields and masks.
    """
    return ValidationSet(*fields.examples(size, np.random.default_rng((seed, VALIDATION))))


def learning_rate(settings: LossFieldPrior, step: int) -> float:
    """Linear warm-up, a plateau, and a linear descent over the last share ``decay`` of the steps."""
    warm = min(1.0, (step + 1) / (settings.warmup + 1))
    left = (settings.steps - step) / max(1.0, settings.decay * settings.steps)
    return settings.learning_rate * min(warm, left, 1.0)


def absolute_error(estimate: Tensor, complete: Tensor) -> Tensor:
    """Summed absolute error over all pixels and fields."""
    return (estimate - complete).abs().sum()


def _learn(network: Autoencoder, optimizer: torch.optim.Optimizer, complete: Tensor, mask: Tensor) -> Tensor:
    """One step; the loss stays on the device, so that nothing waits for it."""
    loss = absolute_error(network(mask, complete), complete) / len(complete)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@dataclass(frozen=True)
class Checkpoint:
    """The state of an unfinished training on disk."""

    path: Path
    settings: LossFieldPrior
    seed: int

    def save(self, network: Autoencoder, optimizer: torch.optim.Optimizer, history: History) -> None:
        """Write the file as a whole, in place of an older one.

        Args:
            network: as it is now.
            optimizer: as it is now.
            history: of the losses so far.
        """
        content = {
            "of": self._identity(),
            "history": asdict(history),
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        partial = self.path.with_name(self.path.name + ".partial")
        torch.save(content, partial)
        partial.replace(self.path)

    def restore(self, network: Autoencoder, optimizer: torch.optim.Optimizer, resume: bool) -> History:
        """Bring network and optimizer to where the training stopped; a fresh history if there is no file.

        Args:
            network: its weights are replaced.
            optimizer: its state is replaced.
            resume: whether an unfinished training may be gone on with.
        """
        if not self.path.exists():
            return History()
        if not resume:
            raise fieldbench.RequestError(f"{str(self.path)!r} is an unfinished training; give --resume or remove it")
        content = torch.load(self.path, weights_only=True, map_location="cpu")
        theirs, ours = content["of"], self._identity()
        for key in ours:
            if theirs.get(key) != ours[key]:
                raise fieldbench.RequestError(
                    f"{str(self.path)!r} was begun with {key} = {theirs.get(key)}, not {ours[key]}; give that to resume"
                )
        network.load_state_dict(content["network"])
        optimizer.load_state_dict(content["optimizer"])
        history = History(**content["history"])
        # At the very end, validated, only the weights may be left to be written.
        if history.step >= self.settings.steps and not history.validated(self.settings.steps):
            raise fieldbench.RequestError(
                f"{str(self.path)!r} has done {history.step} steps, not fewer than steps={self.settings.steps}; "
                f"give steps={history.step + 1} or more to resume"
            )
        return history

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a training to go on; when it descends and ends may change."""
        settings = {key: value for key, value in self.settings.parameters().items() if key not in ("steps", "decay")}
        return {"seed": self.seed, **settings}


def _card(settings: LossFieldPrior, out: Path, history: History, seed: int, device: torch.device) -> dict[str, Any]:
    return {
        "weights": out.name,
        "sha256": weight_files.sha256(out),
        "what": "autoencoder prior over spatial loss fields, 51 x 51, for nasdac and dowjons",
        "seed": seed,
        "settings": settings.parameters(),
        "start": None if settings.start is None else {"sha256": weight_files.sha256(_start(settings.start))},
        "schedules": [dict(zip(("first step", "steps", "decay"), entry, strict=True)) for entry in history.schedules],
        "fields": history.step * settings.batch,
        "loss": "summed absolute error over the 2601 pixels of a unit-norm field, mean over fields",
        "validation_loss": history.losses[-1][2],
        "validation": f"{settings.validation} fields of a stream of their own, batch norm in eval mode",
        "losses": [dict(zip(("step", "training", "validation"), entry, strict=True)) for entry in history.losses],
        "seconds": round(history.seconds, 1),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "versions": {
            "fieldbench": fieldbench.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "date": datetime.now(UTC).date().isoformat(),
    }
