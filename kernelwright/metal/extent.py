"""Launch arithmetic: small integer expressions over a program's dimensions and tunables."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelwright.errors import InputError
from kernelwright.ir.graph.open_size import OpenSize, Terms

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(//|[-+*%(),]))")
FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "min": min,
    "max": max,
    "ceildiv": lambda a, b: -(-a // b),
    "align": lambda a, b: -(-a // b) * b,
}
MAXIMUM_LENGTH = 200
_OF_POLYNOMIALS = frozenset("+-*()")


def evaluate(extent: int | str, symbols: Mapping[str, int]) -> int:
    """Evaluate an extent: an integer, or text of `+ - * // % ( )`, min, max, ceildiv, align.

    Raises:
        InputError: the text is not such an expression, or names an unknown symbol.
    """
    if isinstance(extent, int):
        return extent
    return _Parser(extent, _tokens(extent), symbols).whole()


def symbols_in(extent: int | str) -> frozenset[str]:
    """Return the dimension and tunable names that an extent mentions."""
    if isinstance(extent, int):
        return frozenset()
    return frozenset(t for t in _tokens(extent) if t[0].isalpha() or t[0] == "_") - set(FUNCTIONS)


def terms_of(extent: int | str) -> Terms | None:
    """Return the polynomial of names that an extent is; None where it divides or compares.

    Raises:
        InputError: the text is no launch arithmetic.
    """
    names = symbols_in(extent)
    if isinstance(extent, int):
        return {(): extent}
    tokens = _tokens(extent)
    if any(t not in names and not t.isdigit() and t not in _OF_POLYNOMIALS for t in tokens):
        return None
    value = evaluate(extent, {name: OpenSize.named(name, 1) for name in names})
    return value.terms if isinstance(value, OpenSize) else {(): value}


def _tokens(text: str) -> list[str]:
    if len(text) > MAXIMUM_LENGTH:
        raise InputError(
            f"an extent has at most {MAXIMUM_LENGTH} characters, found {len(text)}; shorten it."
        )
    tokens, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise InputError(
                f"expected launch arithmetic such as 'ceildiv(rows, 4) * 32', found {text!r}."
            )
        tokens.append(match[0].strip())
        place = match.end()
    return tokens


@dataclass
class _Parser:
    """Recursive descent over three levels: sum, product, atom."""

    text: str
    tokens: list[str]
    symbols: Mapping[str, int]
    place: int = 0

    def whole(self) -> int:
        value = self.sum()
        if self.place != len(self.tokens):
            raise self.unexpected()
        return value

    def sum(self) -> int:
        value = self.product()
        while (sign := self.accept("+", "-")) is not None:
            right = self.product()
            value = value + right if sign == "+" else value - right
        return value

    def product(self) -> int:
        value = self.atom()
        while (sign := self.accept("*", "//", "%")) is not None:
            right = self.atom()
            if sign != "*" and right == 0:
                raise InputError(f"the extent {self.text!r} divides by zero.")
            value = (
                value * right if sign == "*" else value // right if sign == "//" else value % right
            )
        return value

    def atom(self) -> int:
        if self.accept("(") is not None:
            value = self.sum()
            self.expect(")")
            return value
        token = self.take()
        if token.isdigit():
            return int(token)
        if token in FUNCTIONS:
            self.expect("(")
            left = self.sum()
            self.expect(",")
            right = self.sum()
            self.expect(")")
            if token in ("ceildiv", "align") and right == 0:
                raise InputError(f"the extent {self.text!r} divides by zero.")
            return FUNCTIONS[token](left, right)
        if token in self.symbols:
            return self.symbols[token]
        if not token.isidentifier():
            raise self.unexpected(token)
        known = ", ".join(sorted(self.symbols)) or "none"
        raise InputError(
            f"the extent {self.text!r} names {token!r}; the known dimensions are: {known}."
        )

    def accept(self, *tokens: str) -> str | None:
        if self.place < len(self.tokens) and self.tokens[self.place] in tokens:
            return self.take()
        return None

    def expect(self, token: str) -> None:
        if self.accept(token) is None:
            raise self.unexpected()

    def take(self) -> str:
        if self.place == len(self.tokens):
            raise self.unexpected()
        self.place += 1
        return self.tokens[self.place - 1]

    def unexpected(self, token: str | None = None) -> InputError:
        found = self.tokens[self.place] if self.place < len(self.tokens) else "the end"
        return InputError(
            f"expected launch arithmetic such as 'ceildiv(rows, 4) * 32', found {self.text!r} "
            f"(stuck at {token or found!r})."
        )
