"""Devices by name, each imported only when it is asked for."""

from typing import get_args

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceName
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.threadgroup_memory import check_threadgroup_bytes


def default_device() -> DeviceName:
    """Return what the settings name, else the best here: metal, else cuda, else the simulator."""
    # Workers never ask, and are started often: reading settings imports asyncio and TLS.
    from kernelwright.settings import current_settings

    if (chosen := current_settings().device) is not None:
        return chosen
    import mlx.core as mx

    if mx.metal.is_available():
        return "metal"
    if mx.cuda.is_available():
        from kernelwright.metal.device.cuda.device import is_ready

        return "cuda" if is_ready() else "simulator"
    return "simulator"


def open_device(
    name: str, threadgroup_bytes: int = METAL_THREADGROUP_BYTES, stands_for: str = ""
) -> Device:
    """Open a device of this machine.

    Args:
        name: One of `DeviceName`.
        threadgroup_bytes: What a threadgroup may take. More than Metal's 32 KB is for `cuda`,
            and for the simulator in its stead: what needs it runs on no Mac.
        stands_for: A chip, for the simulator: schedules are tried and ranked for it.

    Raises:
        DeviceError: this machine has no such device, nobody has, it has less memory, or it is a
            chip and stands for none.
    """
    check_threadgroup_bytes(name, threadgroup_bytes)
    if stands_for and name != "simulator":
        raise DeviceError(
            f"expected the simulator to stand for {stands_for}, found {name}, which is a chip of "
            "its own; choose the simulator or leave the chip out."
        )
    match name:
        case "simulator":
            from kernelwright.metal.device.simulator.device import SimulatorDevice

            return SimulatorDevice(threadgroup_bytes, stands_for)
        case "metal":
            from kernelwright.metal.device.metal import MetalDevice

            return MetalDevice()
        case "cuda":
            from kernelwright.metal.device.cuda.device import CudaDevice

            return CudaDevice(threadgroup_bytes)
        case _:
            known = ", ".join(get_args(DeviceName))
            raise DeviceError(f"expected a device, one of {known}; found {name!r}.")
