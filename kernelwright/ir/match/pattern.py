"""A small language of patterns: ops, operands in either order, constants, and bound names.

    X = Bind("x")
    SILU = Made(("multiply",), (X, Made(("sigmoid",), (X,))))
    for found in matches(source, SILU, value):
        found.values["x"]

A `Source` decides what is looked through on the way from a value to what makes it: nothing, for
rewrites that keep every bit, or views and casts, for names that people give.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from types import MappingProxyType
from typing import Protocol

from kernelwright.ir.graph import Attribute, Node, TensorType, ValueId
from kernelwright.ir.match.placement import Rows
from kernelwright.ir.ops import op_named, reduced_axes
from kernelwright.ir.ops.op import Call


class Source(Protocol):
    """What patterns are matched against."""

    def base(self, value: ValueId) -> ValueId:
        """Return the value that stands for a value, so that equal ones are one."""
        ...

    def node(self, value: ValueId) -> Node | None:
        """Return the node that makes a value, if one does."""
        ...

    def row(self, value: ValueId) -> ValueId | None:
        """Return the value of one element a row that a value repeats, or None."""
        ...

    def number(self, value: ValueId) -> float | None:
        """Return the number that a value holds everywhere, if it is known."""
        ...

    def call(self, node: Node) -> Call:
        """Return a node's attributes and types."""
        ...

    def type(self, value: ValueId) -> TensorType:
        """Return the shape and dtype of a value."""
        ...


@dataclass(frozen=True)
class Found:
    """What a match bound to names."""

    values: Mapping[str, ValueId] = field(default_factory=lambda: MappingProxyType({}))
    rows: Mapping[str, Rows] = field(default_factory=lambda: MappingProxyType({}))

    def with_value(self, name: str, value: ValueId) -> "Found | None":
        """Bind a value; None where the name is bound to another one."""
        if self.values.get(name, value) != value:
            return None
        return Found({**self.values, name: value}, self.rows)

    def with_rows(self, name: str, rows: Rows) -> "Found | None":
        """Bind rows; None where the name is bound to others, which a reshape may have made."""
        if self.rows.get(name, rows).placement != rows.placement:
            return None
        return Found(self.values, {name: rows, **self.rows})


@dataclass(frozen=True)
class Bind:
    """Any value; the same one wherever the name occurs."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant of one number."""

    value: float
    rounded: float = 0.0
    """By which part of itself it may be off, as decimals that people write are."""


@dataclass(frozen=True)
class Row:
    """One element a row, repeated along the row where what reads it needs that."""

    pattern: "Pattern"


@dataclass(frozen=True)
class Either:
    """The first of several patterns that leads to a match of the whole."""

    patterns: "tuple[Pattern, ...]"

    def ways(self, op: str) -> "tuple[Pattern, ...]":
        """Return the patterns that a value may match that an op makes, '' for one that none does.

        Most values match none, which is quicker to see by the op than by its operands.
        """
        if op not in self._ways:
            self._ways[op] = tuple(_beginning_with(self, op))
        return self._ways[op]

    @cached_property
    def _ways(self) -> "dict[str, tuple[Pattern, ...]]":
        return {}


@dataclass(frozen=True)
class Made:
    """What one of some ops makes of its operands, in either order where the op commutes."""

    ops: tuple[str, ...]
    operands: "tuple[Pattern, ...]"
    name: str = ""
    """To bind what it makes to."""
    axes: str = ""
    """To bind the axes that it reduces to."""
    attributes: tuple[tuple[str, Attribute], ...] = ()
    """What the node has to have."""

    @cached_property
    def order(self) -> "tuple[tuple[Pattern, int], ...]":
        """Its operands with their places, mere names last: those match whatever is there."""
        return _names_last(self.operands)

    @cached_property
    def orders(self) -> "tuple[tuple[tuple[Pattern, int], ...], ...]":
        """The same for each distinct order of its operands, for ops that commute."""
        return tuple(map(_names_last, dict.fromkeys(permutations(self.operands))))


Pattern = Bind | Number | Row | Either | Made


def _names_last(operands: tuple[Pattern, ...]) -> tuple[tuple[Pattern, int], ...]:
    places = sorted(range(len(operands)), key=lambda place: isinstance(operands[place], Bind))
    return tuple((operands[place], place) for place in places)


def _beginning_with(pattern: Pattern, op: str) -> Iterator[Pattern]:
    match pattern:
        case Either(patterns):
            for one in patterns:
                yield from _beginning_with(one, op)
        case Made(ops):
            yield from (pattern,) if op in ops else ()
        case _:
            yield pattern


def match(source: Source, pattern: Pattern, value: ValueId) -> Found | None:
    """Return the first way in which a value matches a pattern, or None."""
    return next(matches(source, pattern, value), None)


def matches(
    source: Source, pattern: Pattern, value: ValueId, given: Found | None = None
) -> Iterator[Found]:
    """Yield every way in which a value matches a pattern, beside what is bound already."""
    known = given or Found()
    match pattern:
        case Bind(name):
            bound = known.with_value(name, source.base(value))
            yield from () if bound is None else (bound,)
        case Number(wanted, rounded):
            number = source.number(value)
            is_it = number is not None and abs(number - wanted) <= rounded * abs(wanted)
            yield from (known,) if is_it else ()
        case Row(inner):
            row = source.row(value)
            yield from () if row is None else matches(source, inner, row, known)
        case Either():
            made = source.node(value)
            for one in pattern.ways("" if made is None else made.op):
                yield from matches(source, one, value, known)
        case Made():
            yield from _made(source, pattern, value, known)


def match_node(source: Source, pattern: Made | Either, node: Node) -> Found | None:
    """Return the first way in which what a node makes matches, before it has a value."""
    patterns = pattern.patterns if isinstance(pattern, Either) else (pattern,)
    ways = (_of_node(source, p, node, Found()) for p in patterns if isinstance(p, Made))
    return next((found for way in ways for found in way), None)


def _made(source: Source, pattern: Made, value: ValueId, known: Found) -> Iterator[Found]:
    bound = known.with_value(pattern.name, source.base(value)) if pattern.name else known
    node = source.node(value)
    if node is not None and bound is not None:
        yield from _of_node(source, pattern, node, bound)


def _of_node(source: Source, pattern: Made, node: Node, known: Found) -> Iterator[Found]:
    if node.op not in pattern.ops or len(node.inputs) != len(pattern.operands):
        return
    if not set(pattern.attributes) <= set(node.attributes):
        return
    bound: Found | None = known
    if pattern.axes:
        call = source.call(node)
        rows = Rows(call.inputs[0].shape, reduced_axes(call))
        bound = known.with_rows(pattern.axes, rows)
    if bound is None:
        return
    is_commutative = op_named(node.op).is_commutative
    for order in pattern.orders if is_commutative else (pattern.order,):
        pairs = tuple((operand, node.inputs[place]) for operand, place in order)
        yield from _operands(source, pairs, bound)


def _operands(
    source: Source, pairs: tuple[tuple[Pattern, ValueId], ...], known: Found
) -> Iterator[Found]:
    if not pairs:
        yield known
        return
    (pattern, value), *rest = pairs
    for found in matches(source, pattern, value, known):
        yield from _operands(source, tuple(rest), found)
