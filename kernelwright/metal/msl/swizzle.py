"""Assignments that compute with several elements of a vector: `v.xy += w`."""

from collections.abc import Collection, Iterator, Sequence

from kernelwright.metal.msl.token import Token

_LETTERS = ("xyzw", "rgba")
_ASSIGNMENTS = frozenset(("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
_ACCESSES = (".", "->")


def swizzle_assignments(
    tokens: Sequence[Token], members: Collection[str]
) -> Iterator[tuple[Token, Token, tuple[int, ...]]]:
    """Yield the access, the letters and their elements of every `v.xy op= w`.

    `members` are names that structs of the text have too: which is meant, only types tell.
    """
    code = [t for t in tokens if t.is_code]
    for access, name, following in zip(code, code[1:], code[2:], strict=False):
        if access.spelling not in _ACCESSES or following.spelling not in _ASSIGNMENTS:
            continue
        elements = _elements(name.spelling)
        if elements and name.spelling not in members:
            yield access, name, elements


def _elements(name: str) -> tuple[int, ...]:
    """Return the elements that letters name; nothing for one letter, which is a member."""
    for letters in _LETTERS:
        if 2 <= len(name) <= 4 and set(name) <= set(letters):
            return tuple(letters.index(letter) for letter in name)
    return ()
