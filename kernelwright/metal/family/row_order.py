"""Whether what depends on reductions over trailing axes stays in its row, wherever rows move to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ops.axes import slices

Order = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""The transposes that rows went through, each as (sizes, axes): none where they stand in order."""

_FEWEST_ROWS, _LONGEST_ROW = 32, 4096
"""Rows below which, and elements of a row beyond which, lanes of one row leave a GPU idle."""


def crossing(graph: Graph, rows: int, length: int, given: Iterable[ValueId] = ()) -> str:
    """Name what takes a part of a row into another one, or joins rows in two orders, or nothing.

    Beside what reductions make, `given` values hold one element a row.
    """
    return _Rows(graph, rows, length, frozenset(given)).trouble()


def plain_rows(graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return a shape and the axes of its rows, where some outputs have one element for each row.

    Nothing is reduced there: what a row shares is computed once for it and written beside it.
    """
    sizes = sorted({t.size for t in graph.output_types})
    if len(sizes) != 2 or sizes[0] < _FEWEST_ROWS or sizes[1] % sizes[0]:
        return None
    rows, length = sizes[0], sizes[1] // sizes[0]
    shape = next(t.shape for t in graph.output_types if t.size == sizes[1])
    ends = [i for i in range(len(shape)) if math.prod(shape[:i]) == rows]
    single = [v for v in graph.outputs if graph.types[v].size == rows]
    lead = {_without_ones(graph.types[v].shape) for v in single}
    if not ends or lead != {_without_ones(shape[: ends[-1]])} or length > _LONGEST_ROW:
        return None
    if crossing(graph, rows, length, single):
        return None
    return shape, tuple(range(ends[-1], len(shape)))


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


@dataclass
class _Rows:
    """Follows what the reductions made, value by value."""

    graph: Graph
    rows: int
    length: int
    given: frozenset[ValueId] = frozenset()
    orders: dict[ValueId, Order] = field(default_factory=dict)

    def trouble(self) -> str:
        """Name what does not keep its row."""
        for node in self.graph.nodes:
            known = {self.orders[v] for v in node.inputs if v in self.orders}
            if len(known) > 1:
                return f"{node.op} joins rows that stand in two orders"
            order = next(iter(known), None)
            if op_named(node.op).kind is Kind.REDUCTION or self.given.intersection(node.outputs):
                order = order or ()
            elif order is not None and (reason := self._moved(node)):
                return reason
            if order is not None:
                order = self._turned(node, order)
                self.orders.update(dict.fromkeys(node.outputs, order))
        if len({self.orders[v] for v in self.graph.outputs if v in self.orders}) > 1:
            return "its outputs hold the same rows in two orders"
        return ""

    def _moved(self, node: Node) -> str:
        kind = op_named(node.op).kind
        if kind is Kind.ELEMENTWISE or self._keeps_rows(node):
            return ""
        if kind is Kind.INDEXING:
            return f"{node.op} takes what a reduction made into another row"
        before, after = (self.graph.types[v[0]].shape for v in (node.inputs, node.outputs))
        return f"{node.op} from {before} to {after} mixes rows"

    def _keeps_rows(self, node: Node) -> bool:
        call, rank = Call.of(self.graph, node), len(self.graph.types[node.inputs[0]].shape)
        before, after = call.inputs[0].shape, call.outputs[0].shape
        lead = self._lead(before)
        if node.op in ("gather_axis", "scatter_axis"):
            return call.integer("axis") % rank == rank - 1
        if node.op == "broadcast":
            return _fills_rows(before, after, self.rows, self.length)
        if lead is None or self._lead(after) is None:
            return False
        if node.op == "reshape":
            return True
        if node.op == "slice":
            whole = [slice(0, n, 1) for n in before[:lead]]
            return list(slices(call)[:lead]) == whole
        if node.op == "transpose":
            axes = call.integers("axes")
            return axes[lead:] == tuple(range(lead, rank))
        if node.op == "slice_update":
            whole = [slice(0, n, 1) for n in before[:lead]]
            return list(slices(call)[:lead]) == whole
        if node.op == "concatenate":
            leads = {self._lead(t.shape) for t in call.inputs}
            return leads == {lead} and call.integer("axis") >= lead
        return False

    def _lead(self, shape: tuple[int, ...]) -> int | None:
        """Count the axes over which the rows of an array run, if its rows are whole."""
        ends = (i for i in range(len(shape) + 1) if math.prod(shape[:i]) == self.rows)
        return next(ends, None)

    def _turned(self, node: Node, order: Order) -> Order:
        """Return the order of rows behind a node: only a transpose changes it."""
        if node.op != "transpose":
            return order
        shape = self.graph.types[node.inputs[0]].shape
        lead = self._lead(shape) or 0
        axes = Call.of(self.graph, node).integers("axes")[:lead]
        live = [a for a in axes if shape[a] != 1]
        return order if live == sorted(live) else (*order, (shape[:lead], axes))


def _fills_rows(before: tuple[int, ...], after: tuple[int, ...], rows: int, length: int) -> bool:
    """Say whether a broadcast repeats one value a row along its own row, and nothing else."""
    if math.prod(before) != rows or math.prod(after) not in (rows, rows * length):
        return False
    padded = (1,) * (len(after) - len(before)) + before
    for i in range(len(after) + 1):
        if math.prod(after[:i]) == rows and padded[:i] == after[:i]:
            return True
    return False
