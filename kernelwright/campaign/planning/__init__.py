"""From functions to tasks: what is captured, what is fused, and what that should save."""
