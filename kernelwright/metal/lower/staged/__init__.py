"""Few long reductions in stages: parts of them, what these give together, and what reads that."""

from kernelwright.metal.lower.staged.cut import Stage, cut, part_counts
from kernelwright.metal.lower.staged.program import lower_staged

__all__ = ["Stage", "cut", "lower_staged", "part_counts"]
