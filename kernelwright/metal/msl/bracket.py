"""Which bracket closes which, through every branch of the preprocessor."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.metal.msl.token import Token, TokenKind

OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(OPEN.values())


def pair_brackets(tokens: Sequence[Token]) -> tuple[list[Token], dict[int, int]]:
    """Pair brackets; the branches of an `#if` each start from the same open brackets."""
    code: list[Token] = []
    partner: dict[int, int] = {}
    branches = _Branches()
    for token in tokens:
        if not token.is_code:
            continue
        if token.directive:
            if token.spelling == "#":
                branches.directive(token.directive)
            continue
        index, text = len(code), token.spelling
        code.append(token)
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
    return code, partner


@dataclass
class _Branches:
    """The brackets that are open, in every branch of the `#if`s around a place."""

    open: list[int] = field(default_factory=list)
    twins: dict[int, list[int]] = field(default_factory=dict)
    """Brackets of earlier branches that close where one of the last branch does."""
    saved: list[tuple[list[int], list[list[int]]]] = field(default_factory=list)
    """For each open `#if`: the brackets open before it and at the end of each branch."""

    def directive(self, name: str) -> None:
        """Follow one directive."""
        if name.startswith("if"):
            self.saved.append((self.open.copy(), []))
        elif name in ("else", "elif") and self.saved:
            before, ends = self.saved[-1]
            ends.append(self.open)
            self.open = before.copy()
        elif name == "endif" and self.saved:
            _, ends = self.saved.pop()
            for end in ends:
                for earlier, later in zip(end, self.open, strict=False):
                    if earlier != later:
                        self.twins.setdefault(later, []).append(earlier)
