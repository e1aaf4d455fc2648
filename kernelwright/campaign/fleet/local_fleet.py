"""A fleet on one machine: an embedded PostgreSQL server and workers as processes of their own."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelwright.campaign.fleet.job_queue import prepare_queue
from kernelwright.errors import StoreError
from kernelwright.metal.device.base import DeviceName
from kernelwright.store import KernelStore
from kernelwright.store.embedded import embedded_server

_LOOK_S = 0.5
_END_S = 60.0
_ENDING = (signal.SIGINT, signal.SIGTERM)


@dataclass
class LocalFleet:
    """A server and the workers that it started."""

    url: str
    workers: list[subprocess.Popen[bytes]]

    def wait(self, say: Callable[[str], None]) -> None:
        """Stay until Ctrl-C or until no worker is left, and say which ended.

        Raises:
            StoreError: every worker ended.
        """
        left = list(self.workers)
        try:
            while left:
                time.sleep(_LOOK_S)
                for worker in [w for w in left if w.poll() is not None]:
                    left.remove(worker)
                    say(f"worker {worker.pid} ended with {worker.returncode}")
        except KeyboardInterrupt:
            say("stopping; what is being evaluated is finished first")
            return
        raise StoreError("every worker of the fleet has ended; see what they said above.")


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
        url = server.replace("postgresql://", "postgresql+psycopg://", 1)
        KernelStore(url).close()
        prepare_queue(url)
        command = [sys.executable, "-m", "kernelwright", "worker", "--device", device]
        started = [subprocess.Popen([*command, "--database", url]) for _ in range(workers)]
        try:
            yield LocalFleet(url, started)
        finally:
            for worker in started:
                worker.terminate()
            for worker in started:
                try:
                    worker.wait(_END_S)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    worker.wait()
