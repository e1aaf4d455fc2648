"""What MLX has a kernel of its own for."""
