"""Metal functions that kernels call and Metal's library does not have."""

from kernelwright.metal.lower.library.number import NUMBERS
from kernelwright.metal.lower.library.packed import PACKED
from kernelwright.metal.lower.library.running import RUNNING
from kernelwright.metal.lower.library.team import TEAMS

__all__ = ["FUNCTIONS"]

FUNCTIONS = NUMBERS | PACKED | TEAMS | RUNNING
"""The text of each function, by name."""
