"""How much memory a threadgroup may take: Metal's 32 KB, or what a user allows on NVIDIA."""

import re

from kernelwright.errors import DeviceError, InputError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES
from kernelwright.validation import shown

MOST_THREADGROUP_BYTES = 227 * 1024
"""Of compute capability 9.0; CUDA C++ Programming Guide, technical specifications:
https://docs.nvidia.com/cuda/cuda-c-programming-guide/#features-and-technical-specifications."""
_SIZE = re.compile(r"(?P<number>\d{1,12})\s*(?P<unit>K|KB|KiB|)", re.IGNORECASE)


def read_size(text: str) -> int:
    """Return the bytes that `96K`, `96 KB` or `98304` stands for; a K is 1024.

    Raises:
        InputError: the text is no size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"expected a size such as 96K or 98304, found {shown(text)}.")
    return int(found["number"]) * (1024 if found["unit"] else 1)


def in_kilobytes(nbytes: int) -> str:
    """Write a size for people, such as `96 KB`; a KB is 1024 bytes."""
    return f"{nbytes / 1024:g} KB"


def check_threadgroup_bytes(device: str, nbytes: int) -> None:
    """Refuse a limit that a device cannot have.

    Args:
        device: A device's name.
        nbytes: What a threadgroup may take; Metal's own limit suits every device.

    Raises:
        DeviceError: the device keeps Metal's limit, or no device reaches this one.
    """
    if nbytes == METAL_THREADGROUP_BYTES:
        return
    least, asked = in_kilobytes(METAL_THREADGROUP_BYTES), in_kilobytes(nbytes)
    if device == "metal":
        raise DeviceError(
            f"expected {least} of threadgroup memory on metal, all that an Apple GPU has, "
            f"found {asked}; leave the limit out or choose cuda."
        )
    if not METAL_THREADGROUP_BYTES < nbytes <= MOST_THREADGROUP_BYTES:
        raise DeviceError(too_much(device, nbytes, MOST_THREADGROUP_BYTES))


def too_much(device: str, nbytes: int, most: int) -> str:
    """Say that a limit lies outside of what a device can have."""
    least = in_kilobytes(METAL_THREADGROUP_BYTES)
    return (
        f"expected {least} to {in_kilobytes(most)} of threadgroup memory on {device}, found "
        f"{in_kilobytes(nbytes)}; choose a size between them."
    )


def chip_with(chip: str, nbytes: int) -> str:
    """Return what the store knows a chip by under a limit: with another it is another chip."""
    if nbytes == METAL_THREADGROUP_BYTES:
        return chip
    return f"{chip}, {in_kilobytes(nbytes)} threadgroup memory"
