"""Sizes of dimensions that stay open: numbers with a name, whose sums and products keep it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from kernelwright.errors import UnsupportedError

Terms = Mapping[tuple[str, ...], int]
"""How often products of names are added up; the empty product is a number."""


class OpenSize(int):
    """Any size of a dimension, in a graph whose other sizes follow from it.

    Where a decision is taken it is one number, which should be large and prime, so that what is
    decided holds for sizes that nothing divides. Sums, products and exact quotients are open sizes
    again. Other quotients and rests may be compared as numbers are, but have no text.
    """

    terms: Terms | None
    """The polynomial of names that it is; None where it is none."""

    def __new__(cls, size: int, terms: Terms | None) -> Self:
        """Return a number that stands for a polynomial of names."""
        made = super().__new__(cls, size)
        known = None if terms is None else {key: n for key, n in terms.items() if n}
        made.terms = None if known is None else MappingProxyType(known)
        return made

    @classmethod
    def named(cls, name: str, size: int) -> Self:
        """Return a dimension by its name, with the number that decisions see."""
        return cls(size, {(name,): 1})

    @property
    def text(self) -> str:
        """The arithmetic over names that it is.

        Raises:
            UnsupportedError: it is no sum of products.
        """
        if self.terms is None:
            raise UnsupportedError("a size follows from an open dimension by more than a sum.")
        ordered = sorted(self.terms.items(), key=lambda term: (term[1] < 0, -len(term[0])))
        signed = [("-" if n < 0 else "+", _product(names, abs(n))) for names, n in ordered]
        return " ".join(f"{sign} {part}" for sign, part in signed).removeprefix("+ ") or "0"

    @property
    def is_product(self) -> bool:
        """Say whether it is known, and no sum."""
        return self.terms is not None and [n > 0 for n in self.terms.values()] == [True]

    def __str__(self) -> str:
        """Return the text between marks, by which what is written tells names from words."""
        return f"@{self.text}@"

    def __format__(self, spec: str) -> str:
        """Return the text between marks."""
        return str(self)

    def __add__(self, other: int) -> int:
        """Add; the sum of two open sizes is one."""
        return self._joined(other, int.__add__, _total)

    def __mul__(self, other: int) -> int:
        """Multiply; the product of two open sizes is one."""
        return self._joined(other, int.__mul__, _multiplied)

    def __sub__(self, other: int) -> int:
        """Subtract."""
        return self + -other

    def __rsub__(self, other: int) -> int:
        """Subtract from a number."""
        return -self + other

    def __neg__(self) -> int:
        """Return the opposite."""
        return self * -1

    def __floordiv__(self, other: int) -> int:
        """Divide; known where the rest is, at every size."""
        return _made(int(self) // int(other), _divided(self, other).quotient)

    def __mod__(self, other: int) -> int:
        """Return the rest; known where it is one polynomial at every size."""
        return _made(int(self) % int(other), _divided(self, other).rest)

    def __rfloordiv__(self, other: int) -> int:
        """Divide a number."""
        return _made(other // int(self), _divided(other, self).quotient)

    def __rmod__(self, other: int) -> int:
        """Return the rest of a number."""
        return _made(other % int(self), _divided(other, self).rest)

    __radd__, __rmul__ = __add__, __mul__

    def _joined(
        self,
        other: int,
        numbers: Callable[[int, int], int],
        terms: Callable[[Terms, Terms], Terms],
    ) -> int:
        theirs = _terms_of(other)
        known = None if self.terms is None or theirs is None else terms(self.terms, theirs)
        return _made(numbers(int(self), int(other)), known)


def _made(size: int, terms: Terms | None) -> int:
    """Return an open size, or a plain number where no name is left."""
    is_number = terms is not None and not any(names for names, n in terms.items() if n)
    return size if is_number else OpenSize(size, terms)


def _terms_of(size: int) -> Terms | None:
    return size.terms if isinstance(size, OpenSize) else {(): size}


@dataclass(frozen=True)
class _Division:
    quotient: Terms | None = None
    rest: Terms | None = None


def _divided(size: int, by: int) -> _Division:
    """Divide polynomials of names, which are all at least one; nothing is known of most."""
    terms, divisor = _terms_of(size), _terms_of(by)
    if terms is None or divisor is None or len(divisor) != 1:
        return _Division()
    ((names, times),) = divisor.items()
    quotient: dict[tuple[str, ...], int] = {}
    rest: dict[tuple[str, ...], int] = {names: 0, (): 0}
    for key, n in terms.items():
        left = _without(key, names)
        if left is not None:
            quotient[left], over = divmod(n, times)
        else:
            over = n
        if over and key not in rest:
            return _Division()
        rest[key] = over
    if names and rest[names] == 0 and rest[()] < 0:
        quotient[()], rest[names] = quotient.get((), 0) - 1, times
    if names and not -rest[names] <= rest[()] < times - rest[names]:
        # At some size the rest would be none.
        return _Division()
    return _Division(quotient, rest)


def _without(names: tuple[str, ...], some: tuple[str, ...]) -> tuple[str, ...] | None:
    """Remove names, each once; None where one is not there."""
    left = list(names)
    for name in some:
        if name not in left:
            return None
        left.remove(name)
    return tuple(left)


def _product(names: tuple[str, ...], factor: int) -> str:
    return " * ".join([*names, *([str(factor)] if factor != 1 or not names else [])])


def _total(left: Terms, right: Terms) -> Terms:
    return {key: left.get(key, 0) + right.get(key, 0) for key in (*left, *right)}


def _multiplied(left: Terms, right: Terms) -> Terms:
    found: dict[tuple[str, ...], int] = {}
    for one, a in left.items():
        for other, b in right.items():
            key = tuple(sorted((*one, *other)))
            found[key] = found.get(key, 0) + a * b
    return found
