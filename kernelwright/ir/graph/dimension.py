"""Sizes as monomials over free dimensions: a number times a product of names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Size:
    """`factor` times the product of `symbols`, which are sorted and may repeat."""

    factor: int
    symbols: tuple[int, ...] = ()

    def __mul__(self, other: "Size") -> "Size":
        """Multiply two sizes."""
        return Size(self.factor * other.factor, tuple(sorted(self.symbols + other.symbols)))

    def over(self, other: "Size") -> "Size | None":
        """Divide exactly, or return None."""
        left = list(self.symbols)
        for symbol in other.symbols:
            if symbol not in left:
                return None
            left.remove(symbol)
        if other.factor == 0 or self.factor % other.factor:
            return None
        return Size(self.factor // other.factor, tuple(left))


ONE = Size(1)


def product(sizes: tuple[Size, ...]) -> Size:
    """Multiply sizes."""
    result = ONE
    for size in sizes:
        result = result * size
    return result


class Equations:
    """Which dimensions have to be equal, found by unification.

    Every symbol stands for one dimension that was seen with a concrete size. Solving two
    sizes as equal binds a lone symbol to the other side; sizes that can never be equal except
    at the captured shape pin their symbols to what they were.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._bound: dict[int, Size] = {}
        self._meanings: dict[int, Size] = {}
        """What symbols come to in the end, by the bindings of the moment."""
        self._why: dict[int, str] = {}

    def symbol(self, size: int) -> Size:
        """Return a new unknown that was `size` at capture; sizes of one and zero are fixed."""
        if size <= 1:
            return Size(size)
        self._seen.append(size)
        return Size(1, (len(self._seen) - 1,))

    def resolved(self, size: Size) -> Size:
        """Replace bound symbols by what they are bound to."""
        if not any(s in self._bound for s in size.symbols):
            return size
        result = Size(size.factor)
        for symbol in size.symbols:
            result = result * self._meaning(symbol)
        return result

    def _meaning(self, symbol: int) -> Size:
        """Return what a symbol is bound to in the end, itself where it is free."""
        if (known := self._meanings.get(symbol)) is not None:
            return known
        # Chains are as long as graphs are deep: no recursion from one symbol to the next.
        chain, bound = [symbol], self._bound.get(symbol)
        while bound is not None and bound == Size(1, bound.symbols[:1]) and bound.symbols:
            chain.append(bound.symbols[0])
            bound = self._bound.get(chain[-1])
        found = Size(1, (chain[-1],)) if bound is None else self.resolved(bound)
        self._meanings.update(dict.fromkeys(chain, found))
        return found

    def captured(self, size: Size) -> int:
        """Return what a size was at capture."""
        return size.factor * math.prod(self._seen[s] for s in size.symbols)

    def equate(self, left: Size, right: Size, why: str) -> None:
        """Require two sizes to be equal."""
        left, right = self.resolved(left), self.resolved(right)
        common = [s for s in left.symbols if s in right.symbols]
        for symbol in dict.fromkeys(common):
            while symbol in left.symbols and symbol in right.symbols:
                shared = Size(1, (symbol,))
                left, right = left.over(shared) or left, right.over(shared) or right
        if left == right:
            return
        for alone, other in ((left, right), (right, left)):
            if len(alone.symbols) == 1 and other.factor % alone.factor == 0:
                self._bind(alone.symbols[0], Size(other.factor // alone.factor, other.symbols), why)
                return
        for size in (left, right):
            self.pin(size, why)

    def pin(self, size: Size, why: str) -> None:
        """Fix every symbol of a size to what it was at capture."""
        for symbol in self.resolved(size).symbols:
            self._bind(symbol, Size(self._seen[symbol]), why)

    def _bind(self, symbol: int, size: Size, why: str) -> None:
        if not size.symbols:
            self._why[symbol] = why
        self._bound[symbol] = size
        self._meanings.clear()

    def reason(self, size: Size) -> str:
        """Say why a size is fixed, as far as it is known."""
        for symbol in size.symbols:
            while symbol in self._bound:
                if symbol in self._why:
                    return self._why[symbol]
                inner = self._bound[symbol].symbols
                if not inner:
                    break
                symbol = inner[0]
        return ""

    def evaluated(self, size: Size, chosen: Mapping[int, int]) -> int:
        """Return a size with some free symbols set, the others as captured."""
        resolved = self.resolved(size)
        return resolved.factor * math.prod(chosen.get(s, self._seen[s]) for s in resolved.symbols)

    def solve(self, size: Size, wanted: int) -> tuple[int, int]:
        """Return the symbol, and its value, that make a size what is wanted.

        Raises:
            UnsupportedError: the size is fixed, or no whole number does it.
        """
        resolved = self.resolved(size)
        if len(resolved.symbols) != 1:
            reason = self.reason(size) or "it depends on several dimensions"
            raise UnsupportedError(f"it cannot change: {reason}")
        if wanted % resolved.factor:
            raise UnsupportedError(f"it has to be a multiple of {resolved.factor}")
        return resolved.symbols[0], wanted // resolved.factor
