"""The files that a text includes: Metal's own and those of named folders, no others."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from kernelwright.metal.msl.edit import Editor
from kernelwright.metal.msl.question import answers
from kernelwright.metal.msl.token import Token, TokenKind, without_comments

Include = Callable[[str], str | None]
"""Returns the path to include in place of a named file; None where it is Metal's own, or none."""
_OWN = "kw/"
"""Headers of the simulator's, which Metal has not."""
_ASKS_FOR_FILES = ("__has_include", "__has_include_next", "__has_embed")
_KEPT = re.compile(
    r"(?:once|unroll|nounroll|clang\s+(?:loop|fp)|METAL|STDC\s+FP_CONTRACT|unused|pack)\b"
)
"""Pragmas that Metal documents, or that its own libraries have."""
_SILENT = re.compile(r"(?:(?:clang|GCC)\s+diagnostic|message|warning|mark|(?:end)?region|omp)\b|$")
"""Pragmas that change no kernel; the simulator has its own mind about warnings."""
_SPLICE = re.compile(r"\\[ \t]*\r?\n")


def point_includes(
    text: str,
    tokens: Sequence[Token],
    editor: Editor,
    include: Include,
    is_known: Callable[[str], bool] = lambda name: False,
) -> Iterator[str]:
    """Point `#include`s at rewritten files, and yield the names that they have in the text.

    What would read another file of the machine, and a pragma that Metal has not, becomes an error
    where it stands, which a branch that is not compiled leaves out; `__has_include` becomes its
    answer, as `is_known` gives it.
    """
    _settle_operators(tokens, editor)
    for start, end, value in answers(text, tokens):
        editor.replace(start, text[start:end], str(value))
    code = [t for t in tokens if t.is_code and t.directive]
    for i, token in enumerate(code):
        if token.spelling in _ASKS_FOR_FILES and token.directive != "ifdef":
            _answer(text, token, editor, is_known)
        if i == 0 or code[i - 1].spelling != "#" or token.spelling != token.directive:
            continue
        if token.directive in ("embed", "include_next"):
            _fail(text, token, editor, f"invalid preprocessing directive '#{token.directive}'")
        elif token.directive == "pragma":
            _settle_pragma(text, token, editor)
        elif token.directive in ("include", "import"):
            yield from _point(text, token, editor, include)


def refused_pragma(pragma: str) -> str:
    """Say what is wrong with what follows `#pragma`; empty where nothing is."""
    if _KEPT.match(pragma) or _SILENT.match(pragma):
        return ""
    name = " ".join(re.findall(r"\w+", pragma)[:2])
    return f"the pragma {name} is not supported in Metal; remove it"


def is_kept_pragma(pragma: str) -> bool:
    """Say whether what follows `#pragma` is one that Metal documents."""
    return _KEPT.match(pragma) is not None


def pragma_of(literal: str) -> str | None:
    """Return what `_Pragma` makes of a string; None for what is no plain one."""
    found = re.fullmatch(r'"((?:[^"\\]|\\["\\])*)"', literal)
    return re.sub(r'\\(["\\])', r"\1", found[1]).strip() if found else None


def _settle_operators(tokens: Sequence[Token], editor: Editor) -> None:
    """Empty each `_Pragma("…")` but for those that Metal documents."""
    code = [t for t in tokens if t.is_code]
    for word, _, text in zip(code, code[1:], code[2:], strict=False):
        is_pragma = word.spelling == "_Pragma" and text.kind is TokenKind.STRING
        if is_pragma and not _KEPT.match(pragma_of(text.text) or ""):
            editor.replace(text.offset, text.text, '""')


def _settle_pragma(text: str, token: Token, editor: Editor) -> None:
    """Leave what Metal documents, empty what changes nothing, refuse all else."""
    line = _line(text, token)
    pragma = without_comments(_SPLICE.sub("", line[len(token.text) :])).strip()
    if message := refused_pragma(pragma):
        _fail(text, token, editor, message)
    elif not _KEPT.match(pragma):
        editor.replace(token.offset, line, "pragma")


def _point(text: str, directive: Token, editor: Editor, include: Include) -> Iterator[str]:
    operand = _operand(text, directive.end)
    if operand is None:
        message = 'expected "FILENAME" or <FILENAME>, found what a macro would have to give'
        return _fail(text, directive, editor, message)
    written, offset = operand
    name = written[1:-1]
    yield name
    if (path := include(name)) is not None:
        editor.replace(offset, written, f'"{path}"')
    elif _is_elsewhere(name):
        message = f"'{name}' file not found in the folders that this text may include from"
        _fail(text, directive, editor, message)
    return None


def _is_elsewhere(name: str) -> bool:
    path = PurePath(name)
    return path.is_absolute() or ".." in path.parts or name.startswith(_OWN)


_OPERAND = re.compile(r'\s*(?:/\*.*?\*/\s*|\\[ \t]*\r?\n\s*)*("[^"\n]*"|<[^>\n]*>)', re.DOTALL)


def _operand(text: str, offset: int) -> tuple[str, int] | None:
    """Return a file's name in its quotes, and where it stands."""
    found = _OPERAND.match(text, offset)
    return (found[1], found.start(1)) if found else None


def _line(text: str, token: Token) -> str:
    """Return the rest of a directive's line, with those that are spliced to it."""
    found = re.compile(r"(?:[^\\\n]|\\\r?\n|\\.)*").match(text, token.offset)
    return found[0] if found else token.text


def _fail(text: str, directive: Token, editor: Editor, message: str) -> None:
    """Put an error in a directive's place."""
    editor.replace(directive.offset, _line(text, directive), f"error {message}".replace("\n", " "))


def _answer(text: str, question: Token, editor: Editor, is_known: Callable[[str], bool]) -> None:
    """Write whether a file that Metal has is there; others are not."""
    found = re.compile(r"\s*\(\s*(\"[^\"\n]*\"|<[^>\n]*>)\s*\)").match(text, question.end)
    if found is None or question.kind is not TokenKind.IDENTIFIER:
        return
    is_there = question.spelling == "__has_include" and is_known(found[1][1:-1])
    written = text[question.offset : found.end()]
    editor.replace(question.offset, written, f"({int(is_there)})")
