"""Floats that have no more bits than a half or a bfloat, whatever they are made of."""

import re

import numpy as np

from kernelwright.evaluator.attacks.mutate.symbolic.exhaustion import Bits, gives_itself
from kernelwright.evaluator.attacks.mutate.symbolic.term import Term, parts

_Formats = frozenset[str]
_EITHER = frozenset({"half", "bfloat"})
_CHOOSES = re.compile(r"kw_prebuilt_(?:max|min)_of_float")
"""What gives all lanes one of the floats that they have."""
_UPPER = 0xFFFF_0000
_SHORTS = np.arange(1 << 16, dtype=np.uint16)


def is_kept(value: Term, made: Term) -> bool:
    """Say whether what is made of a float alone, such as its rounding, is that float again."""
    return any(gives_itself(value, made, _floats(kind)) for kind in sorted(_formats(value, {})))


def _floats(kind: str) -> Bits:
    """Return all floats of a format, as the bits of a float."""
    if kind == "bfloat":
        return _SHORTS.astype(np.uint64) << np.uint64(16)
    return _SHORTS.view(np.float16).astype(np.float32).view(np.uint32).astype(np.uint64)


def _formats(value: object, known: dict[Term, _Formats]) -> _Formats:
    """Return which formats surely hold a float."""
    if isinstance(value, int):
        found = np.uint32(value % (1 << 32)).view(np.float32)
        with np.errstate(over="ignore"):
            is_half = bool(np.isnan(found) or np.float32(np.float16(found)) == found)
        names = (("half", is_half), ("bfloat", value & 0xFFFF == 0))
        return frozenset(name for name, holds in names if holds)
    if not isinstance(value, Term):
        return frozenset()
    if value not in known:
        known[value] = _formats_of(value, known)
    return known[value]


def _formats_of(value: Term, known: dict[Term, _Formats]) -> _Formats:
    name, args = value.name, value.args
    if name == "fpext":
        return _EITHER & {str(args[0])} if args[1] == "float" else frozenset()
    if (name == "and" and args[0] == 32 and args[2] == _UPPER) or _is_shifted(value):
        return frozenset({"bfloat"})
    if name == "choice":
        return _formats(args[1], known) & _formats(args[2], known)
    if name in ("fneg", "llvm.fabs.f32"):
        return _formats(args[-1], known)
    if name in ("llvm.maxnum.f32", "llvm.minnum.f32"):
        return _formats(args[-1], known) & _formats(args[-2], known)
    if name == "lanes" and _CHOOSES.fullmatch(str(args[0])):
        found = _EITHER
        for _, cells in args[1]:  # type: ignore[attr-defined]
            found &= _formats(cells[0][2], known) if len(cells) == 1 else frozenset()
        return found
    return frozenset()


def _is_shifted(value: Term) -> bool:
    """Say whether the lower half of a word is zero."""
    constant, factors = parts(value)
    return value.name == "sum" and all(
        n % (1 << 16) == 0 for n in (constant, *dict(factors).values())
    )
