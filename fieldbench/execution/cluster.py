"""A Dask cluster as a joblib backend that outlives its workers.

joblib's own Dask backend shares larger arguments out among workers, which is lost with a worker, and never
hears of a task that Dask gave up. This one sends each task whole and sends it again when it is lost.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from joblib.parallel import ParallelBackendBase

from fieldbench.errors import RequestError, how_to_install
from fieldbench.execution.branch import dismiss, halt
from fieldbench.execution.stop import Stop

#: Seconds between looks at the number of workers, and at a wish to stop.
_LOOK = 0.5

#: How often a task is sent before its loss is an error.
_ATTEMPTS = 10


class Cluster:
    """A connection to a Dask scheduler."""

    def __init__(self, scheduler: str | None, stop: Stop) -> None:
        """Connect.

        Args:
            scheduler: ``tcp://host:port``; none means the client that is open in this program.
            stop: by which the caller asks for an early end.

        Raises:
            RequestError: if Dask is not installed, or no scheduler answers.
        """
        try:
            import distributed
        except ImportError:
            raise RequestError(f"--backend dask needs Dask; {how_to_install('dask')}") from None
        self._stop, self._own = stop, scheduler is not None
        try:
            if scheduler is None:
                self.client = distributed.get_client()
            else:
                self.client = distributed.Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            if scheduler is None:
                hint = "give --scheduler tcp://HOST:PORT, or open a dask.distributed.Client first"
                raise RequestError(f"--backend dask: which cluster? {hint}") from None
            raise RequestError(f"--scheduler {scheduler}: no Dask scheduler answers there ({error})") from None
        self.backend = DaskBackend(self.client, stop)

    def cores(self) -> int:
        """Threads that the cluster's workers have now, at least one."""
        return max(1, int(sum(self.client.ncores().values())))

    @contextlib.contextmanager
    def watching(self, run: str) -> Iterator[None]:
        """Pass a wish to stop on to the workers; at the end, let them go and close the connection."""
        over = threading.Event()
        watch = threading.Thread(target=self._pass_on, args=(run, over), name="stop-dask", daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()
            self._everywhere(dismiss, run)
            if self._own:
                self.client.close()

    def _pass_on(self, run: str, over: threading.Event) -> None:
        wishes: list[Callable[[], bool]] = [lambda: self._stop.asked, lambda: self._stop.now]
        for wished in wishes:
            while not wished():
                if over.wait(_LOOK):
                    return
            self._everywhere(halt, run)

    def _everywhere(self, function: Callable[[str], None], run: str) -> None:
        with contextlib.suppress(Exception):  # a worker or scheduler that is gone needs no message
            self.client.run(function, run, on_error="ignore")


class DaskBackend(ParallelBackendBase):  # type: ignore[misc]
    """Sends joblib's tasks to a Dask cluster, again if need be, and uses workers that join later."""

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, client: Any, stop: Stop) -> None:
        super().__init__()
        self._client, self._stop = client, stop
        self._lock = threading.Lock()
        self._sent: set[Any] = set()
        self._over = threading.Event()

    def effective_n_jobs(self, n_jobs: int) -> int:
        """The cluster's threads, once it has any. Never one: joblib would then run everything in this process."""
        while not self._cores() and not self._stop.asked:
            time.sleep(_LOOK)
        return max(2, self._cores())

    def start_call(self) -> None:
        self._over = threading.Event()
        threading.Thread(target=self._use_newcomers, args=(self._over,), name="dask-newcomers", daemon=True).start()

    def stop_call(self) -> None:
        self._over.set()

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> None:
        assert callback is not None
        self._send(func, callback, 1, self._over)

    apply_async = submit  # its name before joblib 1.5

    def retrieve_result_callback(self, out: Any) -> Any:
        if isinstance(out, BaseException):
            raise out
        return out

    def abort_everything(self, ensure_ready: bool = True) -> None:
        self._over.set()
        with self._lock:
            sent, self._sent = self._sent, set()
        with contextlib.suppress(Exception):
            self._client.cancel(list(sent), force=True)

    def terminate(self) -> None:
        self.abort_everything()

    def _send(self, task: Any, callback: Callable[[Any], None], attempt: int, over: threading.Event) -> None:
        try:
            future = self._client.submit(task, key=f"fieldbench-{uuid.uuid4().hex}", pure=False)
        except Exception as error:
            callback(error)
            return
        with self._lock:
            self._sent.add(future)
        future.add_done_callback(lambda done: self._done(done, task, callback, attempt, over))

    def _done(
        self, future: Any, task: Any, callback: Callable[[Any], None], attempt: int, over: threading.Event
    ) -> None:
        with self._lock:
            self._sent.discard(future)
        if over.is_set():
            return
        try:
            result = future.result()
        except Exception as error:  # KilledWorker, CancelledError, a worker that left before handing it over
            if attempt < _ATTEMPTS:
                self._send(task, callback, attempt + 1, over)
            else:
                callback(error)
            return
        callback(result)

    def _use_newcomers(self, over: threading.Event) -> None:
        """joblib keeps as many tasks out as there were threads at first; send more when workers join."""
        while not over.wait(_LOOK):
            with contextlib.suppress(Exception):
                for _ in range(self._cores() - len(self._sent)):
                    with self.parallel._lock:
                        if self.parallel._original_iterator is None or self._stop.asked:
                            break
                        self.parallel.dispatch_next()

    def _cores(self) -> int:
        return int(sum(self._client.ncores().values()))
