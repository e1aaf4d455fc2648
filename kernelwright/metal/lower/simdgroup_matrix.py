"""Lines about simdgroup matrices: one or several rows of them, loops where there are several."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.metal.lower.writer import Writer

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

    def at(self, column: str = "n") -> str:
        """Return the text of one of them, in loops over `m` and `n`."""
        row = "[m]" if self.rows > 1 else ""
        return self.name + row + (f"[{column}]" if self.columns > 1 else "")


@dataclass(frozen=True, slots=True)
class MatrixWriter:
    """Writes what a simdgroup does with its matrices."""

    writer: Writer

    @contextmanager
    def each(self, counter: str, count: int) -> Iterator[None]:
        """Write a loop over what stands in registers, or nothing around a single one."""
        if count == 1:
            yield
            return
        # Arrays stay in registers only where their places are numbers.
        self.writer.line("#pragma unroll")
        with self.writer.block(f"for (uint {counter} = 0; {counter} < {count}; ++{counter})"):
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

    def load_rows(self, kind: str, matrices: Matrices, tile: str, place: str, stride: int) -> None:
        """Declare matrices that stand below each other in a tile, and load them."""
        self.writer.line(f"{_MATRIX}<{kind}, 8, 8> {matrices.name}{matrices.dimensions};")
        with self.each_of(matrices.rows, matrices.columns):
            start = f"{tile} + m * {SIDE * stride}" if matrices.rows > 1 else tile
            start += f" + n * {SIDE}" if matrices.columns > 1 else place
            self.writer.line(f"metal::simdgroup_load({matrices.at()}, {start}, {stride});")

    def multiply(self, kind: str, left: str, place: str, sums: Matrices) -> None:
        """Load a right factor and add its products with the left ones to a column of sums."""
        self.writer.line(f"{_MATRIX}<{kind}, 8, 8> right;")
        self.writer.line(f"metal::simdgroup_load(right, {place});")
        with self.each("m", sums.rows):
            call = f"{sums.at()}, {left}, right, {sums.at()}"
            self.writer.line(f"metal::simdgroup_multiply_accumulate({call});")
