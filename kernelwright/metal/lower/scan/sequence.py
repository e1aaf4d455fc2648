"""Scans in sequence: a thread walks along a row and carries its running values."""

from dataclasses import dataclass

from kernelwright.metal.kernel_ir.expression import ScanExpr
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.running import bind_result, identity, kind_of, scanned, step_of
from kernelwright.metal.lower.rowwise.body import Rows
from kernelwright.metal.lower.term.build import REDUCED_AXIS


@dataclass
class SequentialRows(Rows):
    """One scan kernel being written, a thread a row."""

    def write(self) -> str:
        """Return the kernel's body."""
        writer, scans = self.writer, scanned(self.stores)
        writer.factors = {self.columns: "columns"} if self.columns > 1 else {}
        writer.taken |= {"columns"}
        self._pointers()
        totals = {scan: writer.fresh(scan.scanner.value) for scan in scans}
        for scan, total in totals.items():
            writer.line(f"{kind_of(scan)} {total} = {identity(scan)};")
        axis = Axis(REDUCED_AXIS, self.columns)
        writer.prepare([s.body for s in scans] + [s.value for s in self.stores], (axis,))
        with writer.block(_walk(is_reverse=scans[0].is_reverse)):
            self._step({s: t for s, t in totals.items() if s.is_inclusive})
            for scan, total in totals.items():
                bind_result(writer, scan, total)
            writer.prepare([s.value for s in self.stores])
            for store in self.stores:
                writer.store(store)
            self._step({s: t for s, t in totals.items() if not s.is_inclusive})
        return "\n".join([*self._head(), *writer.lines]) + "\n"

    def _step(self, totals: dict[ScanExpr, str]) -> None:
        """Take the element where the thread stands into some running values."""
        self.writer.prepare([scan.body for scan in totals])
        for scan, total in totals.items():
            self.writer.line(step_of(scan, total, self.writer.expression(scan.body).text))


def _walk(*, is_reverse: bool) -> str:
    if is_reverse:
        return "for (uint column = columns; column-- > 0;)"
    return "for (uint column = 0; column < columns; ++column)"
