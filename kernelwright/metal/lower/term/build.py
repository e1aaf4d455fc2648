"""From a graph to scalar terms: what one element of each value is made of."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kernelwright.errors import UnsupportedError
from kernelwright.ir.analysis.continuity import is_discontinuous
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.family.top_k import ranked_values
from kernelwright.metal.kernel_ir.expression import (
    Expr,
    ExprTable,
    Literal,
    Reducer,
    Scanner,
    computed,
)
from kernelwright.metal.kernel_ir.index import Axis, Index, Indirect, flatten, unflatten
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp, is_identity
from kernelwright.metal.lower.term.compared import compared_values, rounded_product
from kernelwright.metal.lower.term.indexing import INDEXED
from kernelwright.metal.lower.term.operator import NOUNS, intrinsic
from kernelwright.metal.lower.term.reduction import reduction
from kernelwright.metal.lower.term.shortcut import (
    NEUTRAL,
    is_place,
    shared_quotient,
    short_power,
    shorter,
    text_of,
)
from kernelwright.metal.lower.term.view import Coordinates, source_coordinates
from kernelwright.metal.target.msl.spelling import MSL_TYPE

REDUCED_AXIS = "column"
"""Name of the axis that every reduction runs over."""

_SCANNERS = {
    "cumsum": Scanner.SUM,
    "cumprod": Scanner.PRODUCT,
    "cummax": Scanner.MAXIMUM,
    "cummin": Scanner.MINIMUM,
    "logcumsumexp": Scanner.LOGSUMEXP,
}


@dataclass
class Builder:
    """Makes the term of any element of any value of a graph.

    `arrays` names the values that stand in memory, the graph's inputs among them.
    """

    graph: Graph
    arrays: dict[ValueId, str]
    terms: ExprTable = field(default_factory=ExprTable)
    spells_out: bool = False
    """True where a reduction over few elements is the expression that joins them."""
    made: dict[tuple[ValueId, Coordinates], Expr] = field(default_factory=dict)
    arms: list[tuple[Index, int, int]] = field(default_factory=list)
    """The arms of choices that are being built: places, with where each begins and stops."""

    def element(self, value: ValueId, coordinates: Coordinates) -> Expr:
        """Return the term of one element.

        Raises:
            UnsupportedError: an op on the way is not lowered.
        """
        shape = self.graph.types[value].shape
        places = tuple(Index() if n == 1 else c for c, n in zip(coordinates, shape, strict=True))
        key = (value, places)
        if key not in self.made:
            self.made[key] = self._make(value, places)
        return self.made[key]

    def _make(self, value: ValueId, places: Coordinates) -> Expr:
        type_ = self.graph.types[value]
        if value in self.arrays:
            offset = flatten(places, type_.shape)
            return self.terms.load(self.arrays[value], offset, type_.dtype)
        if value in self.graph.constant_of:
            return self._constant(value)
        node = self.graph.nodes[self.graph.producer_of[value]]
        call, op = Call.of(self.graph, node), op_named(node.op)
        if op.kind is Kind.ELEMENTWISE:
            return self._elementwise(node, places)
        if op.kind is Kind.VIEW:
            number = node.outputs.index(value)
            return self.element(node.inputs[0], source_coordinates(node.op, call, number, places))
        if op.kind is Kind.REDUCTION:
            return reduction(self, node, call, places)
        if op.kind is Kind.SCAN:
            return self._scan(node, call, places)
        if node.op in INDEXED:
            return INDEXED[node.op](self, node, call, places)
        raise UnsupportedError(f"{node.op} cannot be part of a fused kernel yet; leave it to MLX.")

    def _constant(self, value: ValueId) -> Expr:
        constant = self.graph.constant_of[value]
        if constant.type.size != 1:
            raise UnsupportedError(
                f"a constant of type {constant.type} cannot be written into a kernel; "
                "make it an input."
            )
        dtype = computed(constant.type.dtype)
        return self.terms.literal(literal(constant.array.reshape(-1)[0].item(), dtype), dtype)

    def number(self, value: float, dtype: Dtype) -> Expr:
        """Return a literal."""
        return self.terms.literal(literal(value, dtype), dtype)

    def _elementwise(self, node: Node, places: Coordinates) -> Expr:
        operands = tuple(self.element(v, places) for v in node.inputs)
        stored = self.graph.types[node.outputs[0]].dtype
        result = computed(stored)
        if node.op == "cast":
            return self._cast(operands[0], result)
        if node.op == "power" and (short := short_power(operands[1])):
            return self.apply(short, result, "power", operands[0])
        if self._forgives_roundings(stored) and (found := shorter(self, node.op, operands, stored)):
            return found
        if node.op == "divide" and (shared := shared_quotient(self, *operands)):
            return shared
        is_compared = result is Dtype.FLOAT32 and node.outputs[0] in self._compared
        if is_compared and (product := rounded_product(node.op, *operands)):
            return self.apply(product, result, "product", *operands)
        known = intrinsic(node.op, [operand.dtype for operand in operands], result, stored)
        name = NOUNS.get(node.op, "value")
        return self.apply(known.op, result, name, *operands, is_fast=known.is_fast)

    def _forgives_roundings(self, stored: Dtype) -> bool:
        """Say whether one rounding of float in a result that MLX stores so is seen nowhere."""
        return stored in (Dtype.FLOAT16, Dtype.BFLOAT16) and not self._has_jump

    @cached_property
    def _compared(self) -> frozenset[ValueId]:
        return compared_values(self.graph)

    @cached_property
    def _has_jump(self) -> bool:
        types = self.graph.types
        return any(
            is_discontinuous(self.graph, node) and any(types[v].dtype.is_float for v in node.inputs)
            for node in self.graph.nodes
        )

    def _cast(self, operand: Expr, result: Dtype) -> Expr:
        return self.apply(ScalarOp.CONVERT, result, "converted", operand)

    def apply(
        self, op: str, dtype: Dtype, name: str, *operands: Expr, is_fast: bool = False
    ) -> Expr:
        """Return an op over terms; one that changes nothing is its operand."""
        first, last = operands[0], (op, text_of(operands[-1]))
        if is_identity(op, operands[-1].dtype, dtype) or last in NEUTRAL:
            return first
        if last == (ScalarOp.ADD, "0.0f") and is_place(first):
            return first
        if last == (ScalarOp.MULTIPLY, "-1.0f"):
            return self.apply(ScalarOp.NEGATIVE, dtype, "opposite", first)
        return self.terms.apply(op, dtype, name, *operands, is_fast=is_fast)

    @cached_property
    def ranked(self) -> frozenset[ValueId]:
        """What is made of few ranked elements a row, each a term of its own."""
        return ranked_values(self.graph)

    @contextmanager
    def inside(self, *arms: tuple[Index, int, int]) -> Iterator[None]:
        """Say that what is built meanwhile is read only where places are inside of arms."""
        self.arms += arms
        yield
        del self.arms[len(self.arms) - len(arms) :]

    def _settled(self, places: Coordinates, column: Axis) -> Coordinates:
        """Return places as they are wherever the arms that are being built are taken.

        What a row shares stands at the same place for each of its columns, however its parts were
        moved there; trying every column is the proof.

        Raises:
            UnsupportedError: they do vary along the row.
        """
        # An arm that is taken nowhere has no columns: what it reads does not matter.
        columns = [c for c in range(column.extent) if self._is_taken(column, c)] or [0]
        found = {tuple(place.at(column, c) for place in places) for c in columns}
        if len(found) != 1:
            raise UnsupportedError(
                "a reduction whose result varies along another reduction's axis is not lowered "
                "yet; split the region there."
            )
        return found.pop()

    def _is_taken(self, column: Axis, value: int) -> bool:
        known = ((place.at(column, value).constant, low, stop) for place, low, stop in self.arms)
        return all(place is None or low <= place < stop for place, low, stop in known)

    def _scan(self, node: Node, call: Call, places: Coordinates) -> Expr:
        """Return a running value; a kernel reads it only at the place that it visits."""
        along = call.integer("axis") % len(places)
        axis = Axis(REDUCED_AXIS, self.graph.types[node.inputs[0]].shape[along])
        if places[along] != Index.of(axis):
            raise UnsupportedError(
                f"{node.op} is not read in the order in which it runs; split the region there."
            )
        return self.terms.scanned(
            _SCANNERS[node.op],
            self.element(node.inputs[0], places),
            axis,
            is_inclusive=call.flag("inclusive"),
            is_reverse=call.flag("reverse"),
        )

    def reduced_axis(self, length: int) -> tuple[Index, Axis]:
        """Return the place in a row that a reduction visits, and the axis that it runs over."""
        axis = Axis(REDUCED_AXIS, length)
        return Index.of(axis), axis

    def reduce(self, wanted: Expr) -> Expr:
        """Return what stands for a reduction: itself, unless somebody computed a part of it."""
        return wanted

    def visited(
        self, reducer: Reducer, source: ValueId, axes: tuple[int, ...], places: Coordinates
    ) -> tuple[Expr, Axis]:
        """Return what each step of a reduction takes in, and the axis of the steps."""
        return self.along(source, axes, places)

    def along(
        self, source: ValueId, axes: tuple[int, ...], places: Coordinates
    ) -> tuple[Expr, Axis]:
        """Return the element of `source` that a reduction over `axes` visits, and its axis."""
        shape = self.graph.types[source].shape
        visit, axis = self.reduced_axis(math.prod(shape[a] for a in axes))
        outer = tuple(p for i, p in enumerate(places) if i not in axes)
        for column in {a for place in outer for a in place.axes if a.name == axis.name}:
            settled = iter(self._settled(outer, column))
            places = tuple(p if i in axes else next(settled) for i, p in enumerate(places))
        ordered = sorted(axes)
        inner = dict(zip(ordered, unflatten(visit, [shape[a] for a in ordered]), strict=True))
        visited = tuple(inner.get(i, place) for i, place in enumerate(places))
        return self.element(source, visited), axis

    def dynamic(self, term: Expr, extent: int) -> Index:
        """Return a computed place below `extent`; a negative one counts from the end.

        Raises:
            UnsupportedError: the place is a number outside the array.
        """
        if isinstance(term, Literal):
            place = int(term.text.rstrip("ul"))
            if not -extent <= place < extent:
                raise UnsupportedError(
                    f"the place {place} is outside an axis of {extent}; leave the region to MLX."
                )
            return Index.of(place % extent)
        term = self.from_end(term, extent)
        return Index(((Indirect(term.number, extent, term.axes), 1),))

    def from_end(self, term: Expr, extent: int) -> Expr:
        """Return a computed place counted from the beginning; a negative one is from the end."""
        if not term.dtype.value.startswith("int"):
            return term
        length = self.terms.literal(str(extent), term.dtype)
        return self.apply(ScalarOp.FROM_END, term.dtype, "place", term, length)


def literal(value: float, dtype: Dtype) -> str:
    """Write a number as MSL of a computed dtype, exact to the last bit."""
    if dtype is Dtype.BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        if dtype.itemsize < 4:
            # A plain number is an int, and two types of integers make a call ambiguous.
            return f"{MSL_TYPE[dtype]}({int(value)})"
        suffix = {Dtype.UINT32: "u", Dtype.UINT64: "ul", Dtype.INT64: "l"}.get(dtype, "")
        return f"{int(value)}{suffix}"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = str(np.float32(value))
    return f"{text}f" if any(c in text for c in ".en") else f"{text}.0f"
