"""Elementwise kernels whose arrays have neighbours along different axes, tile by tile."""

from kernelwright.metal.lower.transposed.program import lower_transposed
from kernelwright.metal.lower.transposed.space import transposed_bytes, transposed_schedules

__all__ = ["lower_transposed", "transposed_bytes", "transposed_schedules"]
