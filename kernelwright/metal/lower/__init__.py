"""Regions and schedules to programs, one file a family."""

from kernelwright.metal.lower.lowering import lower

__all__ = ["lower"]
