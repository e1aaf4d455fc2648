"""What ends a launch before its time, in words."""

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.simulator import native
from kernelwright.metal.device.simulator.budget import Budget
from kernelwright.metal.diagnostic import LaunchError

INVALID_ADDRESS, TRAP, MEMORY, _NO_MEMORY, PROTECTION = 3, 4, 5, 6, 7
WORK, PART, STRAY_WRITE, PARTED = 9, 10, 11, 12
"""`Failure` of launch.h."""
_FAILURES = {
    2: "a thread overflowed its stack of 64 KB; use smaller thread arrays",
    3: "a thread accessed memory of no buffer (address {address:#x}); sanitize it to see where",
    4: "a thread reached code that must not run (a trap); sanitize it to see why",
    7: "a thread used a misaligned vector or an impossible address; sanitize it to see where",
    5: "its threadgroup memory needs {address} bytes, this device has {limit}; use less",
}
_NULL_POINTER = "a thread used a null pointer; sanitize it to see where"
_NULL_BYTES = 1 << 16
"""Of access.cpp."""


def excessive_memory(kernel: str, needed: int, limit: int) -> LaunchError:
    """Return what is wrong with a launch that needs more threadgroup memory than there is."""
    return LaunchError(f"{kernel}: {_FAILURES[MEMORY].format(address=needed, limit=limit)}.")


def stray_write(kernel: str, buffer: str) -> LaunchError:
    """Return what is wrong with a launch that has written beside an array."""
    return LaunchError(
        f"{kernel}: a thread wrote beyond an end of {buffer}; sanitize it to see where."
    )


def raise_failure(
    kernel: str, performed: native.Performed, options: RunOptions, threadgroup_bytes: int
) -> None:
    """Raise what a launch failed of, if it did.

    Raises:
        LaunchError: the kernel did what it must not.
        DeviceError: the machine had too little time or memory for it.
    """
    outcome = performed.outcome
    if outcome.failure == 0:
        return
    if outcome.failure == native.TIMEOUT:
        raise DeviceError(
            f"{kernel}: it got {performed.work_s:.1f} s of processor time in "
            f"{Budget.of(options).patience_s:g} s, too little for a verdict; try again when the "
            f"machine is less busy."
        )
    if outcome.failure == _NO_MEMORY:
        raise DeviceError("the simulator has no memory or threads left for a launch.")
    thread = (outcome.thread.x, outcome.thread.y, outcome.thread.z)
    is_null = outcome.failure == INVALID_ADDRESS and outcome.address < _NULL_BYTES
    failed = _NULL_POINTER if is_null else _FAILURES[outcome.failure]
    cause = failed.format(address=outcome.address, limit=threadgroup_bytes)
    raise LaunchError(f"{kernel}: {cause} (thread {thread}).")
