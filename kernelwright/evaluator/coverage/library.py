"""Conditions in the helpers that the offline kernels share, word for word."""

from functools import lru_cache

from kernelwright.evaluator.coverage.sides import Key
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.library import FUNCTIONS


def stands_in_library(key: Key, program: Program) -> bool:
    """Say whether a condition stands in a helper whose text is ours.

    What a helper such as `larger` rules out is known; what a candidate makes of its result is a
    condition of the candidate's own.
    """
    if "header" not in key.file or key.launch >= len(program.kernels):
        return False
    return key.line in _lines(program.kernels[key.launch].header)


@lru_cache(maxsize=64)
def _lines(header: str) -> frozenset[int]:
    """Return the lines of a header that hold such helpers."""
    found: set[int] = set()
    for text in map(str.strip, FUNCTIONS.values()):
        place = header.find(text)
        if place >= 0:
            first = header.count("\n", 0, place) + 1
            found |= set(range(first, first + text.count("\n") + 1))
    return frozenset(found)
