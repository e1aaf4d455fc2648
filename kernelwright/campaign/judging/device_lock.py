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
_PROCESS_LOOK_S = 0.01
"""The device idles that long between the judges of two processes."""
_THREADS: defaultdict[str, Lock] = defaultdict(Lock)
"""By device: who of this process has the turn, or waits for other processes."""


@contextmanager
def turn_on(device: DeviceName, is_over: Callable[[], bool]) -> Iterator[None]:
    """Wait for the device and keep it; a process that dies gives it back.

    Two candidates side by side would measure each other. On the simulator nothing is measured,
    and nobody waits.

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
    with (folder / f"{_name_of(device)}.turn").open("w") as file:
        while not _took(file.fileno()):
            _give_up_if(is_over(), device)
            time.sleep(_PROCESS_LOOK_S)
        yield


def _took(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
