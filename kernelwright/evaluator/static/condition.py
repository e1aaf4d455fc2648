"""The arithmetic of `#if`: integers, their operators, and names, which are worth zero."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"(?:0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)[uUlL]{0,3}\Z")
_MODULUS = 1 << 64
_DEEPEST = 100
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_WORDS = {"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^",
          "compl": "~", "not_eq": "!="}  # fmt: skip
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << (b % 64),
    ">>": lambda a, b: a >> (b % 64),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


class Unanswerable(Exception):  # noqa: N818 (an answer of its own)
    """A condition is no expression of integers; the text says why."""


def evaluate(tokens: Sequence[str]) -> int:
    """Evaluate a condition whose macros are expanded, as a signed 64-bit integer.

    Raises:
        Unanswerable: it is none.
    """
    parser = _Parser([_WORDS.get(t, t) for t in tokens])
    value = parser.choice()
    if parser.place != len(parser.tokens):
        raise Unanswerable(f"expected an operator, found {parser.tokens[parser.place]!r}.")
    return value


@dataclass
class _Parser:
    tokens: list[str]
    place: int = 0
    depth: int = 0

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def choice(self) -> int:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unanswerable(f"it nests more than {_DEEPEST} deep.")
        value = self.binary(0)
        if self.peek() == "?":
            self.place += 1
            chosen = self.choice()
            self.expect(":")
            other = self.choice()
            value = chosen if value else other
        self.depth -= 1
        return value

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while (operator := self.peek()) in _LEVELS[level]:
            self.place += 1
            value = _applied(operator, value, self.binary(level + 1))
        return value

    def unary(self) -> int:
        signs = []
        while self.peek() in ("!", "~", "-", "+"):
            signs.append(self.peek())
            self.place += 1
        value = self.atom()
        for sign in reversed(signs):
            value = {"!": int(not value), "~": ~value, "-": -value, "+": value}[sign]
        return value

    def atom(self) -> int:
        token = self.peek()
        self.place += 1
        if token == "(":
            value = self.choice()
            self.expect(")")
            return value
        if _NUMBER.match(token):
            digits = token.rstrip("uUlL").replace("'", "")
            is_octal = digits.startswith("0") and digits.isdigit() and len(digits) > 1
            if len(digits) > 80 or (is_octal and set(digits) & set("89")):
                raise Unanswerable(f"expected an integer, found {token[:20]!r}.")
            return _wrapped(int(digits, 8 if is_octal else 0))
        if token.isidentifier():
            return int(token == "true")
        raise Unanswerable(f"expected an integer or a name, found {token or 'the end'!r}.")

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise Unanswerable(f"expected {token!r}, found {self.peek() or 'the end'!r}.")
        self.place += 1


def _applied(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            # Both sides of `x != 0 && 1 / x` are read here, and only one counts.
            return 0
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return _wrapped(quotient if operator == "/" else left - right * quotient)
    return _wrapped(_OPERATIONS[operator](left, right))


def _wrapped(value: int) -> int:
    value %= _MODULUS
    return value - _MODULUS if value >= _MODULUS // 2 else value
