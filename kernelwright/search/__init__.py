"""What to try next: policy without IO, asked for proposals and told verdicts."""

from kernelwright.callable_room import make_callable
from kernelwright.search.search import Search, Suggestion, share_workers

__all__ = ["Search", "Suggestion", "share_workers"]
# People call `kernelwright.search(…)`, whatever was imported before.
make_callable(__name__)
