"""Metal text as plain C++ of the same length, which a grammar of C++ can read."""

from collections.abc import Collection, Mapping, Sequence

from kernelwright.metal.msl.bracket import Brackets
from kernelwright.metal.msl.keyword import LATER_KEYWORDS
from kernelwright.metal.msl.macro import SPACES, Macros
from kernelwright.metal.msl.token import Token, TokenKind

_STAGES = frozenset(("kernel", "vertex", "fragment"))
_EDGES = frozenset((";", "{", "}", ":"))
_NO_MACROS = frozenset(
    (
        *("if", "for", "while", "switch", "return", "sizeof", "decltype", "typeof", "alignas"),
        *("__attribute__", "__declspec", "else", "do", "case", "catch", "explicit", "noexcept"),
        *("static_assert", "constexpr", "operator", "template", "typename", "asm"),
    )
)
_AFTER_PARAMETERS = SPACES | frozenset(("const", "volatile", "noexcept", "override", "final"))


def plain_text(brackets: Brackets, macros: Macros) -> bytes:
    """Write the tokens of a text, each where it stands, in words that C++ has too.

    Address spaces become `const`; comments, directives and macros that stand for qualifiers or
    whole statements become blanks. Every byte belongs to the character at its place.
    """
    code, words, partner = brackets.code, brackets.words, brackets.partner
    text = bytearray(b" " * (code[-1].end if code else 0))
    skipped = 0
    for place, (token, word) in enumerate(zip(code, words, strict=True)):
        if place < skipped or place in brackets.superseded:
            continue
        if token.kind is TokenKind.IDENTIFIER:
            if word == "__attribute__" and place + 1 in partner:
                # The grammar takes one in few of the places where clang does.
                word, skipped = "", partner[place + 1] + 1
            elif word == "_Pragma" or _is_statement_macro(code, partner, place, macros.calls):
                skipped = partner[place + 1] + 1 if place + 1 in partner else place + 1
                word = "" if word == "_Pragma" else ";"
            else:
                word = _word(code, place, word, macros.qualifiers)
        elif word == "##" and 0 < place < len(code) - 1:
            # Of a macro's body, where `a ## b` is one name.
            start, end = code[place - 1].end, code[place + 1].offset
            text[start:end] = b"_" * (end - start)
            continue
        elif word == "{" and place and code[place - 1].spelling == "=" and _is_empty(code, place):
            # Of a parameter the grammar takes no `= {}`.
            word, skipped = "0", place + 2
        elif word == "#" or token.kind is TokenKind.OTHER:
            word = ""
        text[token.offset : token.offset + len(word)] = word.encode("ascii", "replace")
    return bytes(text)


def _is_empty(code: Sequence[Token], place: int) -> bool:
    return place + 1 < len(code) and code[place + 1].spelling == "}"


def _word(code: Sequence[Token], place: int, word: str, qualifiers: Mapping[str, str]) -> str:
    before = code[place - 1].spelling if place else ""
    if word in SPACES:
        # Between double brackets `threadgroup` is an attribute's name.
        return word if before == "[" else "const"
    if word in LATER_KEYWORDS:
        return f"{word[:-1]}_"
    if word == "operator" and before in ("->", "."):
        # `this->operator float()` calls a member for the grammar.
        return ""
    if word in _STAGES:
        return word if before in ("[", ",", ".", "->", "::") else "inline"
    if word in qualifiers:
        return "const" if SPACES & set(qualifiers[word].split()) and len(word) > 4 else ""
    return word


def _is_statement_macro(
    code: Sequence[Token], partner: Mapping[int, int], place: int, known: Collection[str]
) -> bool:
    """Say whether `NAME(…)` stands for statements: a known macro, or one without a `;` behind."""
    word = code[place].spelling
    if place + 1 not in partner or code[place + 1].spelling != "(" or word in _NO_MACROS:
        return False
    before = code[place - 1].spelling if place else ";"
    if before not in _EDGES and not _ends_macro(code, partner, place - 1):
        return False
    after = partner[place + 1] + 1
    if after >= len(code) or (word in known and code[after].spelling == ";"):
        return True
    follows, kind = code[after].spelling, code[after].kind
    if follows == "[" and code[min(after + 1, len(code) - 1)].spelling != "[":
        return False
    if follows == "}":
        # In braces that hold values this is a call.
        return before not in ("{", ":") or word in known
    is_word = kind is TokenKind.IDENTIFIER and follows not in _AFTER_PARAMETERS
    return is_word or follows in ("#", "[")


def _ends_macro(code: Sequence[Token], partner: Mapping[int, int], place: int) -> bool:
    """Say whether a `)` ends such a macro itself, the one before another."""
    if code[place].spelling != ")" or place not in partner:
        return False
    opening = partner[place]
    return _is_statement_macro_head(code, opening - 1)


def _is_statement_macro_head(code: Sequence[Token], place: int) -> bool:
    if place < 0 or code[place].kind is not TokenKind.IDENTIFIER:
        return False
    return code[place].spelling not in _NO_MACROS and (
        place == 0 or code[place - 1].spelling in (*_EDGES, ")")
    )
