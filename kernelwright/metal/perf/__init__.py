"""What a kernel should cost on a named chip, from its counts."""
