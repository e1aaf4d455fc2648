"""What a user's project calls: dispatch to verified kernels, with MLX as the fallback."""
