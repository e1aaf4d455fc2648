"""What to try next: policy without IO, asked for proposals and told verdicts.

`kernelwright.search(…)` calls the Python face's function of that name.
"""

from typing import TYPE_CHECKING

from kernelwright.callable_room import make_callable
from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.search.search import Search, Suggestion, share_workers
else:
    offer_lazily(__name__)
    make_callable(__name__)

__all__ = ["Search", "Suggestion", "share_workers"]
