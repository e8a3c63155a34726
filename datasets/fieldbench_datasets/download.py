"""Published files that fieldbench uses and does not ship: fetched once, verified, kept.

A file is looked for in the folder that FIELDBENCH_DATA names, then in the cache folder (FIELDBENCH_CACHE, or
the user's cache folder), and then downloaded into the cache folder. Wherever it lies, its hash must be the
pinned one, so that everybody's numbers come from the same data.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from fieldbench import DataUnavailable, expanded


@dataclass(frozen=True)
class PublishedFile:
    """A file somebody published: where it belongs below a data folder, where it is from, and its hash."""

    path: str
    url: str
    sha256: str

    def obtain(self) -> Path:
        """The verified local file, downloaded if need be.

        Raises:
            DataUnavailable: if it is not here and cannot be downloaded, or a given file is another one.
        """
        given = self._given()
        if given is not None:
            return given
        cached = cache_folder() / self.path
        if cached.is_file() and _sha256(cached) == self.sha256:
            return cached
        return self._download(cached)

    def _given(self) -> Path | None:
        folder = os.environ.get("FIELDBENCH_DATA")
        file = expanded(folder) / self.path if folder else None
        if file is None or not file.is_file():
            return None
        found = _sha256(file)
        if found != self.sha256:
            raise DataUnavailable(
                f"{file} is not the published file (its sha256 starts {found[:12]}, not {self.sha256[:12]}); "
                f"replace it by {self.url}, or remove it"
            )
        return file

    def _download(self, target: Path) -> Path:
        import pooch

        try:
            pooch.retrieve(self.url, known_hash=f"sha256:{self.sha256}", path=target.parent, fname=target.name)
        except (OSError, ValueError) as error:  # no network, no such page, or other content than the pinned hash
            reason = " ".join(str(error).split()) or type(error).__name__
            if len(reason) > 120:
                reason = f"{reason[:120]}..."
            raise DataUnavailable(
                f"cannot download {self.url}; save it as {target} yourself, or set FIELDBENCH_DATA "
                f"to a folder that has {self.path} ({type(error).__name__}: {reason})"
            ) from error
        return target


def cache_folder() -> Path:
    """Where downloads are kept: FIELDBENCH_CACHE, or the user's cache folder for fieldbench."""
    named = os.environ.get("FIELDBENCH_CACHE")
    if named:
        return expanded(named)
    import platformdirs

    return platformdirs.user_cache_path("fieldbench")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
