"""Literals and conditionals in the spelling that C++ gives Metal's meaning."""

import re
from collections.abc import Sequence

from kernelwright.metal.msl.edit import Editor
from kernelwright.metal.msl.token import Token, TokenKind

_NO_NUMBERS = frozenset({"if", "elif", "include", "line", "pragma", "error", "ifdef", "ifndef"})
_FLOAT = re.compile(r"(?:(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?)\Z")
_HEX_FLOAT = re.compile(r"0[xX][\da-fA-F.']*[pP][+-]?\d+\Z")
_HALF = re.compile(r"(.*)[hH]\Z")
_BFLOAT = re.compile(r"(.*)(?:bf|BF)\Z")


def rewrite_expressions(editor: Editor, tokens: Sequence[Token]) -> None:
    """Suffix literals and guard the middle operand of every conditional."""
    questions: list[list[Token]] = [[]]
    before: Token | None = None
    for token in tokens:
        if token.directive in _NO_NUMBERS or not token.is_code:
            continue
        if token.text == ":" and before is not None and before.text == "?":
            # `a ?: b` has no middle operand.
            questions[-1].pop()
        before = token
        if token.kind is TokenKind.NUMBER:
            _number(editor, token)
        elif token.kind is TokenKind.PUNCTUATOR:
            _conditional(editor, token, questions)


def _conditional(editor: Editor, token: Token, questions: list[list[Token]]) -> None:
    """Write `c ? a : b` as `c ? (kw_rvalue, (a)) : b`; see docs/design/simulator.md."""
    text = token.spelling
    if text in ("(", "[", "{"):
        questions.append([])
    elif text in (")", "]", "}"):
        if len(questions) > 1:
            questions.pop()
    elif text == ";":
        questions[-1].clear()
    elif text == "?":
        questions[-1].append(token)
    elif text == ":" and questions[-1]:
        question = questions[-1].pop()
        editor.insert(question.end, " (kw_rvalue, (")
        editor.insert(token.offset, "))")


def _number(editor: Editor, token: Token) -> None:
    text = token.spelling
    if text.startswith(("0x", "0X")):
        if _HEX_FLOAT.match(text):
            editor.insert(token.end, "f")
    elif bfloat := _BFLOAT.match(text):
        editor.replace(token.offset, token.text, f"bfloat({bfloat[1]}f)")
    elif half := _HALF.match(text):
        editor.replace(token.offset, token.text, f"{half[1]}f16")
    elif _FLOAT.match(text) and ("." in text or "e" in text or "E" in text):
        editor.insert(token.end, "f")
