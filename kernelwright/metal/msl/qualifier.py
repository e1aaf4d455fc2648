"""Words that change nothing in the simulator: `coherent`, and `metal::` before a scalar type."""

from collections.abc import Sequence

from kernelwright.metal.msl.token import Token, TokenKind

_SCOPES = frozenset({"device", "threadgroup", "system"})
_QUALIFIERS = frozenset({"device", "threadgroup", "constant", "thread", "const", "volatile"})
_SCALARS = frozenset(
    (
        *("bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float"),
        *("half", "bfloat", "unsigned", "signed", "size_t", "ptrdiff_t", "int8_t", "uint8_t"),
        *("int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t"),
    )
)


def idle_qualifiers(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens that clang must not see, in order."""
    if not any(t.text in ("coherent", "metal") for t in tokens):
        return []
    code = [t for t in tokens if t.is_code]
    found: list[Token] = []
    for place, token in enumerate(code):
        if token.kind is not TokenKind.IDENTIFIER:
            continue
        if token.spelling == "coherent":
            found += _coherent(code, place)
        elif token.spelling == "metal":
            found += _scalar_scope(code, place)
    return found


def _spelling(code: Sequence[Token], place: int) -> str:
    return code[place].spelling if 0 <= place < len(code) else ""


def _coherent(code: Sequence[Token], place: int) -> Sequence[Token]:
    """Return `coherent(system)`, or the word alone beside another qualifier."""
    words = [_spelling(code, place + i) for i in (1, 2, 3)]
    if words[0] == "(" and words[1] in _SCOPES and words[2] == ")":
        return code[place : place + 4]
    beside = {_spelling(code, place - 1), words[0]}
    return code[place : place + 1] if beside & _QUALIFIERS else ()


def _scalar_scope(code: Sequence[Token], place: int) -> Sequence[Token]:
    """Return `metal::`, or `::metal::`, where a scalar type follows, most of which are keywords."""
    is_scope = _spelling(code, place + 1) == "::"
    if not is_scope or _spelling(code, place + 2) not in _SCALARS:
        return ()
    start = place
    if _spelling(code, place - 1) == "::":
        if place > 1 and code[place - 2].kind is TokenKind.IDENTIFIER:
            return ()
        start = place - 1
    return () if _spelling(code, start - 1) == "using" else code[start : place + 2]
