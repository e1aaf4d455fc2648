"""Finds faster Metal kernels for MLX code, proves them, and hands them over."""
