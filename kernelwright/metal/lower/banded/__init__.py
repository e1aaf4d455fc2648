"""Rows and columns of one matrix, reduced in one walk over it."""

from kernelwright.metal.lower.banded.program import banded_footprint, lower_banded
from kernelwright.metal.lower.banded.space import banded_schedules

__all__ = ["banded_footprint", "banded_schedules", "lower_banded"]
