"""Rows of which a few elements are ranked: what may stand around that in one kernel."""

import math
from dataclasses import dataclass, field

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ops.axes import slices

RANKED = frozenset({"sorted_slice", "argsorted_slice"})
"""Ops that take a few ranks of every row."""
MAX_RANKED = 8
"""Elements that a row may have where they are computed one by one, behind a ranking."""
LONGEST_ROW = 4096
"""Elements beyond which going over a row once a rank costs more than sorting it."""
_ROW_OPS = frozenset({"sum", "prod", "max", "min", "mean", "softmax", "logsumexp"})
"""Reductions of ranked elements that are written out."""


def is_ranked(graph: Graph) -> bool:
    """Say whether a graph takes ranks of rows."""
    return any(node.op in RANKED for node in graph.nodes)


def ranked_shape(graph: Graph) -> tuple[int, ...]:
    """Return the shape whose last axis is ranked."""
    return graph.types[next(n for n in graph.nodes if n.op in RANKED).inputs[0]].shape


def ranked_values(graph: Graph) -> frozenset[ValueId]:
    """Return what is made of ranked elements."""
    found: set[ValueId] = set()
    for node in graph.nodes:
        if node.op in RANKED or found.intersection(node.inputs):
            found.update(node.outputs)
    return frozenset(found)


def is_written_out(graph: Graph, node: Node, ranked: frozenset[ValueId]) -> bool:
    """Say whether a reduction is over few ranked elements, so that each is a term of its own."""
    columns = graph.types[node.inputs[0]].shape[-1]
    return node.inputs[0] in ranked and columns <= MAX_RANKED


def unfit(graph: Graph) -> str:
    """Say why a graph that ranks rows is not one row-wise kernel, or nothing."""
    shape = ranked_shape(graph)
    if shape[-1] > LONGEST_ROW:
        return f"rows of {shape[-1]} are ranked by sorting"
    return _Rows(graph, math.prod(shape[:-1]), shape[-1]).trouble()


@dataclass
class _Rows:
    """Follows what is computed, row by row."""

    graph: Graph
    rows: int
    columns: int
    made: set[ValueId] = field(default_factory=set)
    """What depends on a whole row."""
    ranked: frozenset[ValueId] = frozenset()

    def trouble(self) -> str:
        """Name what does not stay in its row."""
        self.ranked = ranked_values(self.graph)
        for node in self.graph.nodes:
            if reason := self._trouble_with(node):
                return reason
        for value in self.graph.outputs:
            size = self.graph.types[value].size
            allowed = (self.rows, self.rows * self.columns)
            if value in self.ranked and size <= self.rows * MAX_RANKED:
                continue
            if size not in allowed:
                return f"the output {self.graph.types[value]} is neither rows nor elements"
        return ""

    def _trouble_with(self, node: Node) -> str:
        kind, reads = op_named(node.op).kind, bool(self.made.intersection(node.inputs))
        source = self.graph.types[node.inputs[0]].shape if node.inputs else ()
        if kind is Kind.REDUCTION or node.op in RANKED:
            self.made.update(node.outputs)
            return self._trouble_with_row(node, source)
        if not reads:
            return ""
        self.made.update(node.outputs)
        after = self.graph.types[node.outputs[0]].shape
        if kind is Kind.ELEMENTWISE or self._takes_within_rows(node):
            return ""
        if kind is Kind.VIEW and self._stays(node, source, after):
            return ""
        return f"{node.op} from {source} to {after} mixes rows"

    def _trouble_with_row(self, node: Node, source: tuple[int, ...]) -> str:
        call = Call.of(self.graph, node)
        if not self._is_whole(node, call, source):
            return f"{node.op} of {source} has other rows"
        if is_written_out(self.graph, node, self.ranked):
            return "" if node.op in _ROW_OPS else f"{node.op} of ranked elements has no kernel"
        if source[-1] != self.columns:
            return f"{node.op} of {source} has other rows"
        if node.op in RANKED and not call.inputs[0].dtype.is_float:
            return f"{node.op} of {call.inputs[0]} has no kernel"
        return ""

    def _is_whole(self, node: Node, call: Call, source: tuple[int, ...]) -> bool:
        rank = len(source)
        axes = call.integers("axes") if "axes" in call.attributes else (-1,)
        if "axis" in call.attributes:
            axes = (call.integer("axis"),)
        return math.prod(source[:-1]) == self.rows and [a % rank for a in axes] == [rank - 1]

    def _takes_within_rows(self, node: Node) -> bool:
        if node.op != "gather_axis":
            return False
        shape = self.graph.types[node.inputs[0]].shape
        axis = Call.of(self.graph, node).integer("axis") % len(shape)
        return axis == len(shape) - 1 and math.prod(shape[:-1]) == self.rows

    def _stays(self, node: Node, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        if node.op == "slice":
            *rest, _ = slices(Call.of(self.graph, node))
            whole = [slice(0, n, 1) for n in before[:-1]]
            return rest == whole and math.prod(before[:-1]) == self.rows
        if node.op == "broadcast":
            padded = (1,) * (len(after) - len(before)) + before
            return math.prod(after[:-1]) == self.rows and padded[:-1] == after[:-1]
        return node.op == "reshape" and self._splits(before) and self._splits(after)

    def _splits(self, shape: tuple[int, ...]) -> bool:
        return any(math.prod(shape[:i]) == self.rows for i in range(len(shape) + 1))
