"""What to try next: policy without IO, asked for proposals and told verdicts."""
