"""Lines about simdgroup matrices: one or several rows of them, loops where there are several."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.metal.lower.emit.writer import Writer

SIDE = 8
"""Rows and columns of a simdgroup matrix: Metal has no other size."""
_MATRIX = "metal::simdgroup_matrix"


@dataclass(frozen=True, slots=True)
class Matrices:
    """Matrices of floats that a simdgroup holds, `rows` below each other and `columns` beside."""

    name: str
    rows: int
    columns: int

    @property
    def dimensions(self) -> str:
        """The dimensions of their array."""
        return "".join(f"[{n}]" for n in (self.rows, self.columns) if n > 1)

    def at(self, column: str = "n", row: str = "m") -> str:
        """Return the text of one of them, in loops over `m` and `n`."""
        below = f"[{row}]" if self.rows > 1 else ""
        return self.name + below + (f"[{column}]" if self.columns > 1 else "")


@dataclass(frozen=True, slots=True)
class MatrixWriter:
    """Writes what a simdgroup does with its matrices."""

    writer: Writer

    @contextmanager
    def each(self, counter: str, count: int, *, step: int = 1) -> Iterator[None]:
        """Write a loop over what stands in registers, or nothing around a single one."""
        if count == 1:
            yield
            return
        # Arrays stay in registers only where their places are numbers.
        self.writer.line("#pragma unroll")
        onward = f"++{counter}" if step == 1 else f"{counter} += {step}"
        with self.writer.block(f"for (uint {counter} = 0; {counter} < {count}; {onward})"):
            yield

    @contextmanager
    def each_of(self, rows: int, columns: int) -> Iterator[None]:
        """Write the loops over rows and columns of matrices."""
        with self.each("m", rows), self.each("n", columns):
            yield

    def declare(self, matrices: Matrices) -> None:
        """Declare matrices of zeros."""
        self.writer.line(f"{_MATRIX}<float, 8, 8> {matrices.name}{matrices.dimensions};")
        with self.each_of(matrices.rows, matrices.columns):
            zero = "metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f)"
            self.writer.line(f"{matrices.at()} = {zero};")

    def load(self, kind: str, name: str, place: str) -> None:
        """Declare a factor and load it."""
        self.writer.line(f"{_MATRIX}<{kind}, 8, 8> {name};")
        self.writer.line(f"metal::simdgroup_load({name}, {place});")

    def declare_factors(self, kind: str, matrices: Matrices) -> None:
        """Declare matrices that are loaded later."""
        self.writer.line(f"{_MATRIX}<{kind}, 8, 8> {matrices.name}{matrices.dimensions};")

    def load_row(self, matrices: Matrices, place: str, stride: int) -> None:
        """Load the matrices that stand beside each other in a tile, in a loop over `m`."""
        with self.each("n", matrices.columns):
            start = f"{place} + n * {SIDE}" if matrices.columns > 1 else place
            self.writer.line(f"metal::simdgroup_load({matrices.at()}, {start}, {stride});")

    def multiply(self, left: Matrices, right: str, sums: Matrices, column: str = "i") -> None:
        """Add products of a column of left factors with a right one to column `n` of sums.

        Two stand behind each other where rows are even: a tensor core takes both at once.
        """

        def line(row: str) -> None:
            total = sums.at(row=row)
            call = f"{total}, {left.at(column, row=row)}, {right}, {total}"
            self.writer.line(f"metal::simdgroup_multiply_accumulate({call});")

        if sums.rows == 2:
            line("0")
            line("1")
            return
        is_even = sums.rows % 2 == 0
        with self.each("m", sums.rows, step=2 if is_even else 1):
            line("m")
            if is_even:
                line("m + 1")
