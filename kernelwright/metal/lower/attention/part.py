"""What each simdgroup of an attention leaves for its threadgroup: maxima, totals and sums."""

from dataclasses import dataclass

from kernelwright.metal.lower.attention.layout import Layout
from kernelwright.metal.lower.attention.registers import Registers, each
from kernelwright.metal.lower.attention.weight import Weighing
from kernelwright.metal.lower.emit.layout import Block, surround
from kernelwright.metal.lower.emit.run import Run
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.schedule import Attention


@dataclass(frozen=True, slots=True)
class Leaving:
    """Adds up what the lanes of a simdgroup found, and leaves it where all of them see it."""

    writer: Writer
    registers: Registers
    weighing: Weighing

    @property
    def layout(self) -> Layout:
        """Which lane has what."""
        return self.registers.layout

    @property
    def schedule(self) -> Attention:
        """How the kernel is laid out."""
        return self.layout.schedule

    def write(self) -> None:
        """Write it, up to where every simdgroup may read what the others left."""
        writer, schedule = self.writer, self.schedule
        self._add_totals()
        if schedule.lanes < 32 and not self._slots_share:
            self._add_values()
        rows, count = schedule.queries, schedule.simdgroups
        shape = f"[{count}][{rows}]" if rows > 1 else f"[{count}]"
        writer.line(f"threadgroup float partial_peak{shape};")
        writer.line(f"threadgroup float partial_total{shape};")
        writer.line(f"threadgroup float partial_value{shape}[{self._width}];")
        self._leave_totals()
        with each(writer, "row", rows):
            if self._slots_share:
                self._leave_shares()
            else:
                self._leave_values()
        writer.line("// Every simdgroup's part is written before any is read.")
        writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")

    @property
    def _slots_share(self) -> bool:
        """True where each slot adds up some of a lane's features, and leaves those."""
        return 1 < self.layout.slots <= self.layout.vector

    def _add_totals(self) -> None:
        apart, total = self.layout.deal.apart, self.weighing.of_query("total")
        if apart < 32:
            with self.weighing.each_query():
                self.writer.line(f"{total} = {_sum_apart(apart, total)};")

    def _add_values(self) -> None:
        place = self.registers.place("attended", self._width)
        with (
            each(self.writer, "row", self.schedule.queries),
            self.registers.each_element(self.writer, self._width),
        ):
            self.writer.line(f"{place} = {_sum_apart(self.schedule.lanes, place)};")

    def _leave_totals(self) -> None:
        deal, weighing = self.layout.deal, self.weighing
        place = f"[simdgroup][{weighing.query}]" if self.schedule.queries > 1 else "[simdgroup]"
        first = "0" if deal.queries == 1 else "own_query"
        first += f" * {deal.alike}" if deal.queries > 1 and deal.alike > 1 else ""

        def body(inner: Writer) -> list[Run]:
            for name in ("peak", "total"):
                inner.line(f"partial_{name}{place} = {weighing.of_query(name)};")
            return []

        with (
            self.writer.block(f"if (thread_index_in_simdgroup == {first})"),
            weighing.each_query(),
        ):
            surround(self.writer, weighing.query_lines(), body)

    def _leave_shares(self) -> None:
        slots, vector = self.layout.slots, self.layout.vector
        turns = [Block(f"for (uint i = 0; i < {vector}; i += {slots})")] if vector > slots else []
        turn = ["i"] * len(turns)
        part = [f"part * {vector}"] * (self.layout.parts(self._width) > 1)
        first = " + ".join([self.registers.of_row("attended"), *part, *turn])
        feature = " + ".join(["start", *turn, "slot"])

        def body(inner: Writer) -> list[Run]:
            total = f"own_sum<{slots}, {self.schedule.lanes}>({first}, slot)"
            inner.line(f"{self._partial_value}[{feature}] = {total};")
            return []

        runs = self.registers.runs(self._width)
        surround(self.writer, (*self.registers.query_line, *runs, *turns), body)

    def _leave_values(self) -> None:
        def body(inner: Writer) -> list[Run]:
            attended = self.registers.place("attended", self._width)
            inner.line(f"{self._partial_value}[{self.registers.feature}] = {attended};")
            return []

        alone = [Block("if (slot == 0)")] if self.layout.slots > 1 else []
        around = self.registers.around(self._width)
        surround(self.writer, (*alone, *self.registers.query_line, *around), body)

    @property
    def _width(self) -> int:
        return self.layout.attended.sizes.width

    @property
    def _partial_value(self) -> str:
        """Where a simdgroup leaves a row's values."""
        query = "row" if self.layout.deal.queries == 1 else "query"
        several = f"[{query}]" if self.schedule.queries > 1 else ""
        return f"partial_value[simdgroup]{several}"


def _sum_apart(apart: int, text: str) -> str:
    """Return the text of a sum over lanes of a simdgroup that stand `apart` from each other."""
    return f"lanes_sum<32, {apart}>({text})" if apart > 1 else f"metal::simd_sum({text})"
