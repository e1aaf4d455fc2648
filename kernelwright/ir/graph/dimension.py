"""Sizes as polynomials over free dimensions: sums of whole multiples of products of names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

Product = tuple[int, ...]
"""Symbols that are multiplied, sorted; a symbol may repeat, and none is the number one."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`factor` times one symbol, plus `offset`."""

    symbol: int
    factor: int
    offset: int


@dataclass(frozen=True, slots=True)
class Size:
    """A sum: how often each product of symbols is taken, sorted by product, none of them 0 times.

    Such as `2 * rows`, `past + new` or `tokens + 3`.
    """

    terms: tuple[tuple[Product, int], ...]

    @classmethod
    def of(cls, terms: Mapping[Product, int]) -> "Size":
        """Return a sum of products."""
        return cls(tuple(sorted((p, n) for p, n in terms.items() if n)))

    @classmethod
    def number(cls, number: int) -> "Size":
        """Return a size that no symbol is in."""
        return cls((((), number),) if number else ())

    @classmethod
    def symbol(cls, symbol: int) -> "Size":
        """Return the size that a symbol stands for."""
        return cls((((symbol,), 1),))

    @property
    def symbols(self) -> tuple[int, ...]:
        """The symbols that it depends on, each once, in order."""
        if len(self.terms) == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0]
        return tuple(sorted({s for product, _ in self.terms for s in product}))

    @property
    def lone_symbol(self) -> int | None:
        """The symbol that it is; None where it is anything else."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    @property
    def affine(self) -> Affine | None:
        """What it is of the one symbol that it depends on; None where it is no multiple of one."""
        constant = dict(self.terms).get((), 0)
        rest = [term for term in self.terms if term[0]]
        if len(rest) != 1 or len(rest[0][0]) != 1:
            return None
        ((symbol,), factor) = rest[0]
        return Affine(symbol, factor, constant)

    def __add__(self, other: "Size") -> "Size":
        """Add two sizes."""
        if not self.terms or not other.terms:
            return self if self.terms else other
        found = dict(self.terms)
        for product, number in other.terms:
            found[product] = found.get(product, 0) + number
        return Size.of(found)

    def __sub__(self, other: "Size") -> "Size":
        """Subtract a size."""
        return self + other * Size.number(-1)

    def __mul__(self, other: "Size") -> "Size":
        """Multiply two sizes."""
        found: dict[Product, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                product = tuple(sorted(left + right))
                found[product] = found.get(product, 0) + a * b
        return Size.of(found)

    def over(self, other: "Size") -> "Size | None":
        """Divide by a number or a product exactly, or return None."""
        if len(other.terms) != 1:
            return None
        ((divisor, number),) = other.terms
        found: dict[Product, int] = {}
        for product, n in self.terms:
            left = _without(product, divisor)
            if left is None or n % number:
                return None
            found[left] = n // number
        return Size.of(found)

    def value(self, of: Mapping[int, int]) -> int:
        """Return the number that it is where each symbol is one."""
        return sum(n * math.prod(of[s] for s in product) for product, n in self.terms)


ONE = Size.number(1)


def product(sizes: tuple[Size, ...]) -> Size:
    """Multiply sizes."""
    result = ONE
    for size in sizes:
        result = result * size
    return result


def total(sizes: tuple[Size, ...]) -> Size:
    """Add sizes."""
    result = Size.number(0)
    for size in sizes:
        result = result + size
    return result


def _without(symbols: Product, some: Product) -> Product | None:
    """Remove symbols, each once; None where one is not there."""
    left = list(symbols)
    for symbol in some:
        if symbol not in left:
            return None
        left.remove(symbol)
    return tuple(left)
