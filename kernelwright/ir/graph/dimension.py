"""Sizes as polynomials over free dimensions: sums of whole multiples of products of names."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError

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


class Equations:
    """How dimensions follow from each other, found by unification.

    Every symbol stands for one dimension that was seen with a concrete size. Solving two
    sizes as equal binds a symbol to what it comes to in others; sizes that can never be equal
    except at the captured shape pin their symbols to what they were.
    """

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._given: set[int] = set()
        self._bound: dict[int, Size] = {}
        self._meanings: dict[int, Size] = {}
        """What symbols come to in the end, by the bindings of the moment."""
        self._why: dict[int, str] = {}

    def symbol(self, size: int, *, is_given: bool = False) -> Size:
        """Return a new unknown that was `size` at capture; sizes of one and zero are fixed.

        Those of inputs are given, others follow.
        """
        if size <= 1:
            return Size.number(size)
        number = len(self._seen)
        self._seen[number] = size
        if is_given:
            self._given.add(number)
        return Size.symbol(number)

    def is_given(self, symbol: int) -> bool:
        """Say whether a symbol is a dimension of an input."""
        return symbol in self._given

    def resolved(self, size: Size) -> Size:
        """Replace bound symbols by what they are bound to."""
        if not any(s in self._bound for s in size.symbols):
            return size
        if (symbol := size.lone_symbol) is not None:
            return self._meaning(symbol)
        return total(
            tuple(
                product((Size.number(n), *(self._meaning(s) for s in symbols)))
                for symbols, n in size.terms
            )
        )

    def _meaning(self, symbol: int) -> Size:
        """Return what a symbol is bound to in the end, itself where it is free."""
        if (known := self._meanings.get(symbol)) is not None:
            return known
        # Chains are as long as graphs are deep: no recursion from one symbol to the next.
        chain, bound = [symbol], self._bound.get(symbol)
        while bound is not None and (follower := bound.lone_symbol) is not None:
            chain.append(follower)
            bound = self._bound.get(follower)
        found = Size.symbol(chain[-1]) if bound is None else self.resolved(bound)
        self._meanings.update(dict.fromkeys(chain, found))
        return found

    @property
    def captured_symbols(self) -> Mapping[int, int]:
        """What each symbol was at capture."""
        return self._seen

    def captured(self, size: Size) -> int:
        """Return what a size was at capture."""
        return size.value(self._seen)

    def equate(self, left: Size, right: Size, why: str) -> None:
        """Require two sizes to be equal."""
        left, right = self.resolved(left), self.resolved(right)
        if left == right:
            return
        if (found := self._solution(left - right)) is not None:
            self._bind(*found, why)
            return
        for size in (left, right):
            self.pin(size, why)

    def _solution(self, difference: Size) -> tuple[int, Size] | None:
        """Return a symbol with what it has to be for a size to be zero.

        What is given is never what is left of a sum: `past` is not `total - new`, which would be
        less than nothing for a small `total`. Numbers may be subtracted.
        """
        found = list(_solutions(difference))
        sums = (pair for pair in found if all(n > 0 for p, n in pair[1].terms if p))
        return next(sums, None) or next((p for p in found if p[0] not in self._given), None)

    def pin(self, size: Size, why: str) -> None:
        """Fix every symbol of a size to what it was at capture."""
        for symbol in self.resolved(size).symbols:
            self._bind(symbol, Size.number(self._seen[symbol]), why)

    def _bind(self, symbol: int, size: Size, why: str) -> None:
        if not size.symbols:
            self._why[symbol] = why
        self._bound[symbol] = size
        self._meanings.clear()

    def reason(self, size: Size) -> str:
        """Say why a size is fixed, as far as it is known."""
        asked, frontier = set(size.symbols), list(size.symbols)
        while frontier:
            symbol = frontier.pop()
            if symbol in self._why:
                return self._why[symbol]
            inner = self._bound[symbol].symbols if symbol in self._bound else ()
            frontier += [s for s in reversed(inner) if s not in asked]
            asked.update(inner)
        return ""

    def evaluated(self, size: Size, chosen: Mapping[int, int]) -> int:
        """Return a size with some free symbols set, the others as captured."""
        resolved = self.resolved(size)
        return resolved.value({s: chosen.get(s, self._seen[s]) for s in resolved.symbols})

    def unknown(self, size: Size, chosen: Mapping[int, int]) -> tuple[int, ...]:
        """Return the free symbols of a size that have not been chosen."""
        return tuple(s for s in self.resolved(size).symbols if s not in chosen)

    def solve(self, size: Size, wanted: int, chosen: Mapping[int, int]) -> tuple[int, int]:
        """Return the symbol, and its value, that make a size what is wanted beside those chosen.

        Raises:
            UnsupportedError: the size is fixed, depends on several dimensions that are not chosen,
                or no whole number does it.
        """
        resolved, unknown = self.resolved(size), self.unknown(size, chosen)
        if len(unknown) != 1 or any(p.count(unknown[0]) > 1 for p, _ in resolved.terms):
            reason = self.reason(size) or "it depends on several dimensions"
            raise UnsupportedError(f"it cannot change: {reason}")
        known = {**chosen, unknown[0]: 0}
        constant = resolved.value(known)
        factor = resolved.value({**known, unknown[0]: 1}) - constant
        rest = wanted - constant
        if factor == 1 and rest < 1:
            raise UnsupportedError(f"it has to be more than {constant}")
        if factor != 1 and (rest % factor or rest < factor):
            more = f", plus {constant}" if constant else ""
            raise UnsupportedError(f"it has to be a multiple of {factor}{more}")
        return unknown[0], rest if factor == 1 else rest // factor


def _solutions(difference: Size) -> Iterator[tuple[int, Size]]:
    """Yield symbols with what each has to be for a size to be zero, the best first."""
    terms = _without_common_symbols(difference).terms
    positive = [(p, n) for p, n in terms if n > 0]
    negative = [(p, n) for p, n in terms if n < 0]
    # Of a renaming or a multiple, the left one is bound; of a sum, the later one.
    is_sum = len(terms) > 2 or any(not p for p, _ in terms)
    later_first = sorted(terms, key=lambda term: term[0], reverse=True)
    for own, number in later_first if is_sum else [*positive, *negative]:
        rest = [(p, n) for p, n in terms if p != own]
        if len(own) != 1 or any(own[0] in p for p, _ in rest) or any(n % number for _, n in rest):
            continue
        yield own[0], Size.of({p: -n // number for p, n in rest})


def _without_common_symbols(size: Size) -> Size:
    """Divide a size that is zero by the symbols of all its terms, which are not."""
    for symbol in dict.fromkeys(size.terms[0][0] if size.terms else ()):
        while (divided := size.over(Size.symbol(symbol))) is not None:
            size = divided
    return size


def _without(symbols: Product, some: Product) -> Product | None:
    """Remove symbols, each once; None where one is not there."""
    left = list(symbols)
    for symbol in some:
        if symbol not in left:
            return None
        left.remove(symbol)
    return tuple(left)
