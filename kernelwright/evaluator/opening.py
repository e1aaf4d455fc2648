"""Starts a worker for candidates with its device open and warm."""

from kernelwright.errors import DeviceError
from kernelwright.evaluator.cache import shared_cache
from kernelwright.evaluator.candidate import Open
from kernelwright.evaluator.worker import Limits, Worker, WorkerLost
from kernelwright.metal.device.base import Device, DeviceInfo

_SERVICE = "kernelwright.evaluator.candidate"
_OPEN_TIMEOUT_S = 300.0
"""A first start compiles the simulator's runtime and headers."""


def open_worker(device: str | Device, memory_bytes: int) -> tuple[Worker, DeviceInfo]:
    """Start a worker whose device is ready for candidates.

    Raises:
        DeviceError: this machine has no such device, or it does not start.
    """
    try:
        return _open(device, Limits(memory_bytes))
    except DeviceError:
        if device != "simulator":
            raise
        # A worker may not write what all share: on a fresh machine somebody has to, once.
        fill_cache(memory_bytes)
        return _open(device, Limits(memory_bytes))


def fill_cache(memory_bytes: int) -> None:
    """Build what all workers share, in a process that never sees a candidate."""
    shared_cache().mkdir(parents=True, exist_ok=True)
    builder, _ = _open("simulator", Limits(memory_bytes, builds_cache=True))
    builder.close()


def _open(device: str | Device, limits: Limits) -> tuple[Worker, DeviceInfo]:
    try:
        worker = Worker(_SERVICE, limits)
        reply = worker.call(Open(device), _OPEN_TIMEOUT_S)
    except WorkerLost as e:
        raise DeviceError(f"the device's worker did not start: {e}.") from e
    if reply.failure:
        worker.close()
        raise DeviceError(str(reply.header.get("message")))
    return worker, DeviceInfo.model_validate(reply.header["info"])
