"""Kernels as files that another project can keep."""
