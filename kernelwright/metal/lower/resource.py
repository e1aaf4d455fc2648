"""What kernels take on chip, and what a chip has of it."""

from dataclasses import dataclass

MAXIMUM_KEPT = 64
"""Registers that a lane's kept values may take; our choice, to keep many simdgroups resident."""
REGISTERS_OF_A_CORE = 1 << 16
"""32-bit registers for which a threadgroup's threads compete: CUDA C++ Programming Guide, compute
capability 9.0; Apple's cores have some 52 thousand."""
WORKING_REGISTERS = 16
"""Registers for addresses and intermediate values, beside what is kept."""
MANY_THREADS = 1 << 18
"""Threads that keep the largest GPU's memory busy with one element each at a time."""
BYTES_IN_FLIGHT = 16
"""Bytes that a thread should have asked for before it waits; measured on an H200, where kernels
with fewer left bandwidth unused."""
SHORT_ROW = 16
"""Elements up to which one thread a row is tried first."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a kernel takes on chip: estimated registers a thread, threadgroup bytes."""

    registers: int
    threadgroup_bytes: int
