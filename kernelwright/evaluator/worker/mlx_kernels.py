"""What MLX compiles for its own graphs on CUDA, kept on this machine for every worker.

MLX takes seconds to compile what `mx.compile` joins, and looks into a folder before it does. That
of a candidate's worker is its own, which it may spoil: it is lent the kernels that a worker which
never saw a candidate has made MLX compile.
"""

import fcntl
import json
import os
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.evaluator.speed.measuring import CompileBaselines
from kernelwright.evaluator.worker.cache import shared_cache
from kernelwright.evaluator.worker.mlx_kernel_sweep import sweep_kernels
from kernelwright.evaluator.worker.process import Worker, WorkerLost
from kernelwright.file_write import replace_file
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.timeline import span

_TIMEOUT_S = 300.0
OpenWorker = Callable[[], tuple[Worker, DeviceInfo]]
"""Starts a worker that runs no candidate, with the device open."""


class MlxKernels:
    """MLX's kernels for the graphs of one device's tasks."""

    def __init__(self, open_worker: OpenWorker, info: DeviceInfo) -> None:
        """Keep apart what another MLX or another chip would compile."""
        self._open = open_worker
        name = re.sub(r"\W+", "-", f"{version('mlx')} {info.chip}")
        self._folder = shared_cache() / "mlx-kernels" / name
        self._threads = ThreadPoolExecutor(1)
        self._asked: dict[str, Future[None]] = {}
        self._worker: Worker | None = None

    def start(self, graph: Graph) -> None:
        """Begin to compile what a task will be timed beside, once on this machine."""
        if graph.fingerprint not in self._asked:
            made = self._threads.submit(self._make, graph)
            self._asked[graph.fingerprint] = made

    def lend(self, graph: Graph, worker: Worker) -> None:
        """Let a worker find the kernels of a graph that were begun; without them MLX compiles."""
        if graph.fingerprint in self._asked:
            self._asked[graph.fingerprint].result()
        for name in self._used(self._listing(graph)):
            place = worker.mlx_folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                # The worker may not write to where this leads.
                place.symlink_to(self._folder / "kernels" / name)

    def close(self) -> None:
        """Stop what compiles."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if (worker := self._worker) is not None:
            worker.close()

    def _used(self, listing: Path) -> list[str]:
        """Return the names of a graph's kernels, if it has any; they are in use from now on."""
        with suppress(OSError):
            # A sweep spares what was lent lately.
            os.utime(listing)
        try:
            names: list[str] = json.loads(listing.read_text())
        except OSError:
            return []
        return names

    def _listing(self, graph: Graph) -> Path:
        return self._folder / f"{graph.fingerprint}.json"

    def _make(self, graph: Graph) -> None:
        """Compile, unless another process has; one at a time does for each graph."""
        listing = self._listing(graph)
        # What does not compile here will not in a trial either, and is told there; where the cache
        # cannot be written each trial compiles.
        with suppress(WorkerLost, DeviceError, OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with listing.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not listing.is_file():
                    with span("compile MLX's kernels"):
                        self._compile(graph, listing)

    def _compile(self, graph: Graph, listing: Path) -> None:
        self._worker, _ = self._open()
        try:
            reply = self._worker.call(CompileBaselines(graph), _TIMEOUT_S)
            if not reply.failure:
                names = self._keep(self._worker.mlx_folder)
                replace_file(listing, json.dumps(names).encode())
                sweep_kernels(self._folder.parent)
        finally:
            self._worker.close()
            self._worker = None

    def _keep(self, made: Path) -> list[str]:
        """Copy a worker's kernels; return their names, parts of a path."""
        names = sorted(str(p.relative_to(made)) for p in made.rglob("*") if p.is_file())
        for name in names:
            place = self._folder / "kernels" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                replace_file(place, (made / name).read_bytes())
        return names
