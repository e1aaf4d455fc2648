"""A killable process that runs candidates: no keys, no network, nowhere to write, limited."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from kernelwright.errors import DeviceError, KernelwrightError
from kernelwright.evaluator.worker import sandbox
from kernelwright.evaluator.worker.cache import (
    VARIABLE,
    private_mounts,
    shared_cache,
    writable_folders,
)
from kernelwright.evaluator.worker.held_inputs import HeldInputs
from kernelwright.evaluator.worker.wire import Reply, receive_reply, send_request
from kernelwright.scratch import ScratchFolder
from kernelwright.timeline import span

_START_TIMEOUT_S = 60.0
_KEPT_VARIABLES = ("LANG", "LC_ALL", "PATH")

_DRIVER_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
_END_TIMEOUT_S = 20.0
"""A process that hangs in a driver may outlive its own killing for a while."""

Loss = Literal["timeout", "crash"]
Means = Literal["namespaces", "writes"]


class WorkerLost(KernelwrightError):  # noqa: N818 (the worker is lost; that is no error of ours)
    """A worker did not answer: it was too slow and was killed, or it died."""

    def __init__(self, loss: Loss, message: str) -> None:
        super().__init__(message)
        self.loss = loss


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may use."""

    memory_bytes: int
    builds_cache: bool = False
    """True for a worker that runs no candidate and fills the shared cache for the others."""
    drives_gpu: bool = False
    """True for a worker that loads a GPU's driver, which needs its device files and memory."""
    means: tuple[Means, ...] = ("namespaces", "writes")
    """What confines the worker beside its limits."""
    reads_imports: bool = False
    """True for a worker that gets objects of modules outside of any package's folder."""
    kept_builds: Path | None = None
    """Where what is compiled stays for later candidates, and for other workers with this folder."""


class Worker:
    """One process that serves requests in order, until it is closed or lost.

    Requests are pickled: they come from us. Replies are not: a kernel that has gone astray
    may have written anything into the process that makes them.
    """

    def __init__(self, service: str, limits: Limits) -> None:
        self.drives_gpu = limits.drives_gpu
        self.opening: object = None
        """What a new process in this one's place has to be asked first."""
        self.held = HeldInputs(limits.memory_bytes)
        """What whoever asks knows to be kept there."""
        self._folder = ScratchFolder()
        self._scratch = self._folder.path
        self._pipe, remote = Pipe()
        try:
            self._process = self._start(service, limits, remote)
        finally:
            remote.close()
        hello = self._receive(_START_TIMEOUT_S)
        self.confinement: tuple[str, ...] = tuple(map(str, _as_list(hello.header["confinement"])))
        """What holds on this machine: memory, files, network, processes, cache, writes, reads,
        calls (a filter of system calls) and succession (a process for each candidate)."""

    def _start(self, service: str, limits: Limits, remote: Connection) -> "subprocess.Popen[bytes]":
        (self._scratch / "tmp").mkdir()
        order = {
            "pipe": remote.fileno(),
            "service": service,
            "memory_bytes": limits.memory_bytes,
            "drives_gpu": limits.drives_gpu,
            "means": limits.means,
            "package_folder": str(Path(sandbox.__file__).parents[3]),
            "reads_imports": limits.reads_imports,
            "import_folders": [path for path in sys.path if Path(path).is_absolute()],
            **self._folders(limits),
        }
        with (self._scratch / "stderr").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-I", sandbox.__file__, json.dumps(order)],
                env=self._environment(os.environ, limits),
                cwd=self._scratch / "tmp",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(remote.fileno(),),
                start_new_session=True,
            )

    def _folders(self, limits: Limits) -> dict[str, object]:
        """Say where the process may write, and what it finds where the cache is."""
        scratch, cache = str(self._scratch / "tmp"), str(shared_cache())
        if limits.builds_cache:
            kept: dict[str, object] = {"mounts": [], "shared_folders": [], "emptied_folders": []}
            return {"folders": [scratch, cache], **kept}
        own = limits.kept_builds or self._scratch / "cache"
        mounts, written = private_mounts(own), writable_folders(own)
        return {
            "folders": [scratch, *written],
            "emptied_folders": [scratch, *(() if limits.kept_builds else written)],
            "mounts": mounts,
            "shared_folders": [cache],
        }

    def _environment(self, given: Mapping[str, str], limits: Limits) -> dict[str, str]:
        wanted = (*_KEPT_VARIABLES, *(_DRIVER_VARIABLES if limits.drives_gpu else ()))
        kept = {name: given[name] for name in wanted if name in given}
        scratch = str(self._scratch / "tmp")
        own = {"HOME": scratch, "TMPDIR": scratch, VARIABLE: str(shared_cache())}
        own["MLX_PTX_CACHE_DIR"] = str(self.mlx_folder)
        return {**kept, **own, "OPENBLAS_NUM_THREADS": "1"}

    @property
    def mlx_folder(self) -> Path:
        """Return where MLX looks for kernels that it has compiled, and keeps them."""
        return self._scratch / "tmp" / "mlx"

    def call(self, request: object, timeout_s: float) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            WorkerLost: the worker took longer than `timeout_s` or died; it is gone now.
        """
        with span(f"worker {type(request).__name__}"):
            try:
                send_request(self._pipe, request)
            except OSError as e:
                raise self._lost() from e
            return self._receive(timeout_s)

    def _receive(self, timeout_s: float) -> Reply:
        deadline = time.monotonic() + timeout_s
        try:
            if not self._pipe.poll(max(0.0, deadline - time.monotonic())):
                self.close()
                raise WorkerLost("timeout", f"no answer within {timeout_s:g} s")
            return receive_reply(self._pipe)
        except (EOFError, OSError) as e:
            raise self._lost() from e
        except DeviceError as e:
            self.close()
            raise WorkerLost("crash", str(e)) from e

    def _lost(self) -> WorkerLost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        words = _death(self._process.poll())
        last = self._last_words()
        self.close()
        return WorkerLost("crash", f"{words}{': ' if last else ''}{last}")

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self._scratch / "stderr").read_text(errors="replace").splitlines()
            return next((line.strip() for line in reversed(lines) if line.strip()), "")[:300]
        return ""

    @property
    def process(self) -> int:
        """Return the id of the process, which leads a group of its own."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """True while the process can be called."""
        return self._process.poll() is None and not self._pipe.closed

    def kill(self) -> None:
        """End the process, from any thread; whoever waits for its answer learns that it died."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and everything that it started; remove its scratch folder."""
        self._pipe.close()
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_TIMEOUT_S)
        self._folder.remove()


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the process died of {signal.Signals(-code).name}"
    return f"the process ended with code {code}"


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
