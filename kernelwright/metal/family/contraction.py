"""Which graphs around matrix products and attention are a single kernel."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.family.component import ragged_parts

GATHERED = frozenset({"gather_mm"})
"""Products of which each pair of a row and a matrix is chosen by indices: those of experts."""
DENSE = frozenset({"matmul", "addmm"}) | GATHERED
"""Products with a matrix of plain numbers."""
CONTRACTIONS = DENSE | {"attention"}
"""Contractions that a kernel family computes."""
FEW_TOKENS = 8
"""Rows up to which a product is bound by reading its matrix once."""
MOST_TOKENS = 64
"""Rows up to which a product can be written at all; from the ninth on MLX's own is faster."""
MAX_PAIRS = 64
"""Chosen pairs of rows and a matrix; beyond, sorting them by matrix reads less."""
FEW_QUERIES = 8
"""Queries up to which a kernel walks along keys with vectors, beyond which with tiles."""
CHEAP_FLOPS = 16
"""Operations an element that may be repeated wherever a row of a product is read."""
MOVING = frozenset({"reshape", "transpose"})
"""Views of a contraction's result that a kernel follows to where it is stored."""


@dataclass(frozen=True, slots=True)
class DenseSizes:
    """The sizes that all products of a graph share."""

    matrices: int
    """Products with a matrix of their own."""
    tokens: int
    """Rows that meet the same matrix."""
    depth: int
    """Terms of a dot product."""

    @classmethod
    def of(cls, graph: Graph, node: Node) -> "DenseSizes":
        """Read them from a product's operands."""
        shape, matrix = graph.types[node.outputs[0]].shape, graph.types[node.inputs[1]].shape
        # A matrix that is the same for a whole batch has no batch, or one of size 1.
        has_own = node.op in GATHERED or math.prod(matrix[:-2]) > 1
        own = math.prod(shape[:-2]) if has_own else 1
        return cls(own, math.prod(shape[:-1]) // own, matrix[-2])


def factors(node: Node) -> tuple[ValueId, ...]:
    """Return what a product cannot begin without: its factors, and the indices that choose them."""
    return node.inputs if node.op in GATHERED else node.inputs[:2]


def dense_sizes(graph: Graph) -> DenseSizes:
    """Return the sizes of the first product of a graph."""
    node = next(node for node in graph.nodes if node.op in DENSE)
    return DenseSizes.of(graph, node)


def trouble_with_attention(graph: Graph) -> str:
    """Say why a graph around attention is no single kernel, or nothing."""
    found = [node for node in graph.nodes if node.op == "attention"]
    if len(found) != 1:
        return f"{len(found)} attentions are as many kernels"
    for node in graph.nodes:
        kind = op_named(node.op).kind
        if kind in (Kind.REDUCTION, Kind.SCAN) or (kind is Kind.CONTRACTION and node not in found):
            return f"{node.op} and attention are not one kernel"
    call = Call.of(graph, found[0])
    if call.flag("is_causal") and call.inputs[0].shape[2] > call.inputs[1].shape[2]:
        return "causal attention of more queries than keys sees nothing at first"
    if reason := _trouble_before(graph, found[0]):
        return reason
    return _trouble_after(graph, found[0].outputs[0], call.outputs[0].size)


def _trouble_before(graph: Graph, attention: Node) -> str:
    """Say why a kernel cannot make an attention's operands as it reads them, or nothing."""
    for node in _makers(graph, attention.inputs):
        if op_named(node.op).kind is Kind.INDEXING and node.op != "arange":
            return f"{node.op} is not read inside an attention"
    for node in _makers(graph, attention.inputs[1:3]):
        if op_named(node.op).kind is Kind.ELEMENTWISE and op_named(node.op).flops_per_element > 1:
            return f"every query would compute {node.op} of keys and values again"
    return ""


def trouble_with_dense(graph: Graph) -> str:
    """Say why a graph around products of few rows is no single kernel, or nothing."""
    found = [node for node in graph.nodes if node.op in DENSE]
    sizes = {DenseSizes.of(graph, node) for node in found}
    if len(sizes) != 1:
        return "its matrix products differ in rows or depth"
    size = sizes.pop()
    if size.tokens > MOST_TOKENS:
        return f"a product of more than {MOST_TOKENS} rows is left to MLX"
    if gathered := [node.op for node in found if node.op in GATHERED]:
        if size.tokens > FEW_TOKENS or size.matrices > MAX_PAIRS:
            pairs = f"{size.matrices} pairs of {size.tokens} rows and a matrix"
            return f"{gathered[0]} of {pairs} reads more than one kernel should"
        if len(gathered) != len(found):
            return "products with chosen matrices and with given ones are not one kernel"
    if foreign := [
        t for t in map(graph.types.__getitem__, _results(found)) if not t.dtype.is_float
    ]:
        return f"a product of {foreign[0].dtype} has no kernel"
    if len({t.size for t in graph.output_types}) != 1:
        parts = ragged_parts(graph)
        if not parts or any(trouble_with_dense(part.bare()) for part in parts):
            return "its outputs differ in size"
        return ""
    return _trouble_before_dense(graph, found) or _trouble_after_dense(graph, found)


def _results(nodes: Iterable[Node]) -> Iterator[ValueId]:
    return (v for node in nodes for v in node.outputs)


def _trouble_before_dense(graph: Graph, found: list[Node]) -> str:
    for product in found:
        for operand, limit in zip(product.inputs[:2], (CHEAP_FLOPS, 2), strict=True):
            work, read = 0, {operand}
            for node in _makers(graph, [operand]):
                read.update(node.inputs)
                kind = op_named(node.op).kind
                if kind not in (Kind.ELEMENTWISE, Kind.VIEW):
                    return f"{node.op} stands before a matrix product"
                if kind is Kind.ELEMENTWISE and node.op != "cast":
                    work += op_named(node.op).flops_per_element
            if work > limit:
                return "what stands before a matrix product would be computed again and again"
            if read.isdisjoint(graph.inputs):
                return "a product with numbers that are known needs no matrix"
    return ""


def _trouble_after_dense(graph: Graph, found: list[Node]) -> str:
    tokens = math.prod(graph.types[found[0].outputs[0]].shape[:-1])
    dependent: set[ValueId] = set()
    for node in graph.nodes:
        reads = bool(dependent.intersection(node.inputs))
        if node.op in DENSE:
            if dependent.intersection(factors(node)):
                return f"{node.op} of another product needs all of it"
            dependent.update(node.outputs)
        elif op_named(node.op).kind not in (Kind.ELEMENTWISE, Kind.VIEW) and node.op != "arange":
            return f"{node.op} and a matrix product are not one kernel"
        elif reads:
            if not _keeps_rows(Call.of(graph, node), node, tokens):
                return f"{node.op} moves what a matrix product made"
            dependent.update(node.outputs)
    if any(v not in dependent for v in graph.outputs):
        return "an output is not made of the matrix products"
    return ""


def _keeps_rows(call: Call, node: Node, rows: int) -> bool:
    """Say whether an element stays in the row of the product that it is made of."""
    before, after = call.inputs[0].shape, call.outputs[0].shape
    if op_named(node.op).kind is Kind.ELEMENTWISE:
        return True
    if node.op == "transpose":
        axes = [a for a in call.integers("axes") if before[a] != 1]
        return axes == sorted(axes)
    if node.op == "slice":
        is_dense = set(call.integers("strides")) == {1}
        return is_dense and (before[:-1] == after[:-1] or rows == 1)
    return node.op == "reshape" and _splits(before, rows) and _splits(after, rows)


def _splits(shape: tuple[int, ...], rows: int) -> bool:
    return any(math.prod(shape[:i]) == rows for i in range(len(shape) + 1))


def _makers(graph: Graph, values: Iterable[ValueId]) -> Iterator[Node]:
    """Yield the nodes from which some values are made."""
    wanted = set(values)
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            yield node


def _trouble_after(graph: Graph, result: ValueId, size: int) -> str:
    """Say why a kernel cannot store what becomes of a contraction's result, or nothing."""
    dependent = {result}
    for node in graph.nodes:
        if not dependent.intersection(node.inputs):
            continue
        if op_named(node.op).kind is not Kind.ELEMENTWISE and node.op not in MOVING:
            return f"{node.op} takes the result of a contraction apart"
        dependent.update(node.outputs)
    for value in graph.outputs:
        if value not in dependent or graph.types[value].size != size:
            return f"the output {graph.types[value]} is not what the contraction makes"
    return ""
