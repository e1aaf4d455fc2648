"""Parts of a graph that share nothing but what they read."""

from collections.abc import Sequence

from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region


def components(graph: Graph) -> tuple[Region, ...]:
    """Cut a graph into the parts that no value computed in it connects, in order of outputs.

    Nodes that read constants alone, such as a range, belong to each part that reads them; a part
    is left out unless it makes an output.
    """
    group = list(range(len(graph.nodes)))

    def root(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            maker = graph.producer_of.get(value)
            if maker is not None:
                group[root(index)] = root(maker)
    members: dict[int, list[int]] = {}
    for index in range(len(graph.nodes)):
        members.setdefault(root(index), []).append(index)
    order = dict.fromkeys(
        root(graph.producer_of[v]) for v in graph.outputs if v in graph.producer_of
    )
    return tuple(Region(graph, tuple(members[found])) for found in order)


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
    parts = components(graph)
    made = sum(len(part.outputs) for part in parts)
    is_whole = made == len(graph.outputs) and len(set(graph.outputs)) == made
    has_products = all(
        any(op_named(node.op).kind is Kind.CONTRACTION for node in part.nodes) for part in parts
    )
    return parts if len(parts) > 1 and is_whole and has_products else ()
