"""What fusing a region is worth, and what it strains."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.metal.family.classify import Pattern, classify
from kernelwright.metal.family.component import row_parts
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.plan.mlx.attention import is_worth_tiling, unseen_flops
from kernelwright.plan.mlx.fusion import compile_groups
from kernelwright.plan.traffic import (
    Traffic,
    compiled_traffic,
    eager_traffic,
    fast_parts,
    planned_traffic,
    traffic_with_parts,
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The figures of a device that decide what a byte and a launch are worth.

    The defaults stand for no chip in particular: they weigh a launch as 200 kB of traffic, and
    serve to compare regions. Profiles of real chips come with the device.
    """

    bytes_per_us: float = 100_000.0
    launch_us: float = 2.0
    flops_per_us: float = 2_500_000.0
    threadgroup_bytes: int = 32768
    registers_per_thread: int = 96
    """Values of 32 bits that a thread holds before occupancy falls."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The benefit of fusing one region and the penalty for what it needs on chip."""

    eager: Traffic
    compiled: Traffic
    fused: Traffic
    recomputed_flops: int
    live_values: int
    """Most values that one thread holds at once."""
    threadgroup_bytes: int
    benefit_us: float
    """Time saved against eager MLX by bytes, launches and arithmetic that no longer happen."""
    benefit_over_compile_us: float
    """The same against `mx.compile`; 0 where it fuses the region just as well."""
    penalty_us: float
    """Time lost to recomputation and to registers and memory that lower occupancy."""

    @property
    def gain_us(self) -> float:
        """Benefit against eager MLX less penalty; what partitioning maximises."""
        return self.benefit_us - self.penalty_us


DEFAULT_PROFILE = Profile()
_CACHE_SPEED = 16
"""How much faster than memory the cores' own caches are, which hold a vector; our guess for any
chip."""
_SHARING_ROWS = 32
"""Rows of a matrix whose threads share a vector that they have to make first."""


def mlx_kernels(
    graph: Graph, indices: Iterable[int] | None = None, profile: Profile = DEFAULT_PROFILE
) -> dict[Region, str]:
    """Return the parts that MLX at its best leaves to `mx.fast`, with their names.

    There are none where `mx.compile` alone is as fast.
    """
    among = tuple(range(len(graph.nodes)) if indices is None else sorted(set(indices)))
    parts = fast_parts(graph, among)
    compiled = planned_traffic(graph, (), among)
    fast = traffic_with_parts(graph, parts, among)
    return parts if time_us(fast, profile) < time_us(compiled, profile) else {}


def best_traffic(graph: Graph, indices: Iterable[int] | None = None) -> Traffic:
    """Count MLX at its best for a graph, or for what a plan leaves of it."""
    among = tuple(range(len(graph.nodes)) if indices is None else sorted(set(indices)))
    return traffic_with_parts(graph, mlx_kernels(graph, among), among)


def cost(region: Region, profile: Profile = DEFAULT_PROFILE) -> Cost:
    """Weigh a legal region on a device."""
    graph = region.graph
    eager = eager_traffic(graph, region.indices)
    compiled = compiled_traffic(graph, region.indices)
    fused = planned_traffic(graph, [region], region.indices)
    extracted = region.bare()
    fused_us = time_us(fused, profile)
    calls = [Call.of(graph, node) for node in region.nodes if node.op == "attention"]
    is_compiled_alike = _compiles_whole(region) and not any(map(is_worth_tiling, calls))
    skipped_us = sum(map(unseen_flops, calls)) / profile.flops_per_us
    return Cost(
        eager=eager,
        compiled=compiled,
        fused=fused,
        recomputed_flops=recomputed_flops(extracted),
        live_values=live_values(extracted),
        threadgroup_bytes=threadgroup_bytes(extracted),
        benefit_us=max(time_us(eager, profile) + skipped_us - fused_us, 0.0),
        benefit_over_compile_us=0.0
        if is_compiled_alike
        else max(time_us(compiled, profile) + skipped_us - fused_us, 0.0),
        penalty_us=penalty_us(region, fused, profile),
    )


def penalty_us(region: Region, fused: Traffic, profile: Profile) -> float:
    """Estimate the time that recomputation and low occupancy cost a fused region."""
    extracted = region.bare()
    # Parts side by side have threads of their own.
    parts = [part.bare() for part in row_parts(extracted)] or [extracted]
    strain = max(max(map(live_values, parts)) / profile.registers_per_thread - 1.0, 0.0)
    strain += max(sum(map(threadgroup_bytes, parts)) / profile.threadgroup_bytes - 0.5, 0.0)
    recomputed_us = sum(map(recomputed_flops, parts)) / profile.flops_per_us
    reread_us = reread_bytes(extracted) / (_CACHE_SPEED * profile.bytes_per_us)
    return recomputed_us + reread_us + time_us(fused, profile) * strain


def time_us(traffic: Traffic, profile: Profile) -> float:
    """Estimate the time of some traffic: bytes at the memory's speed, and launches."""
    return traffic.nbytes / profile.bytes_per_us + traffic.launches * profile.launch_us


def _compiles_whole(region: Region) -> bool:
    """Say whether `mx.compile` already makes one kernel of all that the region computes."""
    working = {
        i for i in region.indices if op_named(region.graph.nodes[i].op).kind is not Kind.VIEW
    }
    groups = compile_groups(region.graph, region.indices)
    is_one_launch = compiled_traffic(region.graph, region.indices).launches == 1
    return is_one_launch and any(working.issubset(group) for group in groups)


def recomputed_flops(graph: Graph) -> int:
    """Count arithmetic that a single kernel repeats: what is broadcast is computed per element.

    In a row-wise kernel a row's own values are computed once a row and cost nothing extra.
    """
    family = classify(graph)
    has_rows = family.pattern in (Pattern.ROWWISE, Pattern.PLANE)
    rows = family.row_count if has_rows else -1
    total = 0
    factor: dict[int, int] = {}
    for node in reversed(graph.nodes):
        size = graph.types[node.outputs[0]].size
        repeats = max((factor.get(v, 1) for v in node.outputs), default=1)
        if node.op == "broadcast":
            source = graph.types[node.inputs[0]].size
            is_row_value = source == rows
            repeats *= 1 if is_row_value or source == 0 else size // source
        elif op_named(node.op).kind is Kind.REDUCTION:
            repeats = 1
        if op_named(node.op).kind is Kind.ELEMENTWISE and repeats > 1:
            total += (repeats - 1) * op_named(node.op).flops(Call.of(graph, node))
        for value in node.inputs:
            factor[value] = max(factor.get(value, 1), repeats)
    return total


def reread_bytes(graph: Graph) -> int:
    """Count what threadgroups read from caches where each makes its products' vector for itself."""
    prologue = prologue_of(graph)
    if prologue is None:
        return 0
    read = sum(graph.types[v].nbytes for v in prologue.before.inputs)
    rows = max(t.size for t in graph.output_types)
    return read * -(-rows // _SHARING_ROWS)


def live_values(graph: Graph) -> int:
    """Count the most values that are needed later at any point of the graph's order."""
    last: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            last[value] = index
    for value in graph.outputs:
        last[value] = len(graph.nodes)
    live: set[int] = set()
    most = 0
    for index, node in enumerate(graph.nodes):
        live.update(v for v in (*node.inputs, *node.outputs) if not _is_scalar(graph, v))
        most = max(most, len(live))
        live = {v for v in live if last.get(v, -1) > index}
    return most


def _is_scalar(graph: Graph, value: int) -> bool:
    return value in graph.constant_of and graph.types[value].size == 1


def threadgroup_bytes(graph: Graph) -> int:
    """Estimate the scratch of a row-wise kernel: one float a simdgroup and reduction."""
    reductions: list[Node] = [n for n in graph.nodes if op_named(n.op).kind is Kind.REDUCTION]
    return len(reductions) * 32 * 4
