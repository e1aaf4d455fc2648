"""What kernels that reduce rows or columns take on chip."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.family.component import row_parts
from kernelwright.metal.kernel_ir.expression import ReduceExpr, Reducer, Store, walk
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.rowwise.passes import loops, per_lane, register_count
from kernelwright.metal.lower.rowwise.stores import row_count, row_stores
from kernelwright.metal.schedule import ColumnSplit, Columnwise, Rowwise, Split, Staged


def rowwise_footprint(graph: Graph, schedule: Rowwise) -> Footprint:
    """Estimate what a kernel whose lanes share rows takes on chip."""
    if parts := row_parts(graph):
        found = [rowwise_footprint(part.bare(), schedule) for part in parts]
        shared = sum(footprint.threadgroup_bytes for footprint in found)
        return Footprint(max(footprint.registers for footprint in found), shared)
    return row_footprint(_stores(graph), schedule)


def part_footprint(graph: Graph, schedule: Split | Staged) -> Footprint:
    """Estimate what the kernel takes that reduces a part of each row."""
    rows = Rowwise(schedule.lanes, 1, schedule.vector, cached=False)
    return row_footprint(_stores(graph), rows)


def columnwise_footprint(graph: Graph, schedule: Columnwise | ColumnSplit) -> Footprint:
    """Estimate what a kernel whose strips share columns takes on chip."""
    stores = _stores(graph)
    shared = 4 * 32 * schedule.strips * schedule.vector * partial_arrays(stores)
    is_kept = isinstance(schedule, Columnwise) and schedule.cached
    kept = register_count(loops(stores, online=False), schedule.strips, 1) if is_kept else 0
    return Footprint(WORKING_REGISTERS + 2 * schedule.vector + kept, shared)


def _stores(graph: Graph) -> list[Store]:
    return row_stores(graph, Signature.of(graph), row_count(graph))


def row_footprint(stores: list[Store], schedule: Rowwise) -> Footprint:
    """Estimate what lanes that share a row's stores take on chip."""
    kept = _kept_registers(stores, schedule) if schedule.cached else 0
    is_shared = schedule.lanes > 32
    shared = 4 * (schedule.lanes // 32) * partial_arrays(stores) if is_shared else 0
    return Footprint(WORKING_REGISTERS + kept, shared)


def _kept_registers(stores: list[Store], schedule: Rowwise) -> int:
    """Count what a lane keeps of its rows between loops over them."""
    sequence = loops(stores, online=schedule.online)
    rankings = [loop for loop in sequence if loop.ranked]
    ranked = sum(per_lane(r.axis, schedule.lanes, schedule.vector) for r in rankings)
    return ranked + register_count(sequence, schedule.lanes, schedule.vector)


def partial_arrays(stores: list[Store]) -> int:
    """Count the threadgroup arrays in which lanes leave what each of them found."""
    found = [t for t in walk([s.value for s in stores]) if isinstance(t, ReduceExpr)]
    return sum(2 if r.reducer in (Reducer.ARGMAX, Reducer.ARGMIN) else 1 for r in found)
