"""The device of a search, opened while its functions are still imported and captured."""

import threading
from contextlib import suppress

from kernelwright.errors import KernelwrightError
from kernelwright.metal.device.base import DeviceName


def open_device_ahead(device: DeviceName | None, threadgroup_bytes: int) -> None:
    """Begin to open what the first verdict needs; what does not open is told of by the search."""

    def open_it() -> None:
        with suppress(KernelwrightError, ImportError):
            from kernelwright.evaluator.config import EvaluatorConfig
            from kernelwright.evaluator.worker.start import open_ahead
            from kernelwright.metal.device.registry import default_device

            config = EvaluatorConfig(threadgroup_bytes=threadgroup_bytes)
            open_ahead(device or default_device(), config.memory_bytes, config.threadgroup_bytes)

    threading.Thread(target=open_it, name="open ahead", daemon=True).start()
