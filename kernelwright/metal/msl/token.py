"""Metal text as tokens that know their place and join back to the exact text."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class TokenKind(StrEnum):
    """What a run of characters is, before any preprocessing."""

    IDENTIFIER = "identifier"
    NUMBER = "number"
    STRING = "string"
    CHARACTER = "character"
    PUNCTUATOR = "punctuator"
    COMMENT = "comment"
    SPACE = "space"
    """Blanks, tabs and spliced line ends."""
    NEWLINE = "newline"
    OTHER = "other"
    """A character that begins no token; a comment or quote without an end, as far as it goes."""


class Token(NamedTuple):
    """One token, exactly as written."""

    kind: TokenKind
    text: str
    line: int
    """From 1."""
    column: int
    """From 1, in characters."""
    offset: int
    directive: str = ""
    """Name of the preprocessor directive whose line holds the token (`define`, `#` for a
    nameless one), empty outside directives."""

    @property
    def spelling(self) -> str:
        """The text as the compiler reads it: splices joined, digraphs replaced."""
        if self.kind is TokenKind.PUNCTUATOR:
            return _DIGRAPHS.get(self.text, self.text)
        if "\\" in self.text and self.kind in (TokenKind.IDENTIFIER, TokenKind.NUMBER):
            return _SPLICE.sub("", self.text)
        return self.text

    @property
    def end(self) -> int:
        """Offset of the first character after the token."""
        return self.offset + len(self.text)

    @property
    def is_code(self) -> bool:
        """False for comments and white space."""
        return self.kind not in _BLANK


_BLANK = frozenset({TokenKind.COMMENT, TokenKind.SPACE, TokenKind.NEWLINE})
_DIGRAPHS = {"<:": "[", ":>": "]", "<%": "{", "%>": "}", "%:": "#", "%:%:": "##"}
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_S = r"(?:\\\r?\n)*"
_TOKEN = re.compile(
    rf"""
    (?P<comment>/{_S}/(?:\\\r?\n|[^\n])*|/{_S}\*.*?\*{_S}/)
  | (?P<open_comment>/{_S}\*.*)
  | (?P<space>(?:[ \t\f\v]|\\[ \t]*\r?\n|\r(?!\n))+)
  | (?P<newline>\r?\n)
  | (?P<string>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{{0,16}})\(.*?\)(?P=delimiter)"
        |(?:u8|[uUL])?"(?:\\\r?\n|\\.|[^"\\\n])*")
  | (?P<open_string>(?:u8|[uUL])?R"[^()\\\s]{{0,16}}\(.*|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*)
  | (?P<identifier>[A-Za-z_$][\w$]*(?:{_S}[\w$]+)*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'\w|\\\r?\n(?=[\w.])|[\w.])*)
  | (?P<character>(?:u8|[uUL])?'(?:\\\r?\n|\\.|[^'\\\n])+')
  | (?P<open_character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])*)
  | (?P<punctuator>%:%:|\.\.\.|<=>|->\*|<<=|>>=|<:(?!:[^:>])|<%|%>|:>|%:|::|->|\+\+|--|<<|>>|<=|>=
        |==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|\.\*|\#\#|[-+*/%^&|~!=<>?:;,.()\[\]{{}}\#])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    **{kind.value: kind for kind in TokenKind},
    "delimiter": TokenKind.STRING,
    # To the end of the text or line at once: each of many would look there for its end.
    **dict.fromkeys(("open_comment", "open_string", "open_character"), TokenKind.OTHER),
}


def tokenize(text: str) -> list[Token]:
    """Split Metal text into tokens; joining their texts gives the text back."""
    return list(_marked(_scan(text)))


def code(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens that the grammar sees, in order, directives left out."""
    return [t for t in tokens if t.kind not in _BLANK and not t.directive]


@lru_cache(maxsize=64)
def without_comments(text: str) -> str:
    """Blank every comment out, keeping each remaining character at its line and column."""
    if "/" not in text:
        return text
    return "".join(
        _NOT_LINE_END.sub(" ", t.text) if t.kind is TokenKind.COMMENT else t.text
        for t in tokenize(text)
    )


_NOT_LINE_END = re.compile(r"[^\r\n]")


def _scan(text: str) -> Iterator[Token]:
    line, line_start = 1, 0
    for match in _TOKEN.finditer(text):
        offset, part = match.start(), match.group()
        kind = _KINDS[match.lastgroup or "string"]
        yield Token(kind, part, line, offset - line_start + 1, offset)
        if "\n" in part:
            line += part.count("\n")
            line_start = offset + part.rindex("\n") + 1


def _marked(tokens: Iterable[Token]) -> Iterator[Token]:
    """Name the directive of every token on a directive's line."""
    at_line_start, pending, directive = True, list[Token](), ""
    for token in tokens:
        if token.kind is TokenKind.NEWLINE:
            yield from (t._replace(directive="#") for t in pending)
            at_line_start, pending, directive = True, [], ""
            yield token
        elif directive:
            yield token._replace(directive=directive)
        elif pending:
            if not token.is_code:
                pending.append(token)
                continue
            directive = token.spelling if token.kind is TokenKind.IDENTIFIER else "#"
            yield from (t._replace(directive=directive) for t in (*pending, token))
            pending = []
        elif at_line_start and token.is_code and token.spelling == "#":
            pending = [token]
        else:
            at_line_start = at_line_start and not token.is_code
            yield token
    yield from (t._replace(directive="#") for t in pending)
