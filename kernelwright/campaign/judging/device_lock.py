"""One candidate at a time on a device that measures, whichever process of this machine asks."""

import fcntl
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from kernelwright.errors import DeviceError, InputError
from kernelwright.evaluator.worker.cache import shared_cache
from kernelwright.metal.device.base import DeviceName

_LOOK_S = 0.1
_TURN_LOOK_S = 0.001
"""The device idles that long between the judges of two processes."""
_GATE_LOOK_S = 0.004
"""Between looks of those that another one's turn comes before in any case."""
_THREADS: defaultdict[str, Lock] = defaultdict(Lock)
"""By device: who of this process has the turn, or waits for other processes."""


@contextmanager
def turn_on(device: DeviceName, is_over: Callable[[], bool]) -> Iterator[None]:
    """Wait for the device and keep it; a process that dies gives it back.

    Two candidates side by side would measure each other. Whoever gives it back goes behind one that
    waits: a judge that launches again at once would keep others from theirs. On the simulator
    nothing is measured, and nobody waits.

    Raises:
        DeviceError: it `is_over` before the device was free.
    """
    if device == "simulator":
        yield
        return
    while not _THREADS[device].acquire(timeout=_LOOK_S):
        _give_up_if(is_over(), device)
    try:
        with _turn_of_process(device, is_over):
            yield
    finally:
        _THREADS[device].release()


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


def _give_up_if(is_over: bool, device: DeviceName) -> None:
    if is_over:
        raise DeviceError(f"interrupted while somebody else used the {device} device.")


@contextmanager
def _turn_of_process(device: DeviceName, is_over: Callable[[], bool]) -> Iterator[None]:
    folder = shared_cache()
    folder.mkdir(parents=True, exist_ok=True)
    name = _name_of(device)
    with (folder / f"{name}.turn").open("w") as turn:
        with (folder / f"{name}.gate").open("w") as gate:
            _wait_for(gate.fileno(), _GATE_LOOK_S, device, is_over)
            _wait_for(turn.fileno(), _TURN_LOOK_S, device, is_over)
        yield


def _wait_for(file: int, look_s: float, device: DeviceName, is_over: Callable[[], bool]) -> None:
    while not _took(file):
        _give_up_if(is_over(), device)
        time.sleep(look_s)


def _took(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
