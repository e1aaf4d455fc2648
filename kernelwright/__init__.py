"""Finds faster Metal kernels for MLX code, proves them, and hands them over."""

from kernelwright.annotation import example

__all__ = ["example"]
