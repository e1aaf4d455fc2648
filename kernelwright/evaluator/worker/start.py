"""Starts a worker for candidates with its device open and warm."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

import mlx.core as mx

from kernelwright.errors import DeviceError
from kernelwright.evaluator.worker.cache import shared_cache
from kernelwright.evaluator.worker.own_code import check_own_code
from kernelwright.evaluator.worker.process import Limits, Means, Worker, WorkerLost
from kernelwright.evaluator.worker.service import Forget, Open, Prime
from kernelwright.evaluator.worker.spare import open_spare, take_spare
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.simulator.priming import is_primed
from kernelwright.metal.device.threadgroup_memory import check_threadgroup_bytes
from kernelwright.metal.kernel import MathMode
from kernelwright.timeline import span

_SERVICE = "kernelwright.evaluator.worker.service"
_GPUS = ("metal", "cuda")
_LADDER: tuple[tuple[Means, ...], ...] = (("namespaces", "writes"), ("writes",), ())
"""How a GPU's worker is confined, from all there is to what its driver puts up with."""
_rungs: dict[str, int] = {}
"""By device: the first rung of the ladder on which the driver worked on this machine."""
_priming = Lock()
"""Judges of one process that need the same headers wait for the first."""
_OPEN_TIMEOUT_S = 300.0
"""A first start compiles the simulator's runtime and headers."""
_RENEWAL_TIMEOUT_S = 30.0


def open_worker(
    device: str | Device,
    memory_bytes: int,
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    stands_for: str = "",
    kept_builds: Path | None = None,
) -> tuple[Worker, DeviceInfo]:
    """Start a worker whose device is ready for candidates.

    A device that is opened by name lets a threadgroup take `threadgroup_bytes`, and a simulator
    `stands_for` a chip. `kept_builds` is for trusted programs alone: a folder in which what the
    simulator compiles outlives the candidate. Some drivers do
    not start in a namespace, or where they may not write; then their worker does without, and its
    `confinement` does not name what was given up.

    Raises:
        DeviceError: this machine has no such device, or it does not start.
    """
    check_threadgroup_bytes(device if isinstance(device, str) else "", threadgroup_bytes)
    request = Open(device, threadgroup_bytes, stands_for)
    limits = Limits(memory_bytes, kept_builds=kept_builds)
    if isinstance(device, str) and (spare := take_spare((request, limits))):
        return spare
    return _open_new(request, limits)


def open_ahead(
    device: str, memory_bytes: int, threadgroup_bytes: int = METAL_THREADGROUP_BYTES
) -> None:
    """Begin to open what the first verdict on a device needs: `open_worker` returns it."""
    request, limits = Open(device, threadgroup_bytes), Limits(memory_bytes)
    open_spare((request, limits), partial(_open_new, request, limits))
    if device == "cuda":
        simulator = Open("simulator", threadgroup_bytes)

        def open_simulator() -> tuple[Worker, DeviceInfo]:
            # It sees the headers that were there when it began.
            ready_cache(memory_bytes, ("safe",))
            return _open_new(simulator, limits)

        open_spare((simulator, limits), open_simulator)


def _open_new(request: Open, limits: Limits) -> tuple[Worker, DeviceInfo]:
    with span(f"open a worker for {request.name}"):
        try:
            return _open_confined(request, limits)
        except DeviceError:
            if request.device != "simulator":
                raise
            # A worker may not write what all share: on a fresh machine somebody has to, once.
            fill_cache(limits.memory_bytes, threadgroup_bytes=request.threadgroup_bytes)
            return _open_confined(request, limits)


def _open_confined(request: Open, limits: Limits) -> tuple[Worker, DeviceInfo]:
    name = request.name
    if not (name in _GPUS or _importing_mlx_drives_gpu()):
        is_object = not isinstance(request.device, str)
        return _open(request, replace(limits, reads_imports=is_object))
    failures = []
    for rung in range(_rungs.get(name, 0), len(_LADDER)):
        try:
            opened = _open(request, replace(limits, drives_gpu=True, means=_LADDER[rung]))
        except DeviceError as e:
            failures.append(e)
            continue
        _rungs[name] = rung
        return opened
    # Without any confinement: the machine's own reason.
    raise failures[-1]


def renew(worker: Worker) -> bool:
    """Leave nothing of the last candidate in a worker; False where another has to be opened.

    A worker whose candidates run on this machine's processor gets a new process, or is closed. On
    a GPU's worker a candidate runs no code of the host's, and only its memory there is freed.

    Raises:
        DeviceError: the worker hangs, so its device may too.
    """
    succeeds = "succession" in worker.confinement
    worker.held.forget()
    if not succeeds and not worker.drives_gpu:
        worker.close()
        return False
    try:
        worker.call(Forget(), _RENEWAL_TIMEOUT_S)
        if succeeds and worker.opening is not None:
            return not worker.call(worker.opening, _OPEN_TIMEOUT_S).failure
    except WorkerLost as e:
        if e.loss == "crash":
            return False
        raise DeviceError(f"the device's worker was lost between two candidates: {e}.") from e
    return True


def _importing_mlx_drives_gpu() -> bool:
    """Say whether MLX starts CUDA's driver in every process that imports it, as 0.32.4 does."""
    return bool(mx.cuda.is_available())


def ready_cache(memory_bytes: int, math_modes: Sequence[MathMode]) -> None:
    """Make sure that workers find what kernels of some math modes are compiled with."""
    with _priming:
        if is_primed(math_modes):
            return
        with span("build the simulator's headers"):
            fill_cache(memory_bytes, math_modes)


def fill_cache(
    memory_bytes: int,
    math_modes: Sequence[MathMode] = ("safe",),
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
) -> None:
    """Build what all workers share, in a process that never sees a candidate.

    Raises:
        DeviceError: the simulator's own headers do not compile here.
    """
    shared_cache().mkdir(parents=True, exist_ok=True)
    limits = Limits(memory_bytes, builds_cache=True)
    if _importing_mlx_drives_gpu():
        limits = replace(limits, drives_gpu=True, means=())
    builder, _ = _open(Open("simulator", threadgroup_bytes), limits)
    try:
        reply = builder.call(Prime(tuple(math_modes)), _OPEN_TIMEOUT_S)
    except WorkerLost as e:
        raise DeviceError(f"the simulator's headers were not built: {e}.") from e
    finally:
        builder.close()
    if reply.failure:
        raise reply.machine_error()


def _open(request: Open, limits: Limits) -> tuple[Worker, DeviceInfo]:
    check_own_code()
    try:
        worker = Worker(_SERVICE, limits)
        reply = worker.call(request, _OPEN_TIMEOUT_S)
    except WorkerLost as e:
        raise DeviceError(f"the device's worker did not start: {e}.") from e
    if reply.failure:
        worker.close()
        raise reply.machine_error()
    worker.opening = replace(request, warms=False)
    return worker, DeviceInfo.model_validate(reply.header["info"])
