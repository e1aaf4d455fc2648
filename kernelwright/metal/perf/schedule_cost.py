"""What a schedule is expected to take on a chip, before anything is lowered or compiled.

The launches' counters are estimated from graph and schedule, and predicted from as counted ones.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import BufferTraffic, Counters
from kernelwright.metal.family.classify import served
from kernelwright.metal.perf.prediction import predict
from kernelwright.metal.perf.profile import ChipProfile
from kernelwright.metal.perf.residency import SIMD_WIDTH
from kernelwright.metal.perf.traffic import SECTOR_BYTES
from kernelwright.metal.perf.work import Array, Work
from kernelwright.metal.schedule import (
    ColumnSplit,
    Columnwise,
    Elementwise,
    Rowwise,
    Scan,
    Schedule,
    Split,
)

_ACCESS_BYTES = 16
"""The most that a lane reads at once."""
_PARTIAL_BYTES = 4


@dataclass(frozen=True)
class _Launch:
    """How one launch walks over its elements."""

    threads: int
    group_threads: int
    run: int
    """Neighbouring elements of a lane's access."""
    together: int
    """Neighbouring elements that the lanes of a simdgroup read in one access."""
    rounds: int
    """That a simdgroup reads in, one after the other, in all of its passes."""
    keeps: bool
    """True where what is read once serves all passes."""
    kept: int = 0
    """Elements that a lane keeps in registers."""
    skipped: int = 0
    """Passes that are done beside others."""
    barriers: int = 0
    """Of a threadgroup."""
    simd_operations: int = 0
    """Of a simdgroup."""


def expected_us(
    graph: Graph, schedules: Iterable[Schedule], profile: ChipProfile
) -> dict[Schedule, float]:
    """Estimate times in microseconds; families that are not modelled are left out."""
    work = Work.of(served(graph))
    parts = {schedule: _launches(work, schedule) for schedule in schedules}
    return {
        schedule: sum(predict(_counters(part, launch), profile).time_us for part, launch in found)
        for schedule, found in parts.items()
        if found
    }


def _launches(work: Work, schedule: Schedule) -> list[tuple[Work, _Launch]]:
    match schedule:
        case Elementwise():
            return [(work, _elementwise(work, schedule))]
        case Rowwise():
            return [(work, _rowwise(work, schedule))]
        case Scan():
            return [(work, _scan(work, schedule))]
        case Columnwise():
            return [(work, _columnwise(work, schedule))]
        case Split():
            first = _part(work, schedule.chunks)
            row = Rowwise(schedule.lanes, 1, schedule.vector, cached=False)
            return [(first, _rowwise(first, row)), _rest(work, schedule.chunks)]
        case ColumnSplit():
            first = _part(work, schedule.chunks)
            column = Columnwise(schedule.strips, vector=schedule.vector)
            return [(first, _columnwise(first, column)), _rest(work, schedule.chunks)]
    return []


def _elementwise(work: Work, schedule: Elementwise) -> _Launch:
    each = schedule.vector * schedule.unroll * schedule.rows
    return _Launch(
        threads=math.ceil(work.elements / each),
        group_threads=schedule.threads,
        run=schedule.vector,
        together=SIMD_WIDTH * schedule.vector,
        rounds=1,
        keeps=True,
        kept=each,
    )


def _rowwise(work: Work, schedule: Rowwise) -> _Launch:
    skipped = min(int(schedule.online), work.passes - 1)
    steps = math.ceil(work.length / (schedule.lanes * schedule.vector))
    # Threads of a simdgroup on neighbouring rows read neighbours where rows lie across memory.
    rows_together = max(SIMD_WIDTH // schedule.lanes, 1)
    along = schedule.vector * min(schedule.lanes, SIMD_WIDTH)
    exchanges = 0 if schedule.lanes == 1 else 1 + (schedule.lanes > SIMD_WIDTH)
    return _Launch(
        threads=work.rows * schedule.lanes,
        group_threads=schedule.lanes * schedule.rows,
        run=1 if work.is_strided else schedule.vector,
        together=rows_together if work.is_strided else along,
        rounds=1 if schedule.cached else (work.passes - skipped) * steps,
        keeps=schedule.cached,
        kept=steps * schedule.vector if schedule.cached else 0,
        skipped=skipped,
        barriers=2 * work.reductions if schedule.lanes > SIMD_WIDTH else 0,
        simd_operations=work.reductions * exchanges,
    )


def _scan(work: Work, schedule: Scan) -> _Launch:
    steps = math.ceil(work.length / (schedule.lanes * schedule.vector))
    is_shared = schedule.lanes > SIMD_WIDTH
    return _Launch(
        threads=work.rows * schedule.lanes,
        group_threads=schedule.lanes * schedule.rows,
        run=schedule.vector,
        together=SIMD_WIDTH * schedule.vector,
        rounds=steps,
        keeps=True,
        barriers=2 * steps if is_shared else 0,
        simd_operations=steps * (1 + is_shared),
    )


def _columnwise(work: Work, schedule: Columnwise) -> _Launch:
    skipped = min(int(schedule.online), work.passes - 1)
    steps = math.ceil(work.length / schedule.strips)
    return _Launch(
        threads=math.ceil(work.rows / schedule.vector) * schedule.strips,
        group_threads=SIMD_WIDTH * schedule.strips,
        run=schedule.vector,
        together=SIMD_WIDTH * schedule.vector,
        rounds=1 if schedule.cached else (work.passes - skipped) * steps,
        keeps=schedule.cached,
        kept=steps if schedule.cached else 0,
        skipped=skipped,
        barriers=2 * work.reductions,
    )


def _part(work: Work, chunks: int) -> Work:
    """Return the first of two launches: `chunks` times as many rows, of a part of the length."""
    outputs = (Array(work.rows * chunks, _PARTIAL_BYTES),)
    rows, length = work.rows * chunks, max(work.length // chunks, 1)
    return replace(work, rows=rows, length=length, outputs=outputs)


def _rest(work: Work, chunks: int) -> tuple[Work, _Launch]:
    """Return the second: it joins what the first has left."""
    left = replace(
        work,
        elements=work.rows * chunks,
        length=chunks,
        inputs=(Array(work.rows * chunks, _PARTIAL_BYTES),),
        passes=1,
        floats=(work.rows * chunks,) * 2,
        specials=(0, 0),
        is_strided=False,
    )
    return left, _rowwise(left, Rowwise(SIMD_WIDTH, 4, 1, cached=False))


def _counters(work: Work, launch: _Launch) -> Counters:
    simdgroups = math.ceil(launch.threads / SIMD_WIDTH)
    groups = math.ceil(launch.threads / launch.group_threads)
    buffers = [_read(work, launch, array) for array in work.inputs]
    if buffers:
        # A simdgroup waits once for all reads of a round.
        rounds = launch.rounds * simdgroups
        looped = rounds - simdgroups if launch.rounds > 1 else 0
        buffers[0] = buffers[0].model_copy(update={"read_rounds": rounds, "looped_rounds": looped})
    buffers += [_written(launch, array) for array in work.outputs]
    return Counters(
        kernel="estimate",
        threads=launch.threads,
        threadgroups=groups,
        thread_array_bytes=4 * launch.kept,
        buffers=tuple(buffers),
        barriers=launch.barriers * groups,
        simd_operations=launch.simd_operations * simdgroups,
        float_operations=work.floats[not launch.keeps],
        special_operations=work.specials[not launch.keeps],
        integer_operations=2 * sum(b.reads for b in buffers) * SIMD_WIDTH,
    )


def _read(work: Work, launch: _Launch, array: Array) -> BufferTraffic:
    """Estimate what an input costs: what has fewer elements is read again for each of them."""
    passes = 1 if launch.keeps else max(array.passes - launch.skipped, 1)
    is_of_row = array.size <= work.rows < work.elements
    run = launch.run if array.has_runs else 1
    wanted = passes * (array.size if is_of_row else work.elements * run // launch.run)
    together = launch.together if array.has_runs else SIMD_WIDTH
    sectors = math.ceil(wanted / together) * math.ceil(together * array.width / SECTOR_BYTES)
    unique = math.ceil(array.size * array.width / SECTOR_BYTES)
    accesses = math.ceil(run * array.width / _ACCESS_BYTES)
    return BufferTraffic(
        name="input",
        bytes_read=wanted * array.width,
        sectors_read=max(sectors, unique),
        reads=math.ceil(wanted / (SIMD_WIDTH * run)) * accesses,
        group_sectors_read=max(sectors // passes, unique),
        unique_bytes_read=array.size * array.width,
        unique_sectors_read=unique,
    )


def _written(launch: _Launch, array: Array) -> BufferTraffic:
    apart = math.ceil(array.size / launch.together)
    sectors = apart * math.ceil(launch.together * array.width / SECTOR_BYTES)
    unique = math.ceil(array.size * array.width / SECTOR_BYTES)
    return BufferTraffic(
        name="output",
        bytes_written=array.size * array.width,
        sectors_written=max(sectors, unique),
        writes=math.ceil(array.size / (SIMD_WIDTH * launch.run)),
        unique_bytes_written=array.size * array.width,
        unique_sectors_written=unique,
    )
