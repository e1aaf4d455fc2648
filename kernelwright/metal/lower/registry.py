"""Every kernel family, and which template a schedule belongs to."""

from collections.abc import Iterable, Iterator
from typing import Never, cast

from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.classify import Pattern
from kernelwright.metal.family.contraction import FEW_TOKENS, dense_sizes
from kernelwright.metal.lower.attention.space import attention_schedules
from kernelwright.metal.lower.attention.template import ATTENTION
from kernelwright.metal.lower.banded import banded_schedules
from kernelwright.metal.lower.banded.template import BANDED
from kernelwright.metal.lower.gemm.space import matmul_schedules
from kernelwright.metal.lower.gemm.template import MATMUL
from kernelwright.metal.lower.gemv.space import dense_schedules
from kernelwright.metal.lower.gemv.template import DENSE
from kernelwright.metal.lower.pointwise.space import elementwise_schedules
from kernelwright.metal.lower.pointwise.template import ELEMENTWISE
from kernelwright.metal.lower.prefill.space import prefill_schedules
from kernelwright.metal.lower.prefill.template import PREFILL
from kernelwright.metal.lower.quantized.space import matvec_schedules
from kernelwright.metal.lower.quantized.template import MATVEC
from kernelwright.metal.lower.rowwise.space import rowwise_schedules
from kernelwright.metal.lower.rowwise.template import (
    COLUMN_SPLIT,
    COLUMNWISE,
    ROWWISE,
    SPLIT,
    TILED,
)
from kernelwright.metal.lower.scan.columns import column_scan_shape
from kernelwright.metal.lower.scan.space import column_scan_schedules, scan_schedules
from kernelwright.metal.lower.scan.template import COLUMN_SCAN, SCAN
from kernelwright.metal.lower.staged.template import STAGED
from kernelwright.metal.lower.template import KernelFamily, Template
from kernelwright.metal.lower.transposed import transposed_schedules
from kernelwright.metal.lower.transposed.template import TRANSPOSED
from kernelwright.metal.schedule import Schedule


def _attention(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    yield from prefill_schedules(graph, device)
    yield from attention_schedules(graph, device)


def _products(graph: Graph, device: DeviceInfo) -> Iterable[Schedule]:
    if dense_sizes(graph).tokens <= FEW_TOKENS:
        return dense_schedules(graph, device)
    return matmul_schedules(graph, device)


def _quantized(graph: Graph, _device: DeviceInfo) -> Iterable[Schedule]:
    return matvec_schedules(graph)


def _scans(graph: Graph, device: DeviceInfo) -> Iterable[Schedule]:
    if column_scan_shape(graph).columns > 1:
        return column_scan_schedules(graph, device)
    return scan_schedules(graph, device)


def _elementwise(graph: Graph, device: DeviceInfo) -> Iterator[Schedule]:
    yield from transposed_schedules(graph, device)
    yield from elementwise_schedules(graph, device)


FAMILIES = (
    KernelFamily(Pattern.MATVEC, _quantized, (MATVEC,)),
    KernelFamily(Pattern.ATTENTION, _attention, (ATTENTION, PREFILL)),
    KernelFamily(Pattern.DENSE, _products, (DENSE, MATMUL)),
    KernelFamily(Pattern.SCAN, _scans, (SCAN, COLUMN_SCAN)),
    KernelFamily(Pattern.ELEMENTWISE, _elementwise, (ELEMENTWISE, TRANSPOSED)),
    KernelFamily(
        Pattern.ROWWISE,
        rowwise_schedules,
        (ROWWISE, COLUMNWISE, SPLIT, COLUMN_SPLIT, STAGED, TILED),
    ),
    KernelFamily(Pattern.PLANE, banded_schedules, (BANDED,)),
)
_BY_PATTERN = {family.pattern: family for family in FAMILIES}
_BY_SCHEDULE: dict[type[Schedule], Template[Never]] = {
    template.schedule: template for family in FAMILIES for template in family.templates
}


def family_of(pattern: Pattern) -> KernelFamily:
    """Return the kernels of a pattern that has any."""
    return _BY_PATTERN[pattern]


def template_of(schedule: Schedule) -> Template[Schedule]:
    """Return what there is to know of a schedule's kernels."""
    return cast("Template[Schedule]", _BY_SCHEDULE[type(schedule)])
