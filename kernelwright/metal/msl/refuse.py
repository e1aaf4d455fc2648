"""What Metal refuses and clang would accept, found from the tokens."""

from collections.abc import Iterator

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.rewrite import Rewritten


def refuse(rewritten: Rewritten) -> tuple[Diagnostic, ...]:
    """Return what Apple's compiler would refuse in a text, in its words."""
    return tuple(sorted(_found(rewritten), key=lambda d: (d.line, d.column)))


def _found(rewritten: Rewritten) -> Iterator[Diagnostic]:
    yield from ()
