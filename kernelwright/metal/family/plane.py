"""Rows and columns of one matrix: what is reduced along both, and what follows from that.

A graph of that kind is computed in three parts. The first walks over bands of rows, reduces each
row, and leaves what the columns of each band join to. The second joins the bands. The third, where
there is one, computes the outputs that wait for whole columns.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelwright.ir.graph import Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, mean_divisor, op_named
from kernelwright.metal.family.reducer import REDUCERS
from kernelwright.metal.family.row_value import shared_values

JOINED = {**{op: op for op in REDUCERS}, "mean": "sum"}
"""What joins the columns of bands, by what reduces a column."""
_SHORTEST, _LONGEST = 32, 16384
"""Columns that lanes take side by side, and columns whose results still fit their registers."""
_FEWEST_ROWS = 32


@dataclass(frozen=True)
class Part:
    """A graph of its own, and the values of the whole graph that it reads and writes."""

    graph: Graph
    reads: tuple[ValueId, ...]
    writes: tuple[ValueId, ...]
    outputs: int = 0
    """How many of what it writes, the first ones, are outputs of the whole graph."""


@dataclass(frozen=True)
class Plane:
    """A graph that reduces `rows` x `columns` matrices, `planes` of them, along both axes."""

    graph: Graph
    planes: int
    rows: int
    columns: int
    of_rows: tuple[ValueId, ...]
    """What reduces rows before any column is known."""
    of_columns: tuple[ValueId, ...]
    """What reduces columns."""

    def bands(self) -> Part:
        """Return what walks over the rows; for a column's result it has what is reduced."""
        sources = [self._node(v).inputs[0] for v in self.of_columns]
        early = [v for v in self.graph.outputs if v not in self.waiting]
        copy = _Copy(self.graph, self.graph.inputs)
        results = [copy.value(v) for v in early]
        results += [copy.widened(v) for v in self.kept_rows]
        results += [copy.value(v) for v in sources]
        writes = (*early, *self.kept_rows, *self.of_columns)
        return copy.finish(results, writes, len(early))

    def joined(self, bands: int) -> Part:
        """Return what joins bands; it reads an array (planes, bands, columns) for each result."""
        copy = _Copy(self.graph, self.graph.inputs)
        parts = [copy.builder.value(self.part_type(v, bands)) for v in self.of_columns]
        for value, part in zip(self.of_columns, parts, strict=True):
            copy.made[value] = self._whole(copy, value, part)
        written = [v for v in self.graph.outputs if self._is_of_columns(v)]
        results = [copy.value(v) for v in written]
        results += [copy.widened(v) for v in self.kept_columns]
        read = dict(zip(parts, self.of_columns, strict=True))
        return copy.finish(results, (*written, *self.kept_columns), len(written), read)

    def rest(self) -> Part | None:
        """Return what computes the outputs that wait for columns and hold more than those."""
        if not self._late:
            return None
        given = (*self.of_rows, *self.of_columns, *self.kept_rows, *self.kept_columns)
        copy = _Copy(self.graph, (*self.graph.inputs, *given))
        results = [copy.value(v) for v in self._late]
        return copy.finish(results, tuple(self._late), len(self._late))

    def part_type(self, value: ValueId, bands: int) -> TensorType:
        """Return the type of what the bands leave of a column's result."""
        return TensorType((self.planes, bands, self.columns), _wide(self.graph.types[value].dtype))

    @cached_property
    def kept_rows(self) -> tuple[ValueId, ...]:
        """What rows reduce to, or make of that, which is read after the columns are known."""
        return self._kept(self.of_rows)

    @cached_property
    def kept_columns(self) -> tuple[ValueId, ...]:
        """What columns reduce to, or make of that, which is read after the bands are joined."""
        return self._kept(self.of_columns)

    def _kept(self, reduced: Sequence[ValueId]) -> tuple[ValueId, ...]:
        if not reduced or not self._late:
            return ()
        return tuple(shared_values(self.graph, reduced, self.graph.inputs, self._late))

    @property
    def _late(self) -> list[ValueId]:
        waiting = [v for v in self.graph.outputs if v in self.waiting]
        return [v for v in waiting if not self._is_of_columns(v)]

    @cached_property
    def waiting(self) -> frozenset[ValueId]:
        """What waits for columns, those included."""
        return _depending(self.graph, self.of_columns)

    def _is_of_columns(self, value: ValueId) -> bool:
        """Say whether an output has one element a column, made of nothing else."""
        if value not in self.waiting or self.graph.types[value].size != self.planes * self.columns:
            return False
        needed = _needed(self.graph, [value], self.of_columns)
        return not any(op_named(n.op).kind is Kind.REDUCTION for n in needed)

    def _node(self, value: ValueId) -> Node:
        return self.graph.nodes[self.graph.producer_of[value]]

    def _whole(self, copy: "_Copy", value: ValueId, part: ValueId) -> ValueId:
        node, type_ = self._node(value), self.graph.types[value]
        wide = copy.builder.types[part].dtype
        shape = TensorType((self.planes, 1, self.columns), wide)
        (whole,) = copy.builder.add(JOINED[node.op], [part], [shape], [("axes", (1,))])
        if node.op == "mean":
            divisor = mean_divisor(Call.of(self.graph, node))
            number = copy.builder.constant(Constant.of(np.array(divisor, wide.numpy), wide))
            spread = copy.builder.apply("broadcast", number, shape=shape.shape)
            whole = copy.builder.apply("divide", whole, spread)
        whole = copy.builder.apply("reshape", whole, shape=type_.shape)
        return copy.narrowed(whole, type_)


def plane_of(graph: Graph) -> Plane | None:
    """Return the rows and columns that a graph reduces, or None where it does other things."""
    found = [n for n in graph.nodes if op_named(n.op).kind is Kind.REDUCTION]
    blocks = {n.outputs[0]: _block(graph, n) for n in found}
    if len(found) < 2 or None in blocks.values():
        return None
    columns = {b for b in blocks.values() if b is not None and b[2] > 1}
    rows = {b[:2] for b in blocks.values() if b is not None and b[2] == 1}
    if len(columns) != 1 or len(rows) != 1:
        return None
    ((planes, height, width),) = columns
    if rows != {(planes * height, width)} or height < _FEWEST_ROWS:
        return None
    if not _SHORTEST <= width <= _LONGEST:
        return None
    of_columns = tuple(v for v, b in blocks.items() if b is not None and b[2] > 1)
    after = _depending(graph, of_columns)
    of_rows = tuple(v for v, b in blocks.items() if b is not None and b[2] == 1 and v not in after)
    plane = Plane(graph, planes, height, width, of_rows, of_columns)
    return plane if _is_whole(plane, found) else None


def _is_whole(plane: Plane, reductions: Sequence[Node]) -> bool:
    """Say whether the parts hold all that a graph computes, each in a single step."""
    graph, elements = plane.graph, plane.planes * plane.rows * plane.columns
    for node in reductions:
        if graph.types[node.outputs[0]].dtype.itemsize > Dtype.FLOAT32.itemsize:
            return False
        if node.outputs[0] not in plane.of_columns:
            continue
        is_second = not plane.waiting.isdisjoint(node.inputs)
        if node.op not in JOINED or is_second or graph.types[node.inputs[0]].size != elements:
            return False
    rows = plane.planes * plane.rows
    return all(graph.types[v].size == rows for v in plane.kept_rows)


def _block(graph: Graph, node: Node) -> tuple[int, int, int] | None:
    """Return the sizes before, along and behind what a node reduces, if that is one block."""
    call = Call.of(graph, node)
    shape = call.inputs[0].shape
    if node.op in ("softmax", "logsumexp"):
        axes: tuple[int, ...] = (len(shape) - 1,)
    elif "axes" in call.attributes:
        axes = call.integers("axes")
    else:
        axes = (call.integer("axis") % len(shape),)
    real = [a for a in axes if shape[a] != 1]
    if not real or any(shape[a] != 1 and a not in axes for a in range(min(real), max(real))):
        return None
    first, last = min(real), max(real) + 1
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def _depending(graph: Graph, values: Sequence[ValueId]) -> frozenset[ValueId]:
    """Return values and all that is made of them."""
    found = set(values)
    for node in graph.nodes:
        if found.intersection(node.inputs):
            found.update(node.outputs)
    return frozenset(found)


def _needed(graph: Graph, wanted: Sequence[ValueId], given: Sequence[ValueId]) -> list[Node]:
    """Return the nodes that make some values from given ones."""
    waiting, known = list(wanted), set(given)
    nodes: set[int] = set()
    while waiting:
        value = waiting.pop()
        index = graph.producer_of.get(value)
        if value in known or index is None:
            continue
        known.add(value)
        nodes.add(index)
        waiting += graph.nodes[index].inputs
    return [graph.nodes[i] for i in sorted(nodes)]


def _wide(dtype: Dtype) -> Dtype:
    return Dtype.FLOAT32 if dtype.is_float else dtype


class _Copy:
    """Copies what some values need of a graph. Between parts, results of reductions stay wide."""

    def __init__(self, graph: Graph, given: Sequence[ValueId]) -> None:
        self.builder = GraphBuilder(merge=True)
        self.made: dict[ValueId, ValueId] = {}
        self._graph, self._given = graph, frozenset(given)
        self._read: dict[ValueId, ValueId] = {}

    def widened(self, value: ValueId) -> ValueId:
        """Return the copy of a value as a part leaves it for another one."""
        copied, type_ = self.value(value), self._graph.types[value]
        wide = TensorType(type_.shape, _wide(type_.dtype))
        if wide == type_:
            return copied
        return self.builder.add("cast", [copied], [wide], [("dtype", wide.dtype)])[0]

    def narrowed(self, value: ValueId, type_: TensorType) -> ValueId:
        """Return a wide value as the graph has it; it is not rounded."""
        if self.builder.types[value].dtype is type_.dtype:
            return value
        return self.builder.add("cast", [value], [type_], [("dtype", type_.dtype)])[0]

    def finish(
        self,
        results: Sequence[ValueId],
        writes: tuple[ValueId, ...],
        outputs: int,
        arrays: Mapping[ValueId, ValueId] | None = None,
    ) -> Part:
        """Return the part; `arrays` are what bands left, beside values of the graph."""
        read = dict(arrays or {}) | {made: value for value, made in self._read.items()}
        used = set(results)
        for node in reversed(self.builder.nodes):
            if used.intersection(node.outputs):
                used.update(node.inputs)
        inputs = [v for v in read if v in used]
        like = Graph(types=(), inputs=(), constants=(), nodes=(), outputs=())
        graph = self.builder.finish(inputs, results, like)
        return Part(graph, tuple(read[v] for v in inputs), writes, outputs)

    def value(self, wanted: ValueId) -> ValueId:
        """Return the copy of a value."""
        stops = [*self._given, *self.made]
        for node in _needed(self._graph, [wanted], stops):
            if node.outputs[0] not in self.made:
                types = [self._graph.types[v] for v in node.outputs]
                inputs = [self._operand(v) for v in node.inputs]
                made = self.builder.add(node.op, inputs, types, node.attributes)
                self.made.update(zip(node.outputs, made, strict=True))
        return self._operand(wanted)

    def _operand(self, value: ValueId) -> ValueId:
        if value not in self.made:
            type_ = self._graph.types[value]
            if value in self._graph.constant_of:
                self.made[value] = self.builder.constant(self._graph.constant_of[value])
            else:
                is_input = value in self._graph.inputs
                stored = type_ if is_input else TensorType(type_.shape, _wide(type_.dtype))
                read = self.builder.value(stored)
                self._read[value] = read
                self.made[value] = self.narrowed(read, type_)
        return self.made[value]
