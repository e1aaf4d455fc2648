"""What lowering asks of the kind of GPU that kernels are for."""

from dataclasses import dataclass

from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf.profile import Vendor, find_profile


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU; what one would write first for it is our choice, after measurements."""

    vendor: Vendor
    access_bytes: int
    """What a lane reads or writes best in one access."""
    bytes_in_flight: int
    """What all lanes should have asked for: as much as memory delivers while it answers."""
    bytes_per_launch: int
    """What memory delivers while a second kernel begins."""


APPLE = Gpu("apple", access_bytes=8, bytes_in_flight=1 << 20, bytes_per_launch=1 << 20)
"""MLX's own kernels read 8 bytes of halves; 4 us of 250 GB/s between launches, our guess."""
NVIDIA = Gpu("nvidia", access_bytes=16, bytes_in_flight=4 << 20, bytes_per_launch=8 << 20)
"""An H200: its widest access, 0.8 us of 4.8 TB/s, and 2 us of 4 TB/s between launches."""


def gpu_of(device: DeviceInfo) -> Gpu:
    """Return the kind of GPU that a device is, or that the simulator stands for: else Apple's."""
    if device.name == "cuda":
        return NVIDIA
    named = device.stands_for
    return NVIDIA if named and find_profile(named).vendor == "nvidia" else APPLE
