"""A kernel's text as the static rules read it: tokens, with their brackets matched once."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.token import Token, code, tokenize

OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())
_EXITS = frozenset({"break", "return"})


class Brackets:
    """Tokens with the partner of each bracket and the bracket around each token.

    All is found in one pass, so that a rule may ask at every token and stay linear.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.partner: dict[int, int] = {}
        self.enclosing: list[int] = []
        """The innermost bracket that is open before each token, or -1."""
        self.separators: dict[int, list[int]] = {}
        """Places of the commas and semicolons directly inside each opening bracket."""
        self._exits: list[int] = []
        stack: list[int] = []
        for index, token in enumerate(tokens):
            self.enclosing.append(stack[-1] if stack else -1)
            spelling = token.spelling
            if spelling in OPENING:
                stack.append(index)
            elif spelling in CLOSING and stack:
                opening = stack.pop()
                self.partner[opening], self.partner[index] = index, opening
            elif spelling in (",", ";") and stack:
                self.separators.setdefault(stack[-1], []).append(index)
            elif spelling in _EXITS:
                self._exits.append(index)

    def spelling(self, index: int) -> str:
        """Return a token's spelling, empty beyond either end."""
        return self.tokens[index].spelling if 0 <= index < len(self.tokens) else ""

    def end(self, opening: int) -> int:
        """Return the index of the bracket that closes `opening`, or the last index."""
        return self.partner.get(opening, len(self.tokens) - 1)

    def items(self, opening: int) -> list[range]:
        """Return the places of each item of the list in a pair of brackets."""
        places = [i for i in self.separators.get(opening, ()) if self.spelling(i) == ","]
        stops = [*places, self.partner.get(opening, len(self.tokens))]
        starts = [opening + 1, *(place + 1 for place in places)]
        return [range(a, b) for a, b in zip(starts, stops, strict=True)]

    def can_leave(self, start: int, stop: int) -> bool:
        """Say whether a `break` or a `return` stands between two places."""
        place = bisect_left(self._exits, start)
        return place < len(self._exits) and self._exits[place] <= stop


@dataclass(frozen=True)
class Text:
    """One of a kernel's two texts, tokenized, with what surrounds it."""

    file: str
    text: str
    tokens: Sequence[Token]
    protected: frozenset[str]
    """Parameter and template names of the kernel."""

    @classmethod
    def of(cls, file: str, text: str, protected: frozenset[str]) -> "Text":
        """Tokenize a text."""
        return cls(file, text, tokenize(text), protected)

    @cached_property
    def code(self) -> Brackets:
        """The tokens that the grammar sees, directives left out."""
        return Brackets(code(self.tokens))

    @cached_property
    def written(self) -> Brackets:
        """All tokens but blanks and comments, those of directives among them."""
        return Brackets([t for t in self.tokens if t.is_code])

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def diagnose(self, token: Token, rule: str, message: str) -> Diagnostic:
        """Point at a token."""
        return Diagnostic(
            message=message,
            file=self.file,
            line=token.line,
            column=token.column,
            rule=rule,
            source_line=self._lines[token.line - 1] if token.line <= len(self._lines) else "",
        )
