"""What to try next: policy without IO, asked for proposals and told verdicts."""

from kernelwright.search.search import Search, Suggestion, share_workers

__all__ = ["Search", "Suggestion", "share_workers"]
