"""Which functions of a text wait for other threads, as far as its words tell."""

import re

from kernelwright.metal.msl.structure import Structure
from kernelwright.metal.msl.token import TokenKind

_WAITS = re.compile(
    r"simd_\w+|simdgroup_\w+|quad_\w+|threadgroup_barrier|matmul2d\w*|\w*cooperative_tensor"
)


def waiting_functions(structure: Structure) -> frozenset[str]:
    """Return the names of functions that call a barrier or a simdgroup operation, by any way."""
    words: dict[str, set[str]] = {}
    for function in structure.functions:
        if function.body is not None:
            start, end = function.body
            body = structure.code[start : end + 1]
            spelled = {t.spelling for t in body if t.kind is TokenKind.IDENTIFIER}
            words.setdefault(function.name, set()).update(spelled)
    waiting = {name for name, used in words.items() if any(map(_WAITS.fullmatch, used))}
    while callers := {n for n, used in words.items() if n not in waiting and used & waiting}:
        waiting |= callers
    return frozenset(waiting)
