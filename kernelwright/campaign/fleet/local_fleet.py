"""A fleet on one machine: an embedded PostgreSQL server and workers as processes of their own."""

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.campaign.fleet.job_queue import prepare_queue
from kernelwright.errors import StoreError
from kernelwright.metal.device.base import DeviceName
from kernelwright.store import KernelStore
from kernelwright.store.embedded import embedded_server

_LOOK_S = 0.5
_END_S = 60.0
_MOST_RESTARTS = 5
_LATELY_S = 600.0
_ENDING = (signal.SIGINT, signal.SIGTERM)


class RestartableServer(Protocol):
    """A database server of this machine."""

    def is_alive(self) -> bool:
        """Say whether it runs."""

    def start_again(self) -> None:
        """Start it where it ended.

        Raises:
            StoreError: it does not start.
        """


@dataclass
class LocalFleet:
    """A server and the workers that it started."""

    url: str
    workers: list[subprocess.Popen[bytes]]
    start: Callable[[], subprocess.Popen[bytes]]
    """Starts one more."""
    server: RestartableServer

    def wait(self, say: Callable[[str], None]) -> None:
        """Stay until Ctrl-C or until no worker is left, and say which ended.

        A worker that failed or was killed is replaced; one that was told to end is not. A server
        that ended is started again.

        Raises:
            StoreError: every worker ended, or the server did again and again.
        """
        left = list(self.workers)
        restarts = deque[float](maxlen=_MOST_RESTARTS)
        server_starts = deque[float](maxlen=_MOST_RESTARTS)
        try:
            while left:
                time.sleep(_LOOK_S)
                was_away = self._starts_server_again(server_starts, say)
                for worker in [w for w in left if w.poll() is not None]:
                    left.remove(worker)
                    ended = f"worker {worker.pid} ended with {worker.returncode}"
                    if not worker.returncode or _is_full(restarts):
                        say(ended)
                        continue
                    if not was_away:
                        restarts.append(time.monotonic())
                    left.append(self.start())
                    self.workers.append(left[-1])
                    say(f"{ended}; worker {left[-1].pid} takes its place")
        except KeyboardInterrupt:
            say("stopping; what is being evaluated is finished first")
            return
        raise StoreError("every worker of the fleet has ended; see what they said above.")

    def _starts_server_again(self, starts: "deque[float]", say: Callable[[str], None]) -> bool:
        """Start the server if it ended; return whether it had.

        Raises:
            StoreError: it ended, or did not start, again and again.
        """
        if self.server.is_alive():
            return False
        if _is_full(starts):
            raise StoreError(
                f"the fleet's PostgreSQL server ended {_MOST_RESTARTS} times within "
                f"{_LATELY_S / 60:g} minutes; read the log in its folder."
            )
        starts.append(time.monotonic())
        try:
            self.server.start_again()
        except StoreError as e:
            say(f"the fleet's PostgreSQL server ended: {e}")
        else:
            say("the fleet's PostgreSQL server had ended; it runs again")
        return True


def _is_full(restarts: "deque[float]") -> bool:
    """Say whether so many workers were replaced lately that another one would fail as well."""
    return len(restarts) == restarts.maxlen and time.monotonic() < restarts[0] + _LATELY_S


@contextmanager
def local_fleet(folder: Path, workers: int, device: DeviceName) -> Iterator[LocalFleet]:
    """Run a server whose data lies in a folder, and workers for one device.

    Raises:
        InputError: the server or Procrastinate is not installed.
        StoreError: the server does not start.
    """
    # A terminated fleet leaves no worker and no server behind, as after Ctrl-C.
    before = [signal.signal(n, signal.default_int_handler) for n in _ENDING]
    try:
        with _started(folder, workers, device) as fleet:
            yield fleet
    finally:
        for number, handler in zip(_ENDING, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _started(folder: Path, workers: int, device: DeviceName) -> Iterator[LocalFleet]:
    with embedded_server(folder) as server:
        url = server.url.replace("postgresql://", "postgresql+psycopg://", 1)
        KernelStore(url).close()
        prepare_queue(url)
        command = [sys.executable, "-m", "kernelwright.orphan", "worker", "--device", device]

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen([*command, "--database", url], stdin=subprocess.PIPE)

        started = [start() for _ in range(workers)]
        try:
            yield LocalFleet(url, started, start, server)
        finally:
            for worker in started:
                worker.terminate()
            for worker in started:
                try:
                    worker.wait(_END_S)
                except subprocess.TimeoutExpired:
                    worker.kill()
                # Closes the pipe that it watches, too.
                worker.communicate()
