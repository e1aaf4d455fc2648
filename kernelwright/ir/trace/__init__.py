"""What MLX's tracer reports, and what its user's source calls it; capture is the door."""
