"""Conditions in the helpers that the offline kernels share, word for word."""

from functools import cache

from kernelwright.evaluator.coverage.sides import Key
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.library import FUNCTIONS


def stands_in_library(key: Key, program: Program) -> bool:
    """Say whether a condition stands in a line of a helper whose text is ours.

    What a helper such as `larger` rules out is known; what a candidate makes of its result is a
    condition of the candidate's own.
    """
    if "header" not in key.file:
        return False
    headers = [kernel.header.split("\n") for kernel in program.kernels]
    lines = [header[key.line - 1].strip() for header in headers if key.line <= len(header)]
    return any(line in _library_lines() for line in lines)


@cache
def _library_lines() -> frozenset[str]:
    return frozenset(line.strip() for text in FUNCTIONS.values() for line in text.split("\n"))
