"""Which bracket closes which, through every branch of the preprocessor."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.metal.msl.token import Token, TokenKind

OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(OPEN.values())


@dataclass(frozen=True, slots=True)
class Brackets:
    """A text's code tokens and what its brackets say."""

    code: list[Token]
    words: list[str]
    """The spelling of each."""
    partner: dict[int, int]
    """Matching bracket of each bracket, both ways."""
    superseded: frozenset[int]
    """Tokens of the branches of an `#if` that do not close what they open, the last one's aside."""


def pair_brackets(tokens: Sequence[Token]) -> tuple[list[Token], dict[int, int]]:
    """Pair brackets; the branches of an `#if` each start from the same open brackets."""
    found = read_brackets(tokens)
    return found.code, found.partner


def read_brackets(tokens: Sequence[Token]) -> Brackets:
    """Pair brackets, and say what no grammar can read beside the rest."""
    code: list[Token] = []
    words: list[str] = []
    partner: dict[int, int] = {}
    branches = _Branches()
    for token in tokens:
        if not token.is_code:
            continue
        if token.directive:
            if token.spelling == "#":
                branches.directive(token.directive, len(code))
            continue
        index, text = len(code), token.spelling
        code.append(token)
        words.append(text)
        if token.kind is not TokenKind.PUNCTUATOR:
            continue
        stack = branches.open
        if text in OPEN:
            stack.append(index)
        elif text in _CLOSE and stack and OPEN[code[stack[-1]].spelling] == text:
            opener = stack.pop()
            partner[index] = opener
            for twin in (opener, *branches.twins.get(opener, ())):
                partner[twin] = index
    return Brackets(code, words, partner, frozenset(branches.superseded))


@dataclass
class _Branches:
    """The brackets that are open, in every branch of the `#if`s around a place."""

    open: list[int] = field(default_factory=list)
    twins: dict[int, list[int]] = field(default_factory=dict)
    """Brackets of earlier branches that close where one of the last branch does."""
    saved: list["_Conditional"] = field(default_factory=list)
    superseded: set[int] = field(default_factory=set)

    def directive(self, name: str, place: int) -> None:
        """Follow one directive before the code token at `place`."""
        if name.startswith("if"):
            self.saved.append(_Conditional(self.open.copy(), [place]))
        elif name in ("else", "elif") and self.saved:
            found = self.saved[-1]
            found.ends.append(self.open)
            found.starts.append(place)
            self.open = found.before.copy()
        elif name == "endif" and self.saved:
            found = self.saved.pop()
            if any(end != found.before for end in (*found.ends, self.open)):
                self.superseded.update(range(found.starts[0], found.starts[-1]))
            for end in found.ends:
                for earlier, later in zip(end, self.open, strict=False):
                    if earlier != later:
                        self.twins.setdefault(later, []).append(earlier)


@dataclass
class _Conditional:
    """An `#if` that has not ended yet."""

    before: list[int]
    """The brackets open before it."""
    starts: list[int]
    """First code token of each branch."""
    ends: list[list[int]] = field(default_factory=list)
    """The brackets open at the end of each branch but the last."""
