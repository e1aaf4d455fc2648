"""What no text may name: what the simulator adds to it, and what is clang's and not Metal's.

A text that did could hide accesses from the sanitizer, forge counts, or have the compiler read
files. Names are looked for in the text as it is written, and where macros paste them together,
among what the macros have to paste.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import pairwise

from kernelwright.metal.device.simulator.toolchain import INCLUDE
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.include import is_kept_pragma, pragma_of, refused_pragma
from kernelwright.metal.msl.question import QUESTIONS, lonely_questions
from kernelwright.metal.msl.token import Token, TokenKind, tokenize

_OWN = re.compile(r"(?:kw|KW)_")
_OWN_NAME = re.compile(r"\b(?:kw|KW)_\w+")
_RESERVED = re.compile(r"__|_[A-Z]")
_DOCUMENTED = re.compile(
    r"__(?:METAL|HAVE|metal|air|AIR)_*\w*|__(?:restrict|const|volatile|inline|signed)(?:__)?|"
    r"__(?:attribute|alignof|typeof|extension)(?:__)?|__cpp_\w+|"
    r"__(?:VA_ARGS|VA_OPT|LINE|FILE|FILE_NAME|BASE_FILE|DATE|TIME|TIMESTAMP|COUNTER)__|"
    r"__(?:INCLUDE_LEVEL|VERSION|APPLE|func|FUNCTION|PRETTY_FUNCTION)__|__(?:clang|cplusplus)\w*|"
    r"__STDC\w*|__func__|__u?int(?:8|16|32|64)_t|__has_\w+|__(?:is|has|underlying)_\w+|"
    r"__(?:FLT|INT|UINT|LONG|SHRT|SCHAR|CHAR|SIZEOF|UINTPTR|INTPTR|SIZE|PTRDIFF)\w*__|"
    r"_(?:Pragma|Static_assert|Alignas|Alignof|Bool|Float16|Atomic)|"
    # Refused elsewhere, in Apple's words or as attributes.
    r"__builtin_\w+|__asm(?:__)?|__u?int128(?:_t)?|_BitInt|_ExtInt|__float128|_Complex"
)
"""Of Metal, https://developer.apple.com/metal/Metal-Shading-Language-Specification.pdf, of C++ and
of what its headers and MLX's are written with."""
_NO_PRAGMA = "'_Pragma' needs a string in brackets behind it"
_CONDITIONS = frozenset(("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "undef"))
_NO_TYPES = frozenset(
    ("return", "else", "do", "case", "sizeof", "alignof", "operator", "defined", "throw")
)


def internal_names(text: str, others: Sequence[str] = ()) -> Iterator[Diagnostic]:
    """Yield what a text names and may not, and pragmas of its macros that Metal has not.

    `others` are texts that are compiled together with it, whose macros may be of use to it.
    """
    tokens = tokenize(text)
    code = [t for t in tokens if t.is_code]
    own = _declared(code)
    codes = (code, *([t for t in tokenize(o) if t.is_code] for o in others))
    for place, token in enumerate(code):
        if token.kind is not TokenKind.IDENTIFIER:
            continue
        word = token.spelling
        if _OWN.match(word):
            yield _found(token, f"'{word}' is a name of the simulator's; choose another")
        elif word == "_Pragma":
            yield from _pragmas(codes, place)
        elif _is_foreign(token) and word not in own:
            yield _found(token, f"'{word}' is a name of the compiler's, which Metal has not")
    for token in lonely_questions(code, text):
        yield _found(token, f"'{token.spelling}' needs what it asks for in brackets behind it")
    paste = next((t for t in code if t.spelling == "##"), None)
    if paste is not None and (name := _pasted(codes)):
        yield _found(paste, f"macros of this text can make {name}, which no text may name")


def _found(token: Token, message: str) -> Diagnostic:
    return Diagnostic(message=message, line=token.line, column=token.column)


def _is_foreign(token: Token) -> bool:
    """Say whether a name is one of clang's, which a text may ask for in conditions alone."""
    word = token.spelling
    is_reserved = _RESERVED.match(word) is not None and token.directive not in _CONDITIONS
    return is_reserved and not _DOCUMENTED.fullmatch(word)


def _spelling(code: Sequence[Token], place: int) -> str:
    return code[place].spelling if place < len(code) else ""


def _declared(code: Sequence[Token]) -> set[str]:
    """Return reserved names that a text gives a meaning of its own."""
    found = set()
    for before, token, after in zip(code, code[1:], [*code[2:], None], strict=False):
        if token.kind is not TokenKind.IDENTIFIER or not _RESERVED.match(token.spelling):
            continue
        word = before.spelling
        is_typed = before.kind is TokenKind.IDENTIFIER and word not in _NO_TYPES
        is_named = after is not None and after.spelling != "("
        if word == "define" or is_typed or (word in (">", "*", "&") and is_named):
            found.add(token.spelling)
    return found | _parameters(code)


def _parameters(code: Sequence[Token]) -> set[str]:
    """Return the parameters of macros."""
    found = set[str]()
    for place in range(len(code) - 3):
        name, opening = code[place + 1], code[place + 2]
        is_macro = code[place].spelling == "define" == code[place].directive
        if is_macro and opening.spelling == "(" and opening.offset == name.end:
            for token in code[place + 3 :]:
                if token.spelling == ")":
                    break
                found.add(token.spelling)
    return found


def _pragmas(codes: Sequence[Sequence[Token]], place: int) -> Iterator[Diagnostic]:
    """Say what is wrong with a `_Pragma`, whose text must be there to be read."""
    code = codes[0]
    argument = _spelling(code, place + 2)
    if _spelling(code, place + 1) != "(":
        yield _found(code[place], _NO_PRAGMA)
    elif argument == "#" and code[place].directive == "define":
        yield from _given_pragmas(codes, place)
    elif (pragma := pragma_of(argument)) is None:
        yield _found(code[place], _NO_PRAGMA)
    elif message := refused_pragma(pragma):
        yield _found(code[place], message)


def _given_pragmas(codes: Sequence[Sequence[Token]], place: int) -> Iterator[Diagnostic]:
    """Say what is wrong with the pragmas that a macro makes of what it is given.

    A `#` puts an argument into a string as it is written where the macro stands, so that all
    which may become a pragma is in the texts, unless they paste names together.
    """
    code = codes[0]
    start = next(i for i in range(place, -1, -1) if _spelling(code, i) == "define")
    macro, parameter = _spelling(code, start + 1), _spelling(code, place + 3)
    parameters = _arguments(code, start + 2)
    if parameter not in parameters or any(t.spelling == "##" for c in codes for t in c):
        yield _found(code[place], _NO_PRAGMA)
        return
    for other in codes:
        for at, token in enumerate(other):
            if token.spelling != macro or _spelling(other, at - 1) == "define":
                continue
            given = _arguments(other, at + 1)
            pragma = given[parameters.index(parameter)] if len(given) == len(parameters) else ""
            if not is_kept_pragma(pragma):
                message = refused_pragma(pragma) or _NO_PRAGMA
                yield _found(token if other is code else code[place], message)


def _arguments(code: Sequence[Token], place: int) -> list[str]:
    """Return the arguments in the brackets that open at a place, empty where none do."""
    if _spelling(code, place) != "(":
        return []
    found, depth = [""], 1
    for token in code[place + 1 :]:
        depth += {"(": 1, ")": -1}.get(token.spelling, 0)
        if depth == 0:
            return [text.strip() for text in found]
        if depth == 1 and token.spelling == ",":
            found.append("")
        else:
            found[-1] += f" {token.spelling}"
    return []


def _pasted(texts: Sequence[Sequence[Token]]) -> str:
    """Return a name that macros can paste together and no text may name; empty for none."""
    macros = {
        name.spelling
        for code in texts
        for word, name in pairwise(code)
        if word.spelling == "define" == word.directive
    }
    pieces = {t.spelling for code in texts for t in _pasteable(code, macros)}
    return next((n for n in _unnameable() if n not in pieces and _is_made_of(n, pieces)), "")


def _pasteable(code: Sequence[Token], macros: Collection[str]) -> Iterator[Token]:
    """Yield what macros are made of and what they are given."""
    depth = 0
    for before, token in pairwise(code):
        if depth:
            depth += {"(": 1, ")": -1}.get(token.spelling, 0)
        elif token.spelling == "(" and before.spelling in macros:
            depth = 1
        is_word = token.kind in (TokenKind.IDENTIFIER, TokenKind.NUMBER)
        if is_word and (depth or token.directive == "define"):
            yield token


def _is_made_of(name: str, pieces: Collection[str]) -> bool:
    reached = {0}
    for end in range(1, len(name) + 1):
        if any(name[start:end] in pieces for start in reached):
            reached.add(end)
    return len(name) in reached


@cache
def _unnameable() -> tuple[str, ...]:
    texts = [path.read_text() for path in INCLUDE.rglob("*") if path.is_file()]
    own = {name for text in texts for name in _OWN_NAME.findall(text)}
    return (*sorted(own), "_Pragma", *sorted(QUESTIONS))
