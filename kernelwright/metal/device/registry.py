"""Devices by name, each imported only when it is asked for."""

from typing import get_args

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import Device, DeviceName


def open_device(name: str) -> Device:
    """Open a device of this machine.

    Raises:
        DeviceError: this machine has no such device, or nobody has.
    """
    match name:
        case "simulator":
            from kernelwright.metal.device.simulator.device import SimulatorDevice

            return SimulatorDevice()
        case "metal":
            from kernelwright.metal.device.metal import MetalDevice

            return MetalDevice()
        case "cuda":
            from kernelwright.metal.device.cuda.device import CudaDevice

            return CudaDevice()
        case _:
            known = ", ".join(get_args(DeviceName))
            raise DeviceError(f"expected a device, one of {known}; found {name!r}.")
