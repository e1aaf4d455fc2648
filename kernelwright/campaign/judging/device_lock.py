"""Who may use a device that measures, whichever process of this machine asks."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelwright.errors import DeviceError, InputError
from kernelwright.evaluator.worker.cache import shared_cache
from kernelwright.metal.device.base import DeviceName
from kernelwright.timeline import span

_TURN_LOOK_S = 0.001
"""The device idles that long between the turns of two judges."""
_GATE_LOOK_S = 0.004
"""Between looks of those that another one's turn comes before in any case."""


@contextmanager
def turn_on(device: DeviceName, is_over: Callable[[], bool], *, alone: bool) -> Iterator[None]:
    """Wait for the device and keep it; a process that dies gives it back.

    What is timed has the device `alone`, for two candidates side by side would measure each other.
    Launches whose answers are all that matters share it. Whoever gives it back goes behind one that
    waits: judges that launch again and again would keep others from timing. On the simulator
    nothing is measured, and nobody waits.

    Raises:
        DeviceError: it `is_over` before the device was free.
    """
    if device == "simulator":
        yield
        return
    folder = shared_cache()
    folder.mkdir(parents=True, exist_ok=True)
    name = _name_of(device)
    # A lock belongs to what opened the file, so threads wait for each other like processes.
    with (folder / f"{name}.turn").open("w") as turn:
        with span("wait for the device"), (folder / f"{name}.gate").open("w") as gate:
            while not _took(gate.fileno()):
                _rest(_GATE_LOOK_S, is_over, device)
            while not _took(turn.fileno(), alone=alone):
                _rest(_TURN_LOOK_S, is_over, device)
        yield


@contextmanager
def sole_worker(device: DeviceName) -> Iterator[None]:
    """Be the only worker of a fleet on this machine's GPU, by its index; the system frees it.

    Raises:
        InputError: another process is.
    """
    if device == "simulator":
        yield
        return
    folder = shared_cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{_name_of(device)}.worker").open("w") as file:
        if not _took(file.fileno()):
            raise InputError(
                f"{_name_of(device)} of this machine has a worker already; stop that one, or "
                "choose another GPU with --gpu."
            )
        yield


def _name_of(device: DeviceName) -> str:
    """Name a device for locks; each NVIDIA GPU has its own."""
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "") if device == "cuda" else ""
    return f"{device}-{index}" if index.isdigit() else device


def _rest(look_s: float, is_over: Callable[[], bool], device: DeviceName) -> None:
    if is_over():
        raise DeviceError(f"interrupted while somebody else used the {device} device.")
    time.sleep(look_s)


def _took(file: int, *, alone: bool = True) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
