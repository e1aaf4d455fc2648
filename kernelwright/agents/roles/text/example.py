"""Worked examples of kernels, and which of them show what a task's kernel may need."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernelwright.agents.roles.reply.type_name import metal_name
from kernelwright.agents.roles.text.prompt import source
from kernelwright.ir import Graph, Kind, Node, op_named
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Domain
from kernelwright.metal.family import classify
from kernelwright.metal.family.classify import Pattern

_MOST = 3
_FLOATS = (Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.FLOAT32)
_TYPE_MARKS: tuple[Callable[[Dtype], str], ...] = (
    lambda dtype: f"{dtype.short}[",
    lambda dtype: f'"name": "T", "value": "{metal_name(dtype)}"',
)
"""Where an example names the type of its arrays: in its heading, and as `T`."""
_LONGEST_ROW = 2048
"""Elements of a row that fit the registers of a simdgroup's lanes."""
_FEW_ROWS = 8
"""Rows of a product below which its sums are shared among threadgroups."""


@dataclass(frozen=True)
class Example:
    """A kernel that is shown whole; a test compiles, runs and compares each of them."""

    name: str
    """Of its file in `prompts/examples/`."""
    suits: Callable[[Graph], bool]
    """Says whether a task's kernel may be built like it."""


def _ops(graph: Graph) -> frozenset[str]:
    return frozenset(node.op for node in graph.nodes)


def _reduced(graph: Graph) -> Iterator[tuple[frozenset[int], int]]:
    """Yield the axes of each reduction, counted from the last one backwards, and its rank."""
    for node in graph.nodes:
        if op_named(node.op).kind is Kind.REDUCTION:
            rank = len(graph.types[node.inputs[0]].shape)
            told = dict(node.attributes)
            axes = told.get("axes", told.get("axis", -1))
            listed = axes if isinstance(axes, tuple) else (axes,)
            yield frozenset(rank - 1 - int(a) % rank for a in listed if isinstance(a, int)), rank


def _reduces_rows(graph: Graph) -> bool:
    return any(0 in axes for axes, _ in _reduced(graph)) or any(
        op_named(node.op).kind is Kind.SCAN for node in graph.nodes
    )


def _reduces_columns(graph: Graph) -> bool:
    return any(rank > 1 and 0 not in axes for axes, rank in _reduced(graph))


def _is_short(graph: Graph) -> bool:
    widths = [t.shape[-1] for t in graph.input_types if t.shape]
    return max(widths, default=0) <= _LONGEST_ROW


def _orders(graph: Graph) -> bool:
    ops = [op_named(node.op) for node in graph.nodes]
    return any(op.kind is Kind.SORT and not op.behaviour.is_continuous for op in ops)


def _scatters(graph: Graph) -> bool:
    """Say whether values are combined at places that indices say."""
    ops = [op_named(node.op) for node in graph.nodes]
    return any("reduce" in op.attributes and Domain.INDEX in op.behaviour.domains for op in ops)


def _rows_of_products(graph: Graph) -> list[int]:
    found = []
    for node in graph.nodes:
        if op_named(node.op).kind is Kind.CONTRACTION:
            shape = graph.types[node.inputs[0]].shape
            found.append(shape[-2] if len(shape) > 1 else 1)
    return found


def _shows_part(graph: Graph, node: Node) -> bool:
    read, made = (graph.types[values[0]] for values in (node.inputs or node.outputs, node.outputs))
    return op_named(node.op).kind is Kind.VIEW and made.size < read.size


def _is_stencil(graph: Graph) -> bool:
    """Say whether neighbours of one array meet: several slices of it, or a convolution."""
    sliced = [node.inputs[0] for node in graph.nodes if _shows_part(graph, node)]
    return "convolution" in _ops(graph) or len(sliced) > len(set(sliced))


EXAMPLES = (
    Example("sort", _orders),
    Example("histogram", _scatters),
    Example("split_k", lambda graph: any(rows <= _FEW_ROWS for rows in _rows_of_products(graph))),
    Example("matrices", lambda graph: any(rows > _FEW_ROWS for rows in _rows_of_products(graph))),
    Example("stencil", _is_stencil),
    Example(
        "row_and_column",
        lambda graph: (
            classify(graph).pattern is Pattern.PLANE
            or (_reduces_rows(graph) and _reduces_columns(graph))
        ),
    ),
    Example("columns", lambda graph: _reduces_columns(graph) and not _reduces_rows(graph)),
    Example("registers", lambda graph: _reduces_rows(graph) and _is_short(graph)),
    Example("rowwise", _reduces_rows),
    Example("elementwise", lambda graph: True),
)
"""What asks for most comes first: a task with several needs is shown those."""


def examples_for(graph: Graph) -> tuple[str, ...]:
    """Return the names of the examples that suit a task, at most three."""
    return tuple(example.name for example in EXAMPLES if example.suits(graph))[:_MOST]


def example_text(name: str, dtype: Dtype) -> str:
    """Return a worked example as a prompt shows it: what it has in float32, in a task's type."""
    text = source(f"examples/{name}.md").strip()
    for mark in _TYPE_MARKS:
        text = text.replace(mark(Dtype.FLOAT32), mark(dtype))
    return text


def example_dtype(graph: Graph) -> Dtype:
    """Return the float type that a task's examples are shown in: its first output's that is one."""
    types = (t.dtype for t in (*graph.output_types, *graph.input_types))
    return next((dtype for dtype in types if dtype in _FLOATS), Dtype.FLOAT32)
