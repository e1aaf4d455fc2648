"""What people run on MLX, at the shapes of real models, timed against MLX itself."""
