"""How much a thread keeps in arrays of its own, as far as a text says it in numbers."""

import re
from collections.abc import Mapping
from itertools import takewhile
from math import prod

from kernelwright.metal.msl.token import Token, TokenKind, code, tokenize

_TYPE = re.compile(
    r"(?:packed_)?(?P<scalar>bool|u?char|u?short|half|bfloat|u?int|float|u?long|u?int(?:8|16|32|64)_t)"
    r"(?P<lanes>[234])?(?:x(?P<rows>[234]))?"
)
_BYTES = {
    **dict.fromkeys(("bool", "char", "uchar", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("half", "bfloat", "short", "ushort", "int16_t", "uint16_t"), 2),
    **dict.fromkeys(("float", "int", "uint", "int32_t", "uint32_t"), 4),
    **dict.fromkeys(("long", "ulong", "int64_t", "uint64_t"), 8),
}
_ELSEWHERE = frozenset(("threadgroup", "device", "constant", "threadgroup_imageblock"))


def thread_array_bytes(text: str, extents: Mapping[str, int]) -> int:
    """Add up the arrays that a function's text declares in a thread's own memory.

    `extents` are template arguments. An array of a type or of an extent that the text computes
    counts nothing, so that the sum is a lower bound.
    """
    tokens = code(tokenize(text))
    return sum(_declared_bytes(tokens, place, extents) for place in range(len(tokens) - 2))


def _declared_bytes(tokens: list[Token], place: int, extents: Mapping[str, int]) -> int:
    """Return the bytes of the declaration that begins with a type at `place`, 0 for another."""
    type_ = _TYPE.fullmatch(tokens[place].spelling)
    if type_ is None or (place and tokens[place - 1].spelling in _ELSEWHERE):
        return 0
    lanes = int(type_["lanes"] or 1)
    lanes = 4 if lanes == 3 and "packed_" not in type_[0] else lanes
    element = _BYTES[type_["scalar"]] * lanes * int(type_["rows"] or 1)
    rest = [t.spelling for t in takewhile(lambda t: t.spelling != ";", tokens[place + 1 :])]
    total = 0
    for name, declarator in _declarators(rest, tokens[place + 1].kind):
        sizes = [_extent(word, extents) for word in declarator]
        total += element * prod(sizes) if name and sizes else 0
    return total


def _declarators(words: list[str], kind: TokenKind) -> list[tuple[str, list[str]]]:
    """Split `a[2], b[3][4]` into names with the words between their brackets."""
    found: list[tuple[str, list[str]]] = []
    place = 0
    while kind is TokenKind.IDENTIFIER and place < len(words):
        name, sizes, place = words[place], [], place + 1
        while words[place : place + 1] == ["["] and "]" in words[place:]:
            close = words.index("]", place)
            sizes.append(" ".join(words[place + 1 : close]))
            place = close + 1
        found.append((name, sizes))
        if words[place : place + 1] != [","]:
            break
        place += 1
    return found


def _extent(word: str, extents: Mapping[str, int]) -> int:
    return int(word) if word.isdigit() else extents.get(word, 0)
