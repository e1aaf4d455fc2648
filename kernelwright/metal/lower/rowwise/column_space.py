"""Which schedules reductions across memory have, those that read runs first."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel_ir.expression import Store
from kernelwright.metal.lower.emit.width import preferred_width
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import (
    MANY_THREADS,
    MAXIMUM_KEPT,
    REGISTERS_OF_A_CORE,
    WORKING_REGISTERS,
)
from kernelwright.metal.lower.rowwise.footprint import partial_arrays
from kernelwright.metal.lower.rowwise.kernel import lower_rowwise
from kernelwright.metal.lower.rowwise.passes import loops, register_count
from kernelwright.metal.lower.rowwise.split import lower_split
from kernelwright.metal.lower.rowwise.stores import row_count
from kernelwright.metal.schedule import ColumnSplit, Columnwise, Rowwise, Schedule

_FEWEST_RUNS = 32
"""Runs of results that keep a simdgroup's lanes busy."""
_MOST_TERMS = 256
"""That a thread adds up one after the other: where the terms are equal, as in a constant column,
their roundings do not average out, and a mean that is taken from them leaves nothing but those."""
_FEW_STEPS, _TRIED_KEPT = 16, 4
"""Elements of a column that a thread keeps best, and how many such schedules are tried early."""


def kept_column_schedules(
    graph: Graph,
    stores: list[Store],
    columns: int,
    rowwise: Sequence[Rowwise],
    device: DeviceInfo,
) -> list[Schedule]:
    """Return schedules that read a column once and keep it in registers between passes.

    A thread has all of a short column, so that none waits for another; strips share longer ones.
    """
    results, sequence = row_count(graph), loops(stores, online=False)
    found: list[Columnwise | Rowwise] = [s for s in rowwise if s.lanes == 1 and s.cached]
    for strips in (2, 4, 8, 16, 32):
        kept = register_count(sequence, strips, 1)
        threads = 32 * strips
        is_resident = threads * (kept + WORKING_REGISTERS) <= REGISTERS_OF_A_CORE
        shared = 4 * threads * partial_arrays(stores)
        fits = shared <= device.threadgroup_bytes and threads <= device.threads_per_threadgroup
        if 0 < kept <= MAXIMUM_KEPT and is_resident and fits and strips <= columns:
            found.append(Columnwise(strips, cached=True))

    def strangeness(s: Columnwise | Rowwise) -> float:
        strips = s.strips if isinstance(s, Columnwise) else 1
        idle = max(math.log2(MANY_THREADS / 4 / max(results * strips, 1)), 0.0)
        return abs(math.log2(columns / strips / _FEW_STEPS)) + 2 * idle

    return list[Schedule](sorted(found, key=strangeness)[:_TRIED_KEPT])


def columnwise_schedules(
    stores: list[Store],
    columns: int,
    vectors: Sequence[int],
    device: DeviceInfo,
    *,
    has_pairs: bool,
) -> Iterator[Columnwise]:
    """Yield schedules of reductions across memory, those that read runs first."""
    places = 4 * 32 * partial_arrays(stores)
    by_order = sorted((8, 16, 4, 32, 2), key=lambda strips: columns > _MOST_TERMS * strips)
    for vector in vectors:
        for strips in by_order:
            fits = strips <= columns and strips * vector * places <= device.threadgroup_bytes
            if not fits:
                continue
            yield Columnwise(strips, vector=vector)
            if has_pairs and vector == 1:
                yield Columnwise(strips, online=True)


def runs_of_results(graph: Graph, device: DeviceInfo) -> list[int]:
    """Return how many neighbouring results a thread may take, what reads best first."""
    signature, rows, found = Signature.of(graph), row_count(graph), []
    for vector in (preferred_width(graph, device), 2):
        schedule = Columnwise(2, vector=vector)
        try:
            lower_rowwise(graph, signature, schedule)
        except UnsupportedError:
            continue
        if rows >= _FEWEST_RUNS * vector:
            found.append(vector)
    return [*found, 1]


def column_split_schedules(graph: Graph, columns: int, vectors: Sequence[int]) -> list[Schedule]:
    """Return ways to divide long reductions across memory among threadgroups."""
    signature, found = Signature.of(graph), []
    if any(t.size != row_count(graph) for t in graph.output_types):
        return []
    for vector, chunks, strips in product(vectors, (16, 32, 64, 8), (8, 4)):
        if columns % chunks == 0 and columns // chunks >= 4 * strips:
            schedule = ColumnSplit(chunks, strips, vector)
            try:
                lower_split(graph, signature, schedule)
            except UnsupportedError:
                return []
            found.append(schedule)
    return list[Schedule](found)
