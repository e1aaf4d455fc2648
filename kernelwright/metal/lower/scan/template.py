"""Running values along rows or columns, with elementwise work before and after."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower.program.open_program import open_program
from kernelwright.metal.lower.program.opening import fixed_program
from kernelwright.metal.lower.rowwise.template import STRATEGY
from kernelwright.metal.lower.scan.columns import lower_column_scan
from kernelwright.metal.lower.scan.rows import lower_scan
from kernelwright.metal.lower.scan.space import column_scan_footprint, scan_footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import ColumnScan, Scan


def _build(graph: Graph, schedule: Scan) -> Program:
    return open_program(graph, lambda other, signature: (lower_scan(other, signature, schedule),))


def _build_columns(graph: Graph, schedule: ColumnScan) -> Program:
    return fixed_program(
        graph, lambda other, signature: ((lower_column_scan(other, signature, schedule),), ())
    )


def _describe(schedule: Scan) -> str:
    return (
        f"{schedule.lanes} threads a row, {schedule.vector} elements each, joined by a "
        "prefix over the lanes and a carry from tile to tile."
    )


def _describe_columns(schedule: ColumnScan) -> str:
    return (
        f"Neighbouring threads on neighbouring results, {schedule.strips} strips of "
        f"{schedule.depth} elements each, joined by what they add up to."
    )


SCAN = Template(
    schedule=Scan,
    build=_build,
    footprint=scan_footprint,
    describe=_describe,
    strategy="Rows shared by lanes: a running value carried along, mapped and written.",
)
COLUMN_SCAN = Template(
    ColumnScan, _build_columns, column_scan_footprint, _describe_columns, STRATEGY
)
