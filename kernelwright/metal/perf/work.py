"""What a graph asks of any kernel that computes it: elements, walks over rows, arithmetic."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.ops import Call, Kind, Op, op_named
from kernelwright.ir.ops.elementwise import TRANSCENDENTAL_FLOPS
from kernelwright.metal.family.classify import classify
from kernelwright.metal.family.component import row_parts


@dataclass(frozen=True)
class Array:
    """An input or an output."""

    size: int
    width: int
    """Bytes of an element."""
    passes: int = 1
    """That read it, where nothing is kept from one to the next."""
    has_runs: bool = True
    """True where neighbouring elements of the kernel's walk are its neighbours."""


@dataclass(frozen=True)
class Work:
    """What the launches of a graph have in common, whatever the schedule."""

    elements: int
    """That a kernel walks over."""
    rows: int
    length: int
    """Of a row."""
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    passes: int
    """Walks over a row: one for each level of reductions, and one for what waits for them."""
    floats: tuple[int, int]
    """Operations where values are kept between passes, and where they are computed again."""
    specials: tuple[int, int]
    reductions: int
    is_strided: bool
    """True where a row's elements stand apart in memory."""

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Look at a graph that a family serves."""
        family = classify(graph)
        elements = max(math.prod(family.shape), 1)
        rows, inner = max(family.row_count, 1), family.shape[-1] if family.shape else 1
        walks = _walks(graph, rows)
        kept = frozenset[int]().union(*walks)
        passes = [
            sum(any(value in graph.nodes[i].inputs for i in walk) for walk in walks)
            for value in graph.inputs
        ]
        return cls(
            elements=elements,
            rows=rows,
            length=max(elements // rows, 1),
            inputs=tuple(
                Array(t.size, t.dtype.itemsize, max(n, 1), t.shape[-1:] == (inner,))
                for t, n in zip(graph.input_types, passes, strict=True)
            ),
            outputs=tuple(Array(t.size, t.dtype.itemsize) for t in graph.output_types),
            passes=len(walks),
            floats=(_floats(graph, kept), sum(_floats(graph, walk) for walk in walks)),
            specials=(_specials(graph, kept), sum(_specials(graph, walk) for walk in walks)),
            # Each thread is of one part only.
            reductions=sum(_reductions(node.op) for node in graph.nodes)
            // max(len(row_parts(graph)), 1),
            is_strided=bool(family.axes) and family.axes[-1] != len(family.shape) - 1,
        )


def _reductions(op: str) -> int:
    """Return how many reductions one after the other an op is."""
    record = op_named(op)
    if record.kind is not Kind.REDUCTION:
        return int(record.kind is Kind.SCAN)
    # Sums of exponentials need the maximum first.
    return 2 if record.flops_per_element >= TRANSCENDENTAL_FLOPS else 1


def _walks(graph: Graph, rows: int) -> list[frozenset[int]]:
    """Return the nodes that each walk over the rows computes, from the values that it reads."""
    made_by = {value: i for i, node in enumerate(graph.nodes) for value in node.outputs}
    level: dict[ValueId, int] = {}
    roots: dict[int, set[int]] = {}
    for i, node in enumerate(graph.nodes):
        below = max((level.get(value, 0) for value in node.inputs), default=0)
        steps = 0 if op_named(node.op).kind is Kind.SCAN else _reductions(node.op)
        for step in range(steps):
            roots.setdefault(below + step, set()).add(i)
        level.update(dict.fromkeys(node.outputs, below + steps))
    last = {made_by[v] for v in graph.outputs if v in made_by and graph.types[v].size > rows}
    walks = [_cone(graph, made_by, roots[n]) for n in sorted(roots)]
    if last or not walks:
        walks.append(_cone(graph, made_by, last))
    return walks


def _cone(graph: Graph, made_by: Mapping[ValueId, int], roots: Collection[int]) -> frozenset[int]:
    """Return roots and what they are computed from, up to reductions that are done before."""
    found, waiting = set(roots), list(roots)
    while waiting:
        for value in graph.nodes[waiting.pop()].inputs:
            i = made_by.get(value)
            if i is not None and i not in found and not _is_done_before(graph.nodes[i].op):
                found.add(i)
                waiting.append(i)
    return frozenset(found)


def _is_done_before(op: str) -> bool:
    """Say whether a walk finds the op's result; a softmax has one for each element to compute."""
    record = op_named(op)
    return record.kind is Kind.REDUCTION and not record.behaviour.makes_weights


def _floats(graph: Graph, indices: Collection[int]) -> int:
    return sum(op.flops(call) for op, call in _calls(graph, indices) if not _is_special(op))


def _specials(graph: Graph, indices: Collection[int]) -> int:
    special = [(op, call) for op, call in _calls(graph, indices) if _is_special(op)]
    return sum(op.flops(call) // max(op.flops_per_element, 1) for op, call in special)


def _calls(graph: Graph, indices: Collection[int]) -> list[tuple[Op, Call]]:
    nodes = [graph.nodes[i] for i in indices]
    return [(op_named(node.op), Call.of(graph, node)) for node in nodes]


def _is_special(op: Op) -> bool:
    return op.flops_per_element >= TRANSCENDENTAL_FLOPS or op.behaviour.divides
