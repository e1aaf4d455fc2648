"""Tokens per second of mlx-lm's models, as they are and tuned."""
