"""Regions and schedules to programs, one file a family."""

from kernelwright.metal.lower.lowering import lower
from kernelwright.metal.lower.space import Footprint, footprint, schedules

__all__ = ["Footprint", "footprint", "lower", "schedules"]
