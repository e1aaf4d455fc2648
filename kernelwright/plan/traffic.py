"""Bytes moved and kernels launched: by eager MLX, by mx.compile, by a plan."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.kept import kept_with_graph
from kernelwright.ir.naming.idioms import Idiom, idioms
from kernelwright.ir.naming.table import with_tables
from kernelwright.ir.ops import Call, Domain, Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.plan.contraction import chooses_matrices
from kernelwright.plan.mlx.attention import has_mlx_kernel
from kernelwright.plan.mlx.cross_entropy import SIGN_OF_LOSS, has_mlx_cross_entropy
from kernelwright.plan.mlx.fusion import launches, launches_apart, step_groups, with_repeats
from kernelwright.plan.mlx.norm import NORMS, has_mlx_norm
from kernelwright.plan.mlx.rope import MlxRopes
from kernelwright.plan.mlx.step import Steps, mlx_steps

# On a GPU each of these is one kernel (mlx 0.32.4, python/src/fast.cpp).
IN_MLX_FAST = frozenset({"rms_norm", "layer_norm", "rope", "attention", *SIGN_OF_LOSS})
SCALED_ROPE = "scaled_rope"
"""Rotary embeddings whose tables are scaled, as YaRN's: `mx.fast.rope` and a product beside it."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What reaches memory: each group of nodes reads its inputs and writes its outputs once."""

    bytes_read: int = 0
    bytes_written: int = 0
    launches: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    def __add__(self, other: "Traffic") -> "Traffic":
        """Add two stretches of work."""
        return Traffic(
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.launches + other.launches,
        )


def eager_traffic(graph: Graph, indices: Iterable[int] | None = None) -> Traffic:
    """Count eager MLX: every op is a kernel; a view is none, unless it has to copy.

    `indices` limits the count to some nodes. `mean` counts as the sum and the product that MLX
    launches.
    """
    return _eager(mlx_steps(graph), indices)


def node_traffic(graph: Graph) -> tuple[Traffic, ...]:
    """Count eager MLX for each node alone."""
    steps = mlx_steps(graph)
    return tuple(_eager(steps, (i,)) for i in range(len(graph.nodes)))


def _eager(steps: Steps, indices: Iterable[int] | None) -> Traffic:
    chosen = sorted(steps.among(indices))
    return _total(steps.graph, [(i,) for i in chosen if launches(steps.graph, i)])


def compiled_traffic(graph: Graph, indices: Iterable[int] | None = None) -> Traffic:
    """Count what `mx.compile` leaves: elementwise chains fused as it fuses them, the rest eager."""
    steps = mlx_steps(graph)
    chosen = steps.among(indices)
    group_of = _group_of(steps.graph)
    groups: dict[int, list[int]] = {}
    for step in sorted(chosen & group_of.keys()):
        groups.setdefault(group_of[step], []).append(step)
    return _total(steps.graph, [tuple(groups[number]) for number in sorted(groups)])


@kept_with_graph
def _group_of(steps: Graph) -> Mapping[int, int]:
    """Return the number of the group of each step that MLX launches."""
    groups = step_groups(steps, set(range(len(steps.nodes))))
    return {step: number for number, group in enumerate(groups) for step in group}


def fast_traffic(graph: Graph, indices: Iterable[int] | None = None) -> Traffic:
    """Count `mx.compile` around `mx.fast`, whose kernels a trace on the CPU takes apart."""
    among = set(range(len(graph.nodes)) if indices is None else indices)
    return traffic_with_parts(graph, fast_parts(graph, among), among)


def traffic_with_parts(
    graph: Graph, parts: Mapping[Region, str], indices: Iterable[int] | None = None
) -> Traffic:
    """Count parts of a graph as `mx.fast` computes them, and all else as `mx.compile` does."""
    total = planned_traffic(graph, tuple(parts), indices)
    for region in (region for region, name in parts.items() if name == SCALED_ROPE):
        nbytes = sum(graph.types[v].nbytes for v in region.outputs)
        total += Traffic(nbytes, nbytes, 1)
    return total


def fast_parts(graph: Graph, indices: Iterable[int] | None = None) -> dict[Region, str]:
    """Return the parts of a graph, or of some nodes, that `mx.fast` computes, with their names."""
    among = set(range(len(graph.nodes)) if indices is None else indices)
    # It traces with MLX, which questions to the store do without.
    from kernelwright.ir.trace.fast_call import find_fast_call

    if len(among) == len(graph.nodes) and (call := find_fast_call(graph)) is not None:
        return {Region(graph, tuple(range(len(graph.nodes)))): call.name}
    whole: dict[Region, str] = {}
    taken: set[int] = set()
    for idiom in _fast_idioms(graph):
        if among.issuperset(idiom.indices):
            # A mask that is made of positions is an array to MLX, as large as the scores of a head.
            is_masked = idiom.name == "attention"
            members = {*idiom.indices} if is_masked else with_tables(graph, idiom, taken)
            if members <= among:
                taken |= members
                whole[Region(graph, tuple(sorted(members)))] = idiom.name
    return whole


@kept_with_graph
def _fast_idioms(graph: Graph) -> tuple[Idiom, ...]:
    """Return the idioms that are one call of `mx.fast` and one kernel of MLX's."""
    found = [idiom for idiom in idioms(graph) if idiom.name in IN_MLX_FAST]
    kept = [idiom for idiom in found if idiom.name != "rope" and _has_mlx_kernel(graph, idiom)]
    turned = [idiom for idiom in found if idiom.name == "rope"]
    return tuple(sorted([*kept, *_ropes(graph, turned)], key=lambda idiom: idiom.indices))


def _has_mlx_kernel(graph: Graph, idiom: Idiom) -> bool:
    """Say whether MLX has a kernel for a norm, a loss, or an attention among some nodes."""
    if idiom.name in NORMS:
        return has_mlx_norm(graph, idiom)
    if idiom.name in SIGN_OF_LOSS:
        return has_mlx_cross_entropy(graph, idiom)
    found = [graph.nodes[i] for i in idiom.indices if graph.nodes[i].op == "attention"]
    return all(has_mlx_kernel(Call.of(graph, node)) for node in found)


def _ropes(graph: Graph, turned: Sequence[Idiom]) -> Iterator[Idiom]:
    """Yield what `mx.fast.rope` computes: it takes positions and frequencies, and no tables."""
    ropes = MlxRopes(graph) if turned else None
    for idiom in turned:
        if ropes is not None and (found := ropes.within(idiom)) is not None:
            part, call = found
            yield part if call.amplitude == 1.0 else replace(part, name=SCALED_ROPE)


def planned_traffic(
    graph: Graph, regions: Sequence[Region], indices: Iterable[int] | None = None
) -> Traffic:
    """Count a plan: one kernel a region, and everything else as `mx.compile` does it."""
    steps = mlx_steps(graph)
    chosen = steps.among(indices)
    kernels = [steps.among(region.indices) for region in regions]
    rest = step_groups(steps.graph, chosen.difference(*kernels))
    kept = [tuple(sorted(kernel)) for kernel in kernels if chosen >= kernel]
    return _total(steps.graph, rest) + _total(steps.graph, kept, are_kernels=True)


def _total(
    graph: Graph, groups: Iterable[tuple[int, ...]], *, are_kernels: bool = False
) -> Traffic:
    """Add up what groups move, a launch each; other than our kernels, MLX's take some ops apart."""
    total = Traffic()
    for group in groups if are_kernels else with_repeats(graph, groups):
        members = set(group)
        read = _bytes_read(graph, members)
        written = sum(graph.types[v].nbytes for v in _results(graph, members))
        total += Traffic(read, written, 1)
        total += Traffic() if are_kernels else Traffic(*launches_apart(graph, group))
    return total


def _external(graph: Graph, members: set[int]) -> list[ValueId]:
    """List the stored arrays that a group reads, each once, views traced to what they show."""
    made = {v for i in members for v in graph.nodes[i].outputs}
    read = dict.fromkeys(
        _stored(graph, v) for i in sorted(members) for v in graph.nodes[i].inputs if v not in made
    )
    return [v for v in read if v not in made]


def _bytes_read(graph: Graph, members: set[int]) -> int:
    """Add up what a group reads: all of an array, or what slices and indices take of it."""
    external = set(_external(graph, members))
    whole: set[ValueId] = set()
    taken: dict[ValueId, dict[ValueId, int]] = {}
    for node in (graph.nodes[i] for i in sorted(members) if not _shows_whole(graph, i, members)):
        for place, value in enumerate(node.inputs):
            stored = _stored(graph, value)
            if stored not in external:
                continue
            if parts := _taken(graph, node, place):
                taken.setdefault(stored, {}).update(parts)
            else:
                whole.add(stored)
    return sum(_stored_bytes(graph, value) for value in whole) + sum(
        min(_stored_bytes(graph, value), sum(taken[value].values()))
        for value in taken.keys() - whole
    )


def _shows_whole(graph: Graph, index: int, members: set[int]) -> bool:
    """Say whether a node is but a view of a whole array, whose readers tell what is read of it."""
    node = graph.nodes[index]
    if op_named(node.op).kind is not Kind.VIEW or launches(graph, index):
        return False
    (value,) = node.outputs[:1]
    readers = graph.consumers_of[value]
    is_whole = graph.types[value].size >= graph.types[node.inputs[0]].size
    return is_whole and bool(readers) and members.issuperset(readers)


def _taken(graph: Graph, node: Node, place: int) -> dict[ValueId, int]:
    """Return the bytes that a node takes of an operand, by what they go to.

    It is what a slice shows, what is read by index, or the matrices that indices choose, each as
    often as it is named; nothing where the node takes all of it.
    """
    op, whole = op_named(node.op), graph.types[node.inputs[place]]
    if op.kind is Kind.VIEW and place == 0:
        seen = [v for v in node.outputs if graph.consumers_of[v] or v in graph.outputs]
    elif op.behaviour.data_places == (place,):
        seen = list(node.outputs)
    elif chooses_matrices(node):
        if op.behaviour.domain(place, len(node.inputs)) is Domain.INDEX:
            return {}
        chosen = graph.types[node.inputs[-2 if place == 0 else -1]].size
        matrices = math.prod(whole.shape[:-2])
        size = whole.nbytes * chosen // max(matrices, 1)
        return {node.outputs[0]: size} if chosen < matrices else {}
    else:
        return {}
    parts = {v: graph.types[v].nbytes for v in seen}
    return parts if sum(parts.values()) < whole.nbytes else {}


def _stored(graph: Graph, value: ValueId) -> ValueId:
    maker = graph.producer_of.get(value)
    while maker is not None and not launches(graph, maker):
        node = graph.nodes[maker]
        if graph.types[node.inputs[0]].size > graph.types[value].size:
            # A slice reads only its part.
            return value
        value = node.inputs[0]
        maker = graph.producer_of.get(value)
    return value


def _stored_bytes(graph: Graph, value: ValueId) -> int:
    if value in graph.constant_of and graph.types[value].size == 1:
        return 0
    return graph.types[value].nbytes


def _results(graph: Graph, members: set[int]) -> list[ValueId]:
    returned = set(graph.outputs)
    return [
        v
        for i in sorted(members)
        for v in graph.nodes[i].outputs
        if v in returned or any(r not in members for r in graph.consumers_of[v])
    ]
