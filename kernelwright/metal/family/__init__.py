"""Which graphs one kernel can compute, and by which family of kernels."""

from kernelwright.metal.family.classify import Family, Pattern, classify, served

__all__ = ["Family", "Pattern", "classify", "served"]
