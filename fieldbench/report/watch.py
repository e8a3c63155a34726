"""The page of a run that is still growing, served to this machine alone.

The server listens on the loopback address only, answers two paths, and refuses requests that name another
host, so that no page of the web can read it through the reader's browser.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from fieldbench.errors import RequestError, one_line
from fieldbench.progress import Progress, in_words
from fieldbench.records import cell_of
from fieldbench.report.page import render
from fieldbench.report.page.contents import contents
from fieldbench.report.page.drawings import Drawing, drawings
from fieldbench.report.stored import StoredRun
from fieldbench.store.files import MANIFEST, TRIALS
from fieldbench.store.lock import writer
from fieldbench.store.manifest import SessionEntry, existing_run, read_manifest
from fieldbench.store.rows import Counted

LOOPBACK = "127.0.0.1"

#: Figures are drawn again after this many times the seconds that drawing took, and never sooner than
#: :data:`SOONEST`: the run comes first.
PATIENCE, SOONEST = 10.0, 15.0


class LiveRun:
    """What is known of a growing run: its text at once, its figures a little later."""

    def __init__(self, path: Path, draw: Callable[[StoredRun], list[Drawing]] = drawings) -> None:
        """
        Raises:
            RequestError: if there is no run at ``path``.
        """
        self.path = existing_run(path)
        self._draw = draw
        self._lock = threading.Lock()
        self._figures: list[Drawing] = []
        self._drawn = ""
        self._next = 0.0
        self._counted: tuple[int, int] | None = None
        self._progress: Progress

    @property
    def version(self) -> str:
        """Changes whenever there is something new to see."""
        sizes = [self._stamp(name) for name in (TRIALS, MANIFEST)]
        return "-".join([*map(str, sizes), self._drawn or "plain"])

    def page(self) -> str:
        """The whole page."""
        return self._rendered("run.html")

    def news(self) -> str:
        """The page's contents."""
        return self._rendered("sections.html")

    @property
    def to_go(self) -> str:
        """How long the run has to go, as its own terminal says it."""
        stamp = self._stamp(TRIALS), self._stamp(MANIFEST)
        if stamp != self._counted:
            self._progress, self._counted = progress_of(self.path), stamp
        if self._progress.left == 0:
            return "complete"
        if writer(self.path) is None:
            return "nothing is running; the same command goes on"
        return f"to go: {in_words(self._progress.seconds_left())}"

    def _rendered(self, template: str) -> str:
        """What there is; newer figures are begun in the background where it is time for them."""
        records = str(self._stamp(TRIALS))
        if records != self._drawn and time.monotonic() >= self._next and self._lock.acquire(blocking=False):
            threading.Thread(target=self._redraw, args=(records,), daemon=True).start()
        return render(template, live=True, to_go=self.to_go, **contents(StoredRun(self.path), self._figures))

    def _redraw(self, records: str) -> None:
        start = time.monotonic()
        try:
            self._figures = self._draw(StoredRun(self.path))
            self._drawn = records
        except RequestError:  # nothing to draw yet
            pass
        except Exception as error:  # a damaged row: the figures wait for the next
            self._figures, self._drawn = [Drawing("No figures", one_line(error), "data:,")], records
        finally:
            self._next = time.monotonic() + max(SOONEST, PATIENCE * (time.monotonic() - start))
            self._lock.release()

    def _stamp(self, name: str) -> int:
        try:
            return (self.path / name).stat().st_mtime_ns
        except FileNotFoundError:
            return 0


def progress_of(path: Path, now: Callable[[], float] = time.time) -> Progress:
    """How far a run is, from its folder alone, as the terminal that runs it counts; ``now`` is in seconds of the epoch.

    Raises:
        RequestError: if there is no run at ``path``.
    """
    manifest = read_manifest(path)
    session = manifest.sessions[-1] if manifest.sessions else SessionEntry()
    asked = {planned.cell: planned for planned in manifest.cells}
    moment: float | None = datetime.fromisoformat(session.started).timestamp() if session.started else now()

    def clock() -> float:
        return now() if moment is None else moment

    slots = sum((session.slots or {}).values())
    progress = Progress({cell: planned.count() for cell, planned in asked.items()}, {}, slots, clock)
    trials = path / TRIALS
    moment = trials.stat().st_mtime if trials.exists() else moment  # when the last trial ended
    for row in Counted(trials, manifest.identities, diagnostics=False):
        cell = cell_of(row)
        if cell in asked and asked[cell].asks_for(row["seed"], row["trial"]):
            count = progress.add if session.id and row.get("session") == session.id else progress.remember
            count(cell, row["status"], {}, row.get("seconds"))
    moment = None
    return progress


def serve(path: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of a run's live page; call its ``serve_forever``. Port 0 takes a free one: see ``server_port``.

    Raises:
        RequestError: if there is no run at ``path`` or the port is taken.
    """
    live = LiveRun(path)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Host", "").rpartition(":")[0] not in (LOOPBACK, "localhost"):
                self.send_error(403, "this page is served to this machine alone")
                return
            asked = urlsplit(self.path)
            version = live.version
            try:
                if asked.path == "/":
                    self._answer(live.page(), version)
                elif asked.path != "/news":
                    self.send_error(404)
                elif parse_qs(asked.query).get("have") == [version]:
                    self.send_response(204)
                    self.send_header("X-To-Go", live.to_go)
                    self.end_headers()
                else:
                    self._answer(live.news(), version)
            except RequestError as error:  # the run was deleted meanwhile
                self.send_error(410, explain=str(error))  # in the body: a path may not fit into the status line
            except ConnectionError:
                raise
            except Exception as error:  # a damaged row
                self.send_error(500, explain=f"{path} cannot be shown: {one_line(error)}")

        def _answer(self, text: str, version: str) -> None:
            content = text.encode(errors="replace")
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Version", version)
            self.send_header("X-To-Go", live.to_go)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the terminal is the reader's."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            if not isinstance(sys.exc_info()[1], ConnectionError):  # a reader that goes is nobody's mistake
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    try:
        server = Server((LOOPBACK, port), Handler)
    except OSError as error:
        raise RequestError(f"port {port} cannot be used ({error.strerror}); choose another with --port") from None
    server.daemon_threads = True
    return server
