"""Metal kernels on the CPU: compiled natively, run like a GPU, watched like neither."""
