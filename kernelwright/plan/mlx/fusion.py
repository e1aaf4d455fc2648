"""What `mx.compile` makes one kernel of, as mlx/compile.cpp decides it."""

from collections.abc import Iterable
from dataclasses import replace

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.plan.mlx.attention import steps_apart
from kernelwright.plan.mlx.step import mlx_steps

# mlx/compile.cpp: max_compile_depth and max_compile_arrays of 0.32.4.
COMPILE_DEPTH = 11
COMPILE_ARRAYS = 24


def compile_groups(graph: Graph, among: Iterable[int] | None = None) -> list[tuple[int, ...]]:
    """Group nodes as `mx.compile` fuses them; nodes that launch nothing are in no group alone.

    A mean is where its sum is, though its product may be in the kernel that reads it.
    """
    return list(compile_launches(graph, among))


def compile_launches(
    graph: Graph, among: Iterable[int] | None = None
) -> dict[tuple[int, ...], int]:
    """Return the groups with what each launches: more than one where MLX takes a node apart."""
    steps = mlx_steps(graph)
    groups = step_groups(steps.graph, steps.among(among))
    launched = with_repeats(steps.graph, groups)
    home: dict[int, tuple[int, ...]] = {}
    for group, repeats in launched.items():
        own = tuple(dict.fromkeys(steps.node_of[i] for i in (*group, *repeats)))
        new = tuple(i for i in own if i not in home)
        home |= dict.fromkeys(new, new)
    found = dict.fromkeys(home.values(), 0)
    for group in launched:
        # Of a mean that is fused into what reads it, the sum alone is a launch of its own.
        found[home[steps.node_of[group[-1]]]] += 1 + launches_apart(steps.graph, group)[2]
    return found


def with_repeats(
    graph: Graph, groups: Iterable[tuple[int, ...]]
) -> dict[tuple[int, ...], list[int]]:
    """Return what MLX launches, with the steps that ask for a result that it has already.

    Of one sorted array several slices may be taken, each of which is a node with a sort of its own.
    """
    found: dict[tuple[int, ...], list[int]] = {}
    first: dict[Node, tuple[int, ...]] = {}
    for group in groups:
        node = graph.nodes[group[0]]
        known = group
        if op_named(node.op).kind is Kind.SORT:
            known = first.setdefault(replace(node, outputs=()), group)
        found.setdefault(known, []).extend(group if known != group else ())
    return found


def launches_apart(graph: Graph, group: tuple[int, ...]) -> tuple[int, int, int]:
    """Count what MLX does beyond one kernel: bytes read, written, launches of scores' steps."""
    node = graph.nodes[group[0]]
    if len(group) > 1 or node.op != "attention":
        return (0, 0, 0)
    return steps_apart(Call.of(graph, node))


def step_groups(graph: Graph, allowed: set[int]) -> list[tuple[int, ...]]:
    """Group the steps of MLX as `mx.compile` fuses them."""
    free = set(allowed)
    groups: list[tuple[int, ...]] = []
    for index in sorted(allowed, reverse=True):
        if index not in free:
            continue
        node = graph.nodes[index]
        if op_named(node.op).kind is Kind.ELEMENTWISE:
            members = _fused(graph, index, free)
        elif launches(graph, index):
            members = {index}
        else:
            continue
        free -= members
        groups.append(tuple(sorted(members)))
    return groups[::-1]


def _fused(graph: Graph, root: int, allowed: set[int]) -> set[int]:
    """Collect what `mx.compile` fuses into the kernel of `root`, readers before producers.

    As in mlx/compile.cpp, what is not fused counts as an array when it is reached, so that the
    last ops that are fused may read more of them than the limit.
    """
    shape = graph.types[graph.nodes[root].outputs[0]].shape
    members: set[int] = set()
    arrays: set[ValueId] = set()

    def visit(value: ValueId, depth: int) -> None:
        maker = graph.producer_of.get(value)
        if maker in members:
            return
        is_returned = value in graph.outputs
        is_fused = (
            maker is not None
            and maker in allowed
            and depth < COMPILE_DEPTH
            and _fusable(graph.nodes[maker])
            and not (is_returned and graph.types[value].shape != shape)
            and (not depth or members.issuperset(graph.consumers_of[value]))
        )
        if maker is None or not is_fused:
            arrays.add(value)
            return
        (arrays.add if is_returned else arrays.discard)(value)
        if len(arrays) < COMPILE_ARRAYS:
            members.add(maker)
            for read in graph.nodes[maker].inputs:
                visit(read, depth + 1)

    visit(graph.nodes[root].outputs[0], 0)
    return members


def _fusable(node: Node) -> bool:
    return op_named(node.op).kind is Kind.ELEMENTWISE or node.op == "broadcast"


def launches(graph: Graph, index: int) -> bool:
    """Say whether MLX launches a kernel for a step, if it stands alone."""
    node = graph.nodes[index]
    if op_named(node.op).kind is not Kind.VIEW:
        return True
    return copies(graph, node)


def copies(graph: Graph, node: Node) -> bool:
    """Say whether a node is a view that MLX can show only as a copy."""
    return node.op == "reshape" and _reshape_copies(graph, node)


def _reshape_copies(graph: Graph, node: Node) -> bool:
    """Say whether MLX must copy: the source is strided, and the new axes cut across it."""
    source = graph.producer_of.get(node.inputs[0])
    if source is None:
        return False
    made_by = graph.nodes[source].op
    if made_by not in ("transpose", "broadcast", "slice", "as_strided"):
        return False
    before = [n for n in graph.types[node.inputs[0]].shape if n != 1]
    after = [n for n in graph.types[node.outputs[0]].shape if n != 1]
    return before != after
