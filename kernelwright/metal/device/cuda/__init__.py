"""Metal kernels on NVIDIA GPUs: translated to CUDA, launched through MLX."""
