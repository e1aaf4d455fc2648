"""Rows that are reduced and mapped: by lanes, columns, chunks or tiles."""

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.family.component import row_parts
from kernelwright.metal.kernel import Kernel, Program
from kernelwright.metal.lower.program.open_program import open_program
from kernelwright.metal.lower.program.opening import fixed_program
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.rowwise.footprint import (
    columnwise_footprint,
    part_footprint,
    rowwise_footprint,
)
from kernelwright.metal.lower.rowwise.kernel import lower_row_parts, lower_rowwise
from kernelwright.metal.lower.rowwise.split import lower_split
from kernelwright.metal.lower.rowwise.tiled import lower_tiled
from kernelwright.metal.lower.rowwise.tiled_space import tiled_footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import ColumnSplit, Columnwise, Rowwise, Split, Tiled

STRATEGY = "Rows shared by lanes: reduce in as few passes as possible, then map and write."


def _build(graph: Graph, schedule: Rowwise | Columnwise) -> Program:
    return open_program(graph, lambda other, signature: (_kernel(other, signature, schedule),))


def _kernel(graph: Graph, signature: Signature, schedule: Rowwise | Columnwise) -> Kernel:
    parts = row_parts(graph)
    if not parts:
        return lower_rowwise(graph, signature, schedule)
    if not isinstance(schedule, Rowwise):
        raise UnsupportedError("rows of several parts are shared by lanes; use a rowwise schedule.")
    return lower_row_parts(graph, parts, signature, schedule)


def _build_split(graph: Graph, schedule: Split | ColumnSplit) -> Program:
    return fixed_program(graph, lambda other, signature: lower_split(other, signature, schedule))


def _build_tiled(graph: Graph, schedule: Tiled) -> Program:
    return fixed_program(
        graph, lambda other, signature: ((lower_tiled(other, signature, schedule),), ())
    )


def _describe(schedule: Rowwise) -> str:
    return f"{_team(schedule)}, {_vector(schedule)}, {_memory(schedule)}."


def _team(schedule: Rowwise) -> str:
    if schedule.lanes == 1:
        return "One thread a row"
    if schedule.lanes == 32:
        together = f"{schedule.rows} rows" if schedule.rows > 1 else "one row"
        return f"One simdgroup a row, {together} a threadgroup"
    return f"One threadgroup of {schedule.lanes} threads a row"


def _vector(schedule: Rowwise) -> str:
    if schedule.vector == 1:
        return "neighbouring lanes on neighbouring elements"
    return f"{schedule.vector} neighbouring elements a lane"


def _memory(schedule: Rowwise) -> str:
    if schedule.online:
        return "maximum and sum found in one pass"
    return "values kept in registers" if schedule.cached else "values read again in each pass"


def _describe_columns(schedule: Columnwise) -> str:
    kept = ", each keeping what it reads in registers" if schedule.cached else ""
    return f"Neighbouring threads on neighbouring results, {schedule.strips} strips{kept}."


def _describe_column_split(schedule: ColumnSplit) -> str:
    return (
        f"{schedule.chunks} stretches a column reduced first, neighbouring threads on "
        "neighbouring results, what they left in a second kernel."
    )


def _describe_split(schedule: Split) -> str:
    return f"{schedule.chunks} chunks a row reduced first, their results in a second kernel."


def _describe_tiles(schedule: Tiled) -> str:
    return (
        f"{schedule.rows} whole rows in threadgroup memory, moved along memory, "
        f"{schedule.lanes} threads a row."
    )


ROWWISE = Template(Rowwise, _build, rowwise_footprint, _describe, STRATEGY, has_wide_offsets=True)
COLUMNWISE = Template(
    Columnwise, _build, columnwise_footprint, _describe_columns, STRATEGY, has_wide_offsets=True
)
SPLIT = Template(Split, _build_split, part_footprint, _describe_split, STRATEGY)
COLUMN_SPLIT = Template(
    ColumnSplit, _build_split, columnwise_footprint, _describe_column_split, STRATEGY
)
TILED = Template(Tiled, _build_tiled, tiled_footprint, _describe_tiles, STRATEGY)
