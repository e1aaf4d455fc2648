"""Assignments that compute with several elements of a vector: `v.xy += w`."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kernelwright.metal.msl.token import Token, TokenKind

_LETTERS = ("xyzw", "rgba")
_ASSIGNMENTS = frozenset(("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
_ACCESSES = (".", "->")


def swizzle_assignments(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token, tuple[int, ...]]]:
    """Yield the access, the letters and their elements of every `v.xy op= w`.

    A name that the text declares as well may be a member of a struct, and is left alone.
    """
    code = [t for t in tokens if t.is_code]
    declared = {
        token.spelling
        for before, token in pairwise(code)
        if token.kind is TokenKind.IDENTIFIER and before.spelling not in _ACCESSES
    }
    for access, name, following in zip(code, code[1:], code[2:], strict=False):
        if access.spelling not in _ACCESSES or following.spelling not in _ASSIGNMENTS:
            continue
        elements = _elements(name.spelling)
        if elements and name.spelling not in declared:
            yield access, name, elements


def _elements(name: str) -> tuple[int, ...]:
    """Return the elements that letters name; nothing for one letter, which is a member."""
    for letters in _LETTERS:
        if 2 <= len(name) <= 4 and set(name) <= set(letters):
            return tuple(letters.index(letter) for letter in name)
    return ()
