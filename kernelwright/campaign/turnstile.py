"""One candidate at a time on a device that measures, whichever process of this machine asks."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelwright.errors import DeviceError
from kernelwright.evaluator.cache import shared_cache
from kernelwright.metal.device.base import DeviceInfo

_LOOK_S = 0.1


@contextmanager
def turn_on(device: DeviceInfo, is_over: Callable[[], bool]) -> Iterator[None]:
    """Wait for the device and keep it; a process that dies gives it back.

    Two candidates side by side would measure each other. Where nothing is measured, nobody
    waits.

    Raises:
        DeviceError: it `is_over` before the device was free.
    """
    if not device.measures_time:
        yield
        return
    folder = shared_cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{device.name}.turn").open("w") as file:
        while not _took(file.fileno()):
            if is_over():
                raise DeviceError(f"interrupted while another process used the {device.name}.")
            time.sleep(_LOOK_S)
        yield


def _took(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
