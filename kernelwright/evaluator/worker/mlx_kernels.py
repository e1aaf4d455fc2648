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
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from threading import Lock

from kernelwright.errors import DeviceError
from kernelwright.evaluator.speed.measuring import BASELINES, CompileBaselines
from kernelwright.evaluator.worker.cache import shared_cache
from kernelwright.evaluator.worker.mlx_kernel_sweep import sweep_kernels
from kernelwright.evaluator.worker.process import Worker, WorkerLost
from kernelwright.file_write import replace_file
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.timeline import span

_TIMEOUT_S = 300.0
_MOST_BYTES_APART = 1 << 30
"""Of a graph's inputs and outputs, up to which the GPU holds them once for each baseline."""
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
        # Linux kills a worker when the thread ends that opened it.
        self._compilers = ThreadPoolExecutor(len(BASELINES))
        self._asked: dict[str, Future[None]] = {}
        self._workers: set[Worker] = set()
        self._keeping = Lock()

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
        for threads in (self._threads, self._compilers):
            threads.shutdown(wait=False, cancel_futures=True)
        for worker in tuple(self._workers):
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
        """Have the baselines compiled side by side, for MLX does so on one core."""
        types = (*graph.input_types, *graph.output_types)
        is_small = sum(t.nbytes for t in types) <= _MOST_BYTES_APART
        parts = [(name,) for name in BASELINES] if is_small else [BASELINES]
        asked = [CompileBaselines(graph, names) for names in parts]
        futures = [self._compilers.submit(self._compiled, one) for one in asked]
        wait(futures)
        made = [names for future in futures if (names := future.result()) is not None]
        if made:
            names = sorted(set[str]().union(*made))
            replace_file(listing, json.dumps(names).encode())
            sweep_kernels(self._folder.parent)

    def _compiled(self, request: CompileBaselines) -> list[str] | None:
        """Return the names of what some baselines need; None where MLX cannot compute them."""
        worker, _ = self._open()
        self._workers.add(worker)
        try:
            reply = worker.call(request, _TIMEOUT_S)
            if reply.failure:
                return None
            with self._keeping:
                # Several baselines may need the same one.
                return self._keep(worker.mlx_folder)
        finally:
            worker.close()
            self._workers.discard(worker)

    def _keep(self, made: Path) -> list[str]:
        """Copy a worker's kernels; return their names, parts of a path."""
        names = sorted(str(p.relative_to(made)) for p in made.rglob("*") if p.is_file())
        for name in names:
            place = self._folder / "kernels" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                replace_file(place, (made / name).read_bytes())
        return names
