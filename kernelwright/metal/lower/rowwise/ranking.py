"""Ranks of a row as text: each is found among what comes after the one before it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelwright.metal.kernel_ir.expression import Expr, OrderStat
from kernelwright.metal.lower.emit.accumulator import Team
from kernelwright.metal.lower.emit.layout import Walk, surround
from kernelwright.metal.lower.emit.run import Run
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.target.msl.spelling import MSL_TYPE

Prepare = Callable[[Writer], list[Run]]
"""Names what an element needs, and returns the runs that it reads."""


@dataclass
class Ranking:
    """The first few elements of a row, in the order of their keys.

    Elements are found in turn: the first of all that come after the last one found, so that
    nothing has to be marked or moved. A row is counted backwards where its largest come first.
    """

    writer: Writer
    ranked: Sequence[OrderStat]
    team: Team
    keys: str = ""
    """The register array that holds a lane's keys, with the place in it."""
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the variables that hold what was found."""
        for word in ("last", "next", "best", "place"):
            self.names[word] = self.writer.fresh(word)
        if any(not term.is_place for term in self.ranked):
            self.names["elements"] = self.writer.fresh("elements")
            self.writer.line(f"{self._kind} {self.names['elements']}[{self.count}];")
        if any(term.is_place for term in self.ranked):
            self.names["places"] = self.writer.fresh("places")
            self.writer.line(f"uint {self.names['places']}[{self.count}];")

    @property
    def key(self) -> Expr:
        """What elements are ordered by."""
        return self.ranked[0].key

    @property
    def count(self) -> int:
        """How many ranks are found."""
        return max(term.rank for term in self.ranked) + 1

    @property
    def is_largest_first(self) -> bool:
        """True where ranks count from the largest down, and equals from the last back."""
        return self.ranked[0].is_largest_first

    @property
    def _kind(self) -> str:
        return MSL_TYPE[self.key.dtype]

    @property
    def _columns(self) -> str:
        extent = self.ranked[0].axis.extent
        return self.writer.factors.get(extent, str(extent))

    @property
    def _before(self) -> str:
        return "ranks_above" if self.is_largest_first else "ranks_below"

    def keep(self, walk_: Walk, prepare: Prepare) -> None:
        """Compute a lane's keys once, and keep them."""
        name = self.writer.fresh("keys" if walk_.slot else "key")
        self.keys = f"{name}{walk_.slot}"
        if not walk_.is_straight:
            size = f"[{walk_.elements}]" if walk_.slot else ""
            self.writer.line(f"{self._kind} {name}{size};")

        def body(inner: Writer) -> list[Run]:
            runs = prepare(inner)
            kind = f"{self._kind} " if walk_.is_straight else ""
            inner.line(f"{kind}{self.keys} = {inner.expression(self.key).text};")
            return runs

        surround(self.writer, walk_.around, body)

    @contextmanager
    def each_rank(self) -> Iterator[None]:
        """Write the search for the next rank around the walk over the row."""
        writer, names = self.writer, self.names
        low, high = ("-INFINITY", "NAN")[:: 1 if self.is_largest_first else -1]
        writer.line(f"{self._kind} {names['last']} = {high};")
        writer.line(f"uint {names['next']} = 0;")
        with writer.block(f"for (uint j = 0; j < {self.count}; ++j)"):
            writer.line(f"{self._kind} {names['best']} = {low};")
            writer.line(f"uint {names['place']} = {self._columns};")
            yield
            self._agree()

    def consider(self, inner: Writer, walk_: Walk, prepare: Prepare) -> list[Run]:
        """Write what one element does to the best so far."""
        names, runs = self.names, list[Run]()
        key = self.keys
        if not key:
            runs = prepare(inner)
            key = inner.named(self.key)
        elif walk_.slot:
            inner.line(f"{self._kind} key = {self.keys};")
            key = "key"
        place = self.ranked[0].axis.name
        if self.is_largest_first:
            inner.line(f"uint turn = {self._columns} - 1 - {place};")
            place = "turn"
        is_left = f"{self._before}({names['last']}, {names['next']}, {key}, {place} + 1)"
        is_better = f"{self._before}({key}, {place}, {names['best']}, {names['place']})"
        with inner.block(f"if ({is_left} && {is_better})"):
            inner.line(f"{names['best']} = {key};")
            inner.line(f"{names['place']} = {place};")
        return runs

    def _agree(self) -> None:
        """Write how the lanes find the best of all, and keep it."""
        writer, names = self.writer, self.names
        best, place, last = names["best"], names["place"], names["last"]
        if self.team.lanes > 1:
            word = "simd_maximum" if self.is_largest_first else "simd_smallest"
            writer.line(f"{last} = {word}({best});")
            first = f"same({best}, {last}) ? {place} : {self._columns}"
            writer.line(f"{place} = metal::simd_min({first});")
        else:
            writer.line(f"{last} = {best};")
        writer.line(f"{names['next']} = {place} + 1;")
        if "elements" in names:
            writer.line(f"{names['elements']}[j] = {last};")
        if "places" in names:
            text = f"{self._columns} - 1 - {place}" if self.is_largest_first else place
            writer.line(f"{names['places']}[j] = {text};")

    def bind(self) -> None:
        """Say where each rank stands."""
        for term in self.ranked:
            array = self.names["places" if term.is_place else "elements"]
            self.writer.bind(term, f"{array}[{term.rank}]")
