"""The live page is for this machine alone, and follows the run."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from fieldbench.errors import RequestError
from fieldbench.report.page.drawings import Drawing
from fieldbench.report.watch import LiveRun, progress_of, serve
from fieldbench.store.lock import take_lock


@pytest.fixture
def growing(run_folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "growing"
    shutil.copytree(run_folder, copy)
    return copy


@pytest.fixture
def server(growing: Path) -> Iterator[ThreadingHTTPServer]:
    with serve(growing) as started:
        threading.Thread(target=started.serve_forever, daemon=True).start()
        yield started
        started.shutdown()


def get(server: ThreadingHTTPServer, path: str, host: str | None = None) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{server.server_port}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.getheader("X-Version", "")


def test_it_listens_on_the_loopback_address_only(server: ThreadingHTTPServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    others = {str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((address, server.server_port), timeout=2)


def test_a_name_that_only_points_here_is_refused(server: ThreadingHTTPServer) -> None:
    status, text, _ = get(server, "/", host=f"evil.example:{server.server_port}")
    assert status == 403
    assert "sea" not in text


def test_news_come_once(server: ThreadingHTTPServer) -> None:
    status, text, version = get(server, "/news?have=")
    assert status == 200
    assert text.startswith("<h1>")
    # Figures that were drawn meanwhile are news of their own.
    statuses = []
    for _ in range(2):
        status, _, newer = get(server, f"/news?have={version}")
        statuses.append(status)
        version = newer or version
    assert 204 in statuses
    assert get(server, "/other")[0] == 404


def test_a_new_record_is_news(growing: Path) -> None:
    live = LiveRun(growing, draw=lambda run: [])
    before = live.version
    lines = (growing / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (growing / "trials.jsonl").write_bytes(b"".join(lines[:-1]) + b'{"key": "torn')
    assert live.version != before
    assert "31 of 32 trials are done" in live.news()


def written_by(folder: Path, started: datetime, ended: datetime, session: int) -> Path:
    """The folder as a session leaves it that began at one time and wrote its last records, one a second, at another.

    Args:
        folder: of a run of 32 trials.
        started, ended: times.
        session: how many of its records the session wrote; earlier ones are of another, the other trials are missing.
    """
    lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()[:24]]
    for number, line in enumerate(lines):
        line["session"], line["seconds"] = ("now" if number >= 24 - session else "before"), 1.0
    (folder / "trials.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sessions"] = [{"id": "now", "started": started.strftime("%Y-%m-%dT%H:%M:%S%z"), "slots": {"cpu": 2}}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    os.utime(folder / "trials.jsonl", (ended.timestamp(), ended.timestamp()))
    return folder


def test_the_time_to_go_is_that_of_the_terminal(growing: Path) -> None:
    """Ten trials of a second each took two slots 20 s, four times as long as the methods: each second costs 4 / 2."""
    started = datetime(2026, 1, 1, 12, tzinfo=UTC)
    ended = started + timedelta(seconds=20)
    folder = written_by(growing, started, ended, session=10)
    progress = progress_of(folder, now=lambda: ended.timestamp() + 0.25)
    assert (progress.done, progress.total, progress.new) == (24, 32, 10)
    assert progress.failed == 4  # they cost nothing, and the other trials of that cell have all ended
    assert progress.seconds_left() == pytest.approx(8 * 4 / 2 - 0.25)


def test_the_server_says_the_time_to_go_while_the_run_is_written(growing: Path) -> None:
    now = datetime.now(UTC)
    live = LiveRun(written_by(growing, now, now, session=0), draw=lambda run: [])
    assert live.to_go == "nothing is running; the same command goes on"
    lock = take_lock(growing)
    assert live.to_go in ("to go: 3 s", "to go: 4 s")  # eight trials of a second in two slots, less what has passed
    assert "to go: " in live.page()
    lock.release()


def test_the_time_to_go_comes_with_every_answer(growing: Path, server: ThreadingHTTPServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("GET", "/news?have=", headers={"Host": f"127.0.0.1:{server.server_port}"})
    assert connection.getresponse().getheader("X-To-Go") == "complete"


def test_a_run_without_a_record_says_so(growing: Path) -> None:
    (growing / "trials.jsonl").write_bytes(b"")
    assert "No trial has ended yet." in LiveRun(growing, draw=lambda run: []).page()


def test_figures_are_drawn_beside_and_not_too_often(growing: Path) -> None:
    drawn = threading.Semaphore(0)

    def draw(run: object) -> list[Drawing]:
        drawn.release()
        return [Drawing("Heading of a figure", "caption", "data:,")]

    live = LiveRun(growing, draw)
    live.news()
    assert drawn.acquire(timeout=20)
    while "Heading of a figure" not in live.news():
        pass
    (growing / "trials.jsonl").touch()
    assert "Heading of a figure" in live.news()
    assert not drawn.acquire(timeout=0.3)  # the last drawing was a moment ago


def test_a_drawing_that_fails_is_said_and_not_begun_again_at_once(growing: Path) -> None:
    begun = []

    def draw(run: object) -> list[Drawing]:
        begun.append(run)
        raise ValueError("a row is damaged")

    live = LiveRun(growing, draw)
    while "ValueError: a row is damaged" not in live.news():
        pass
    live.news()
    assert len(begun) == 1


DAMAGED = {
    "short": b'{"key": "x", "status": "ok"}',
    "scores are text": b'{"key": "x", "status": "ok", "method": "flat", "dataset": "sea", "metrics": "good"}',
    "no text": b'{"key": "\xff", "status": "ok"}',
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_row_is_answered(
    growing: Path, server: ThreadingHTTPServer, capfd: pytest.CaptureFixture[str], what: str
) -> None:
    with (growing / "trials.jsonl").open("ab") as file:
        file.write(DAMAGED[what] + b"\n")
    status, text, _ = get(server, "/")
    assert status in (200, 410, 500)
    assert status == 200 or str(growing) in text
    assert "Traceback" not in capfd.readouterr().err


def test_a_reader_that_goes_is_no_reason_to_complain(
    server: ThreadingHTTPServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.server_port)) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # gone at once
            reader.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
    assert get(server, "/")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_run_that_was_deleted_is_said_to_be_gone_whatever_its_name(tmp_path: Path, run_folder: Path) -> None:
    gone = tmp_path / "δεν-υπάρχει"
    shutil.copytree(run_folder, gone)
    with serve(gone) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shutil.rmtree(gone)
        status, text, _ = get(server, "/")
        server.shutdown()
    assert status == 410
    assert "δεν-υπάρχει is not a run" in text


def test_wrong_requests_are_refused(growing: Path, server: ThreadingHTTPServer) -> None:
    with pytest.raises(RequestError, match="is not a run"):
        serve(growing / "nowhere")
    with pytest.raises(RequestError, match="choose another with --port"):
        serve(growing, server.server_port)
