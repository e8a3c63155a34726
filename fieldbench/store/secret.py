"""A secret base seed: a method that redraws the truth from a seed that it guesses finds nothing.

Its 128 bits are drawn at random and lie in a file of the run that only its owner can read, until the run is complete;
then they go to the manifest, so that anybody can draw the same fields again. Rows know it by a label, which is a hash
of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

from fieldbench.errors import RequestError
from fieldbench.store.files import MANIFEST, SECRET, storing
from fieldbench.store.manifest import read_manifest


def new_seed() -> int:
    """128 random bits."""
    return secrets.randbits(128)


def label(seed: int) -> int:
    """What rows call a secret seed: a number of 63 bits from which it cannot be had."""
    return int(hashlib.sha256(f"fieldbench secret seed {seed:032x}".encode()).hexdigest()[:16], 16) >> 1


def secrets_of(folder: Path) -> dict[int, int]:
    """The secret seeds of a run by their labels, those that are known by now and the one that is still kept.

    Raises:
        RequestError: if the file that keeps it is damaged.
    """
    known = {}
    if (folder / MANIFEST).is_file():
        known = {name: int(seed, 16) for name, seed in read_manifest(folder).secrets.items()}
    kept = kept_seed(folder)
    return known if kept is None else {**known, label(kept): kept}


def kept_seed(folder: Path) -> int | None:
    """The seed of a run that is not complete, or None.

    Raises:
        RequestError: if the file that keeps it is damaged.
    """
    try:
        text = (folder / SECRET).read_text(encoding="ascii").strip()
        return int(text, 16)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        raise RequestError(f"{folder / SECRET} holds no seed; start over with --fresh, or use another folder") from None


def keep(folder: Path, seed: int) -> None:
    """Keep a seed in a run's folder, for its owner alone.

    Raises:
        StorageError: if it cannot be written.
    """
    with storing(folder / SECRET):
        file = os.open(folder / SECRET, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(file, "w", encoding="ascii") as stream:
            stream.write(f"{seed:032x}\n")
            stream.flush()
            os.fsync(stream.fileno())


def forget(folder: Path) -> None:
    """Delete the file of a seed that is known now."""
    with contextlib.suppress(FileNotFoundError), storing(folder / SECRET):
        (folder / SECRET).unlink()
