"""Functions written as expressions: parsed, given a meaning in MLX, and served by kernels."""
