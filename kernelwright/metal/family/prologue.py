"""What every threadgroup of a matrix product computes for itself first: the norm of its vector."""

from dataclasses import dataclass
from functools import lru_cache

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.metal.family.contraction import DENSE
from kernelwright.metal.family.matvec import PRODUCTS

MOST_BYTES = 16384
"""Of a vector that stands in threadgroup memory: half of what a threadgroup may have."""
_REDUCING = frozenset({"sum", "mean", "max", "min"})
_KEEPING_ORDER = frozenset({"reshape", "flatten", "unflatten", "expand_dims", "squeeze"})
_BEFORE = frozenset({Kind.ELEMENTWISE, Kind.VIEW, Kind.REDUCTION})


@dataclass(frozen=True, slots=True)
class Prologue:
    """A graph cut at the one vector that all of its products multiply."""

    value: ValueId
    """The vector."""
    before: Region
    """What makes it: a row-wise computation of a single row."""
    rest: Region
    """The products, and what follows them."""


@lru_cache(maxsize=1024)
def prologue_of(graph: Graph) -> Prologue | None:
    """Return what stands before a graph's products, if it is the norm of a single vector.

    Nothing else may read what it computes on the way. A vector that is made element by element is
    none: whoever makes its elements writes them as they leave.
    """
    products = [n for n in graph.nodes if op_named(n.op).kind is Kind.CONTRACTION]
    vectors = {_without_views(graph, node.inputs[0]) for node in products}
    if len(vectors) != 1 or any(node.op not in PRODUCTS | DENSE for node in products):
        return None
    value = vectors.pop()
    if value not in graph.producer_of:
        return None
    before = Region(graph, _makers(graph, value))
    if not _is_one_row(before, value):
        return None
    inside = set(before.indices)
    return Prologue(
        value, before, Region(graph, tuple(i for i in range(len(graph.nodes)) if i not in inside))
    )


def _without_views(graph: Graph, value: ValueId) -> ValueId:
    """Return what a value is a view of, all of it in its order."""
    while (maker := graph.producer_of.get(value)) is not None:
        node = graph.nodes[maker]
        if node.op not in _KEEPING_ORDER:
            break
        value = node.inputs[0]
    return value


def _makers(graph: Graph, value: ValueId) -> tuple[int, ...]:
    wanted, found = {value}, []
    for index in range(graph.producer_of[value], -1, -1):
        if wanted.intersection(graph.nodes[index].outputs):
            found.append(index)
            wanted.update(graph.nodes[index].inputs)
    return tuple(reversed(found))


def _is_one_row(region: Region, value: ValueId) -> bool:
    graph = region.graph
    type_ = graph.types[value]
    return (
        region.outputs == (value,)
        and value not in graph.outputs
        and type_.nbytes <= MOST_BYTES
        and type_.dtype.is_float
        and type_.dtype.itemsize <= 4
        and any(op_named(node.op).kind is Kind.REDUCTION for node in region.nodes)
        and all(_fits(graph, node, type_.size) for node in region.nodes)
    )


def _fits(graph: Graph, node: Node, length: int) -> bool:
    """Say whether a node belongs to a single row of so many elements."""
    call, kind = Call.of(graph, node), op_named(node.op).kind
    if kind is Kind.REDUCTION:
        is_whole = call.inputs[0].size == length and call.outputs[0].size == 1
        return node.op in _REDUCING and is_whole
    return kind in _BEFORE and all(t.size in (1, length) for t in (*call.inputs, *call.outputs))
