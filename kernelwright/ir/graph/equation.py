"""How dimensions follow from each other, found by unification."""

from collections.abc import Iterator, Mapping

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.dimension import Size, product, total


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
        if pairs := self._paired(left, right):
            for later, earlier in pairs:
                self._bind(later, Size.symbol(earlier), why)
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

    def _paired(self, left: Size, right: Size) -> list[tuple[int, int]]:
        """Return symbols, each with an earlier one that it is to equal for two sizes to be equal.

        Such as those of `past_keys + new_keys` and `past_values + new_values`, which have the same
        sizes part by part. Other sizes with the same sum are given up. Nothing where parts differ.
        """
        ones, others = set(left.symbols), set(right.symbols)
        free, pairs = sorted(others - ones), list[tuple[int, int]]()
        for symbol in sorted(ones - others):
            same = next((o for o in free if self._seen[o] == self._seen[symbol]), None)
            if same is not None:
                free.remove(same)
                pairs.append((max(symbol, same), min(symbol, same)))
        renamed = dict(pairs)
        return pairs if _renamed(left, renamed) == _renamed(right, renamed) else []

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


def _renamed(size: Size, names: Mapping[int, int]) -> Size:
    """Replace some symbols by others."""
    terms = (
        product((Size.number(n), *(Size.symbol(names.get(s, s)) for s in symbols)))
        for symbols, n in size.terms
    )
    return total(tuple(terms))


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
