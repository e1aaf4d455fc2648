"""Parts of a graph that share nothing but what they read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region


def components(graph: Graph) -> tuple[Region, ...]:
    """Cut a graph into the parts that no value computed in it connects, in order of outputs.

    What follows from single elements alone, such as a range or the angles of an offset, connects
    nothing: where several parts read it, each has a copy, in a graph of the same inputs and
    outputs. A part is left out unless it makes an output.
    """
    copied = _with_copies(graph)
    return _connected(graph if copied is None else copied)


def _connected(graph: Graph, left_out: frozenset[int] = frozenset()) -> tuple[Region, ...]:
    """Return the connected parts of all nodes but some, in order of outputs."""
    group = list(range(len(graph.nodes)))

    def root(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            maker = graph.producer_of.get(value)
            if maker is not None and not left_out & {index, maker}:
                group[root(index)] = root(maker)
    members: dict[int, list[int]] = {}
    for index in range(len(graph.nodes)):
        members.setdefault(root(index), []).append(index)
    order = dict.fromkeys(
        root(graph.producer_of[v]) for v in graph.outputs if v in graph.producer_of
    )
    return tuple(Region(graph, tuple(members[found])) for found in order)


def _with_copies(graph: Graph) -> Graph | None:
    """Return the graph with a copy for each part of what several read of single elements alone.

    None where there is no such thing, or the graph stays in one piece.
    """
    single = _of_single_elements(graph)
    parts = _connected(graph, single) if single else ()
    if len(parts) < 2:
        return None
    types, nodes = list(graph.types), list[Node]()
    numbers = [_copy_of(graph, part, single, types) for part in parts]
    members = [frozenset(part.indices) for part in parts]
    for index, node in enumerate(graph.nodes):
        readers = [n for n, made in zip(numbers, members, strict=True) if index in made]
        if index in single:
            readers = [n for n in numbers if node.outputs[0] in n]
        nodes += [_renumbered(node, number) for number in readers or [{}]]
    return replace(graph, types=tuple(types), nodes=tuple(nodes))


def _of_single_elements(graph: Graph) -> frozenset[int]:
    """Return the nodes that read single elements alone, and make nothing that leaves the graph."""
    known = {v for v in (*graph.inputs, *graph.constant_of) if graph.types[v].size == 1}
    found: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if known.issuperset(node.inputs) and not set(graph.outputs) & {*node.outputs}:
            known.update(node.outputs)
            found.add(index)
    return frozenset(found)


def _copy_of(
    graph: Graph, part: Region, single: frozenset[int], types: list[TensorType]
) -> dict[ValueId, ValueId]:
    """Return numbers of their own for the values of single elements that a part reads."""
    number: dict[ValueId, ValueId] = {}
    waiting = [v for node in part.nodes for v in node.inputs]
    while waiting:
        maker = graph.producer_of.get(waiting.pop())
        if maker not in single or graph.nodes[maker].outputs[0] in number:
            continue
        for value in graph.nodes[maker].outputs:
            number[value] = len(types)
            types.append(graph.types[value])
        waiting += graph.nodes[maker].inputs
    return number


def _renumbered(node: Node, number: dict[ValueId, ValueId]) -> Node:
    inputs, outputs = (
        tuple(number.get(v, v) for v in values) for values in (node.inputs, node.outputs)
    )
    return replace(node, inputs=inputs, outputs=outputs)


def longest_part(parts: Sequence[Region]) -> int:
    """Return the place of the part that makes most elements."""
    sizes = [sum(part.graph.types[v].size for v in part.outputs) for part in parts]
    return sizes.index(max(sizes))


def ragged_parts(graph: Graph) -> tuple[Region, ...]:
    """Return parts whose outputs differ in size and that only read the same; each has a product.

    Their kernels can stand side by side. Empty where all outputs are of one size, or nothing comes
    apart.
    """
    if len({t.size for t in graph.output_types}) == 1:
        return ()
    parts = _whole_parts(graph)
    has_products = all(
        any(op_named(node.op).kind is Kind.CONTRACTION for node in part.nodes) for part in parts
    )
    return parts if has_products else ()


@lru_cache(maxsize=1024)
def row_parts(graph: Graph) -> tuple[Region, ...]:
    """Return parts that do the same to different numbers of rows, such as norms of two vectors.

    Their kernels can stand side by side: as they take the same registers, none hinders the other.
    Empty where the rows are as many, so that one walk serves all, or nothing comes apart.
    """
    reductions = [n for n in graph.nodes if op_named(n.op).kind is Kind.REDUCTION]
    if len({graph.types[node.inputs[0]].size for node in reductions}) < 2:
        return ()
    parts = _whole_parts(graph)
    return parts if len({_work(part) for part in parts}) == 1 else ()


def _work(part: Region) -> frozenset[tuple[object, int]]:
    """Return what a part computes and how often, whatever the sizes and the order."""
    types = part.graph.types
    work = Counter[object](
        (node.op, *(types[v].dtype for v in (*node.inputs, *node.outputs)))
        for node in part.nodes
        if op_named(node.op).kind is not Kind.VIEW
    )
    return frozenset(work.items())


def _whole_parts(graph: Graph) -> tuple[Region, ...]:
    """Return several parts that make all outputs, each of them once; empty if there are none."""
    parts = components(graph)
    made = sum(len(part.outputs) for part in parts)
    is_whole = made == len(graph.outputs) and len(set(graph.outputs)) == made
    return parts if len(parts) > 1 and is_whole else ()
