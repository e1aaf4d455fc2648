"""Running values: what a scan begins with, and how it takes the next element in."""

from collections.abc import Sequence

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import ScanExpr, Scanner, Store, walk
from kernelwright.metal.lower.emit.accumulator import highest, lowest
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_COMBINATIONS = {
    Scanner.SUM: "{0} + {1}",
    Scanner.PRODUCT: "{0} * {1}",
    Scanner.LOGSUMEXP: "logaddexp({0}, {1})",
}
_LARGER = {
    Scanner.MAXIMUM: ("larger({0}, {1})", "metal::max({0}, {1})"),
    Scanner.MINIMUM: ("smaller({0}, {1})", "metal::min({0}, {1})"),
}
_COMPOUND = {Scanner.SUM: "+=", Scanner.PRODUCT: "*="}


def scanned(stores: Sequence[Store]) -> list[ScanExpr]:
    """Return the scans that some stores need."""
    return [t for t in walk([s.value for s in stores]) if isinstance(t, ScanExpr)]


def is_wide(scan: ScanExpr) -> bool:
    """Say whether running values are kept as fraction and exponent.

    A part of a row may overflow that meets a zero before it, and even in sequence a product may
    leave the range of its type and come back.
    """
    return scan.scanner is Scanner.PRODUCT and scan.dtype.is_float


def kind_of(scan: ScanExpr) -> str:
    """Return the type of a running value, as MSL."""
    return "float2" if is_wide(scan) else MSL_TYPE[scan.dtype]


def word_of(scan: ScanExpr) -> str:
    """Return what the functions that combine running values are named after."""
    if scan.scanner in _LARGER and not scan.dtype.is_float:
        return scan.scanner.value[:3]
    return f"wide_{scan.scanner}" if is_wide(scan) else scan.scanner.value


def taken(scan: ScanExpr, value: str) -> str:
    """Return an element as a running value."""
    return f"wide_of({value})" if is_wide(scan) else value


def bind_result(writer: Writer, scan: ScanExpr, running: str) -> None:
    """Let a variable hold what a running value is worth."""
    if not running.isidentifier() or is_wide(scan):
        text = f"float_of({running})" if is_wide(scan) else running
        running = writer.fresh(scan.name)
        writer.line(f"{MSL_TYPE[scan.dtype]} {running} = {text};")
    writer.bind(scan, running)


def combination(scan: ScanExpr, left: str, right: str) -> str:
    """Return two running values combined, the earlier one on the left, as MSL."""
    if is_wide(scan):
        return f"wide_product({left}, {right})"
    if scan.scanner in _LARGER:
        return _LARGER[scan.scanner][not scan.dtype.is_float].format(left, right)
    return _COMBINATIONS[scan.scanner].format(left, right)


def step_of(scan: ScanExpr, total: str, value: str) -> str:
    """Return the statement that takes one element into a running value."""
    if scan.scanner in _COMPOUND and not is_wide(scan):
        return f"{total} {_COMPOUND[scan.scanner]} {value};"
    return f"{total} = {combination(scan, total, taken(scan, value))};"


def identity(scan: ScanExpr) -> str:
    """Return what a scan begins with, as MSL."""
    is_float = scan.dtype is Dtype.FLOAT32
    match scan.scanner:
        case Scanner.SUM:
            return "0.0f" if is_float else "0"
        case Scanner.PRODUCT:
            return "wide_of(1.0f)" if is_float else "1"
        case Scanner.MINIMUM:
            return highest(scan.dtype)
    return lowest(scan.dtype)
