"""What each element of a row is, as a sum of products of other rows' elements and numbers.

Cuts, joins, exchanged halves, signs in tables and steps in place all come to the same sums, so that
a map of rows is recognised by what it does and not by how it is written.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.analysis.input_independent import Known
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.match.pattern import Source
from kernelwright.ir.match.placement import (
    Placement,
    View,
    broadcast_placement,
    composed,
    in_steps,
)
from kernelwright.ir.ops import reduced_axes
from kernelwright.ir.ops.axes import slices

Element = tuple[View, int]
"""A value with where each row begins in it, and the place in the row."""
Monomial = tuple[Element, ...]
Sum = dict[Monomial, float]
"""Coefficients of products of elements."""
Indices = NDArray[np.int64]
_MOST_TERMS = 4
_MOST_FACTORS = 2
"""An element and one of a table; what has more is what is turned, as a whole."""
_PAIR = 2
_SHOWING = frozenset({"cast", "reshape", "slice", "broadcast"})
_SIGNS = frozenset({-1.0, 0.0, 1.0})
LONGEST_ROW = 512
_WIDEST_MATRIX = 256


@dataclass
class RowMaps:
    """Reads the values of one graph; `names` says which value stands for a value that is read.

    Where maps are exact, a value is what it is read as in every bit, but for the sign of a zero:
    what is rounded by a cast stands for itself, and so does what a zero is multiplied by.
    """

    graph: Graph
    plain: Source
    names: Source
    is_exact: bool = False
    _known: Known = field(init=False)
    _read: dict[tuple[ValueId, int], list[Sum]] = field(default_factory=dict)
    _wholes: set[ValueId] = field(default_factory=set)
    """Products that stand for themselves."""

    def __post_init__(self) -> None:
        self._known = Known(self.graph)

    def row(self, value: ValueId, axes: int = 1) -> list[Sum]:
        """Return what each element of the last axes of a value is."""
        key = (value, axes)
        if key not in self._read:
            self._read[key] = self._row(value, axes)
        return self._read[key]

    def _row(self, value: ValueId, axes: int) -> list[Sum]:
        shape = self.plain.type(value).shape
        count = math.prod(shape[len(shape) - axes :])
        if (numbers := self._numbers(value, count)) is not None:
            return [{(): number} if number else {} for number in numbers]
        node = None if value in self._wholes else self.plain.node(value)
        found = None if node is None or count > LONGEST_ROW else self._made(node, shape, axes)
        if found is not None:
            return found
        rows = in_steps(math.prod(shape) // max(count, 1), count)
        view = self.names.base(value), rows
        return [{((view, place),): 1.0} for place in range(count)]

    def is_small_known(self, matrix: ValueId) -> bool:
        """Say whether a value is one matrix of some rows that hangs on no input."""
        shape = self.plain.type(matrix).shape
        return len(shape) == 2 and max(shape) <= _WIDEST_MATRIX and self._known.has(matrix)

    def _numbers(self, value: ValueId, count: int) -> Sequence[float] | None:
        """Return the numbers of a row that hangs on no input and is the same everywhere.

        They say which elements a row takes, and their signs; others are a table, however it came.
        """
        type_ = self.plain.type(value)
        if (held := self.plain.number(value)) is not None:
            return [held] * count
        if type_.size != count or count > LONGEST_ROW or type_.dtype.is_complex:
            return None
        if not self._known.has(value):
            return None
        numbers = [float(number) for number in self._known.value(value).reshape(-1)]
        is_table = len(set(numbers)) > 1 and not _SIGNS.issuperset(numbers)
        # The weight of a norm is all ones before training, and a bias all zeros.
        is_weight = len(set(numbers)) == 1 and value in self._held
        return None if is_table or is_weight else numbers

    @cached_property
    def _held(self) -> frozenset[ValueId]:
        """Values that hang on an array that the graph has captured."""
        held = {v for v, constant in self.graph.constants if constant.type.size > 1}
        for node in self.graph.nodes:
            if held.intersection(node.inputs):
                held.update(node.outputs)
        return frozenset(held)

    def _made(self, node: Node, shape: tuple[int, ...], axes: int) -> list[Sum] | None:
        match node.op:
            case "cast" if not self.is_exact and self.plain.type(node.inputs[0]).dtype.is_float:
                return self.row(node.inputs[0], axes)
            case "negative":
                return [_scaled(terms, -1.0) for terms in self.row(node.inputs[0], axes)]
            case "add" | "subtract" | "multiply":
                return self._computed(node, axes)
            case "broadcast" | "reshape" | "slice" | "concatenate" | "slice_update":
                return self._moved(node, shape, axes)
            case "select":
                return self._chosen(node, axes)
            case "transpose":
                return self._exchanged(node, axes)
            case "matmul" if axes == 1 and not self.is_exact:
                return self._multiplied(*node.inputs)
            case "matmul" if not self.is_exact and adds_pairs(self.plain, node):
                return self._by_matrices(node, axes)
            case "sum" if adds_pairs(self.plain, node):
                return self._summed(node, axes)
        return None

    def _by_matrices(self, node: Node, axes: int) -> list[Sum] | None:
        """Read products of matrices whose elements are sums of two products."""
        one, other = (_places(self.plain.type(v).shape[-axes:]) for v in node.inputs)
        rows = [self.row(v, axes) for v in node.inputs]
        if any(map(self._scales, rows)):
            return None
        pairs = []
        for k in range(_PAIR):
            places = np.broadcast_arrays(one[..., :, k, None], other[..., k, None, :])
            shown = (_at(row, at) for row, at in zip(rows, places, strict=True))
            pairs.append([_product(a, b) for a, b in zip(*shown, strict=True)])
        found = [_total(a, b) for a, b in zip(*pairs, strict=True)]
        return found if all(map(_is_short, found)) else None

    def _summed(self, node: Node, axes: int) -> list[Sum] | None:
        """Read sums of two elements each of a row."""
        call = self.plain.call(node)
        (axis,), shape = reduced_axes(call), call.inputs[0].shape
        lead = len(shape) - axes
        if axis < lead:
            return None
        row = self.row(node.inputs[0], axes)
        pair = [_at(row, at) for at in np.moveaxis(_places(shape[lead:]), axis - lead, 0)]
        if self.is_exact and self._loses_terms("add", pair):
            return None
        found = [_total(a, b) for a, b in zip(*pair, strict=True)]
        is_turned = all(map(_is_short, found)) and not any(map(_adds_elements, found))
        return found if is_turned else None

    def _multiplied(self, value: ValueId, matrix: ValueId) -> list[Sum] | None:
        """Read a product with a known matrix that only moves elements and turns their signs."""
        if not self.is_small_known(matrix):
            return None
        numbers = self._known.value(matrix)
        if np.count_nonzero(numbers, axis=0).max(initial=0) > 1:
            return None
        row = self.row(value)
        places = np.abs(numbers).argmax(axis=0)
        return [_scaled(row[i], float(numbers[i, j])) for j, i in enumerate(places)]

    def _chosen(self, node: Node, axes: int) -> list[Sum] | None:
        """Read a choice that is the same for all rows."""
        shown, *others = (self.row(v, axes) for v in node.inputs)
        if any(terms.keys() - {()} for terms in shown):
            return None
        return [a if terms else b for terms, a, b in zip(shown, *others, strict=True)]

    def _computed(self, node: Node, axes: int) -> list[Sum] | None:
        rows = [self.row(v, axes) for v in node.inputs]
        if node.op == "multiply" and any(map(self._scales, rows)):
            # What a norm or a scale makes of a row is turned as a whole: it stands for itself.
            return None
        if self.is_exact and self._loses_terms(node.op, rows):
            return None
        pairs = zip(*rows, strict=True)
        join = _product if node.op == "multiply" else _total
        sign = -1.0 if node.op == "subtract" else 1.0
        found = [join(left, _scaled(right, sign)) for left, right in pairs]
        if node.op != "multiply" and any(map(_adds_elements, found)):
            # What a bias or a residual is added to is turned as a whole, too.
            return None
        if all(map(_is_short, found)):
            return found
        products = {v for v in map(self._product_below, node.inputs) if v is not None}
        if node.op != "multiply" or products <= self._wholes:
            return None
        # What is multiplied once more is a scaled row, as a norm's by its weight.
        self._wholes |= products
        self._read.clear()
        return self._computed(node, axes)

    @staticmethod
    def _loses_terms(op: str, rows: Sequence[Sequence[Sum]]) -> bool:
        """Say whether an infinity would be lost: times zero, or taken from itself."""
        if op == "multiply":
            return not all(terms for row in rows for terms in row)
        return any(one.keys() & other.keys() for one, other in zip(*rows, strict=True))

    def _product_below(self, value: ValueId) -> ValueId | None:
        """Return the product that a value shows, or shows parts of."""
        node = self.plain.node(value)
        while node is not None and node.op in _SHOWING:
            value, node = node.inputs[0], self.plain.node(node.inputs[0])
        return value if node is not None and node.op == "multiply" else None

    @staticmethod
    def _scales(row: Sequence[Sum]) -> bool:
        """Say whether a row is a norm's or a scale's: one element all along, or no mere signs."""
        is_known = all(terms.keys() <= {()} for terms in row)
        sizes = {abs(number) for terms in row for number in terms.values()}
        if is_known:
            return not sizes <= {1.0}
        return len(row) > 1 and all(terms == row[0] for terms in row)

    def _moved(self, node: Node, shape: tuple[int, ...], axes: int) -> list[Sum] | None:
        tail, lead = shape[len(shape) - axes :], len(shape) - axes
        source = self.plain.type(node.inputs[0]).shape
        if node.op == "broadcast":
            inner = len(source) - min(axes, len(source))
            places = np.broadcast_to(_places(source[inner:]), tail)
            row = self._taken(node.inputs[0], len(source) - inner, places)
            return _repeated(row, broadcast_placement(source[:inner], shape[:lead]))
        if node.op == "reshape":
            taken = _trailing(source, math.prod(tail))
            return None if taken is None else self.row(node.inputs[0], taken)
        if node.op == "concatenate":
            return self._joined(node, lead, axes)
        cut = slices(self.plain.call(node))
        if any(range(n)[s] != range(n) for n, s in zip(source[:lead], cut[:lead], strict=True)):
            return None
        if node.op == "slice":
            return self._taken(node.inputs[0], axes, _places(source[lead:])[cut[lead:]])
        return self._updated(node, axes, _places(tail)[cut[lead:]])

    def _exchanged(self, node: Node, axes: int) -> list[Sum] | None:
        """Read rows whose own axes are exchanged, as those of a matrix a pair."""
        order, shape = self.plain.call(node).integers("axes"), self.plain.type(node.inputs[0]).shape
        lead = len(shape) - axes
        if order[:lead] != tuple(range(lead)):
            return None
        inner = [axis - lead for axis in order[lead:]]
        return self._taken(node.inputs[0], axes, _places(shape[lead:]).transpose(inner))

    def _taken(self, value: ValueId, axes: int, places: Indices) -> list[Sum]:
        return _at(self.row(value, axes), places)

    def _joined(self, node: Node, lead: int, axes: int) -> list[Sum] | None:
        axis = node.attribute("axis")
        assert isinstance(axis, int)
        if axis < lead:
            return None
        rows: list[Sum] = []
        parts: list[Indices] = []
        for value in node.inputs:
            parts.append(_places(self.plain.type(value).shape[lead:]) + len(rows))
            rows += self.row(value, axes)
        return [rows[place] for place in np.concatenate(parts, axis=axis - lead).reshape(-1)]

    def _updated(self, node: Node, axes: int, places: Indices) -> list[Sum] | None:
        update = self.plain.type(node.inputs[1]).shape
        way = node.attribute("reduce")
        if way not in ("none", "sum") or update[len(update) - axes :] != places.shape:
            return None
        row = list(self.row(node.inputs[0], axes))
        for place, terms in zip(places.reshape(-1), self.row(node.inputs[1], axes), strict=True):
            row[place] = _total(row[place], terms) if way == "sum" else terms
        return row


def adds_pairs(source: Source, node: Node) -> bool:
    """Say whether a sum or a product of matrices adds two terms for each element."""
    shapes = [source.type(v).shape for v in node.inputs]
    if node.op == "matmul":
        return shapes[0][-1:] == (_PAIR,) and shapes[0][:-2] == shapes[1][:-2]
    return node.op == "sum" and [shapes[0][a] for a in reduced_axes(source.call(node))] == [_PAIR]


def _at(row: list[Sum], places: Indices) -> list[Sum]:
    return [row[place] for place in places.reshape(-1)]


def _repeated(row: Sequence[Sum], rows: Placement) -> list[Sum] | None:
    """Return a row of what repeats whole rows; None where their places are no even steps."""
    views = {view for terms in row for key in terms for view, _ in key}
    moved = {view: composed(rows, view[1]) for view in views}
    known = {view: (view[0], places) for view, places in moved.items() if places is not None}
    if len(known) < len(moved):
        return None
    found: list[Sum] = []
    for terms in row:
        renamed: Sum = {}
        for key, number in terms.items():
            # Rows that were told apart may be one where a single one is left.
            at = tuple(sorted((known[view], i) for view, i in key))
            renamed = _total(renamed, {at: number})
        found.append(renamed)
    return found


def _places(shape: tuple[int, ...]) -> Indices:
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)


def _trailing(shape: tuple[int, ...], count: int) -> int | None:
    """Return how many of the last axes hold as many elements as a row, axes of one among them."""
    every = range(len(shape), 0, -1)
    return next((axes for axes in every if math.prod(shape[len(shape) - axes :]) == count), None)


def _scaled(terms: Sum, factor: float) -> Sum:
    if factor == 1.0:
        return terms
    return {key: factor * number for key, number in terms.items()} if factor else {}


def _total(left: Sum, right: Sum) -> Sum:
    found = {**left, **right}
    if len(found) == len(left) + len(right):
        return found
    for key in left.keys() & right.keys():
        found[key] += left[key]
    return {key: number for key, number in found.items() if number}


def _product(left: Sum, right: Sum) -> Sum:
    found: Sum = {}
    for one, a in left.items():
        for other, b in right.items():
            key = tuple(sorted((*one, *other)))
            found[key] = found.get(key, 0.0) + a * b
    return {key: number for key, number in found.items() if number}


def _adds_elements(terms: Sum) -> bool:
    """Say whether terms are elements that no table multiplies, several or beside a number."""
    is_several = len(terms) > 1 or not _SIGNS.issuperset(terms.values())
    return is_several and any(terms) and all(len(key) < _MOST_FACTORS for key in terms)


def _is_short(terms: Sum) -> bool:
    return len(terms) <= _MOST_TERMS and all(len(key) <= _MOST_FACTORS for key in terms)
