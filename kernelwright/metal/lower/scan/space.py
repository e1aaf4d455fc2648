"""Which scans a graph has on a device, the best guess first, and what each takes on chip."""

import math
from collections.abc import Iterator
from itertools import product

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower.emit.running import is_wide, scanned
from kernelwright.metal.lower.emit.width import legal_widths
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.resource import (
    BYTES_IN_FLIGHT,
    MANY_THREADS,
    MAXIMUM_KEPT,
    SHORT_ROW,
    WORKING_REGISTERS,
    Footprint,
)
from kernelwright.metal.lower.scan.columns import column_scan_shape, column_scan_stores
from kernelwright.metal.lower.scan.rows import scan_shape, scan_stores
from kernelwright.metal.schedule import ColumnScan, Scan, Schedule


def column_scan_schedules(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    """Yield scans along an outer axis, those first that keep a GPU busy with wide reads."""
    shape, signature = column_scan_shape(graph), Signature.of(graph)
    first = ColumnScan(1, 1, 1)
    words = sum(
        2 if is_wide(s) else 1 for s in scanned(column_scan_stores(graph, signature, first))
    )
    found = []
    for vector, strips, depth in product(legal_widths(graph), (32, 16, 8, 4), (8, 4, 2, 1)):
        schedule = ColumnScan(strips, depth, vector)
        is_long = strips * depth > shape.length and (strips, depth) != (4, 1)
        taken = column_scan_footprint(graph, schedule) if shape.columns % vector == 0 else None
        if taken is None or is_long or strips * 32 > device.threads_per_threadgroup:
            continue
        fits = taken.threadgroup_bytes <= device.threadgroup_bytes
        if fits and words * vector * (depth + 3) <= MAXIMUM_KEPT:
            found.append(schedule)
    results = shape.planes * shape.columns

    def strangeness(s: ColumnScan) -> tuple[float, ...]:
        threads = results // s.vector * s.strips
        lanes = min(shape.columns // s.vector, 32)
        idle = abs(math.log2(max(threads, 1) / MANY_THREADS)) if threads < MANY_THREADS else 0.0
        in_flight = abs(math.log2(s.vector * s.depth / BYTES_IN_FLIGHT))
        return (idle + in_flight + 2 * math.log2(32 / lanes), -s.vector)

    return iter(sorted(found, key=strangeness))


def scan_schedules(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    """Yield scans, those that take a row in one tile or a few first."""
    rows, columns = scan_shape(graph)
    scan_stores(graph, Signature.of(graph), rows, columns)
    sequences = [Scan(1, threads, 1) for threads in (64, 256)]
    vectors = [v for v in legal_widths(graph) if columns % v == 0]
    lanes = [n for n in (32, 64, 128, 256, 512, 1024) if n <= device.threads_per_threadgroup]
    found = [
        Scan(n, rows_together, v)
        for n in lanes
        for v in vectors
        if n == 32 or n * v < 2 * columns
        for rows_together in ((4, 1, 8) if n == 32 else (1,))
    ]
    wanted = min(columns, 1024)
    found.sort(
        key=lambda s: (
            s.lanes == 32 and s.rows != 4,
            abs(math.log2(s.lanes * s.vector / wanted)),
            -s.vector,
        )
    )
    return iter([*sequences, *found] if columns <= SHORT_ROW else found)


def scan_footprint(graph: Graph, schedule: Scan) -> Footprint:
    """Estimate what a scan along rows takes on chip."""
    found = scanned(scan_stores(graph, Signature.of(graph), *scan_shape(graph)))
    shared = schedule.lanes // 32 if schedule.lanes > 32 else 0
    words = sum(2 if is_wide(scan) else 1 for scan in found)
    return Footprint(WORKING_REGISTERS + schedule.vector * words, 4 * shared * words)


def column_scan_footprint(graph: Graph, schedule: ColumnScan) -> Footprint:
    """Estimate what a scan along an outer axis takes on chip."""
    found = scanned(column_scan_stores(graph, Signature.of(graph), schedule))
    words = schedule.vector * sum(2 if is_wide(scan) else 1 for scan in found)
    shared = 4 * 32 * schedule.strips * words
    return Footprint(WORKING_REGISTERS + (schedule.depth + 3) * words, shared)
