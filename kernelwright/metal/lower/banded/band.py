"""The kernel of bands: rows one after the other, their columns joined in registers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.family.reducer import REDUCERS
from kernelwright.metal.kernel_ir.expression import ReduceExpr, Reducer, Store
from kernelwright.metal.lower.emit.accumulator import identity, step
from kernelwright.metal.lower.emit.layout import Block, Walk
from kernelwright.metal.lower.emit.writer import INDENT, Writer
from kernelwright.metal.lower.rowwise.body import Rows
from kernelwright.metal.lower.rowwise.passes import Loop, loops, per_lane
from kernelwright.metal.schedule import Banded, Rowwise
from kernelwright.metal.target.msl.precedence import Binding
from kernelwright.metal.target.msl.spelling import MSL_TYPE


@dataclass(frozen=True)
class Matrix:
    """The sizes of what is walked over."""

    planes: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Column:
    """What the columns of a band join to."""

    name: str
    """Its variable in a lane."""
    reduced: ReduceExpr


@dataclass
class BandRows(Rows):
    """Rows whose elements some stores join with those above and below."""

    joins: Mapping[str, str] = field(default_factory=dict)
    """How a store's elements are joined, by the name of its array."""
    kept: dict[str, Column] = field(default_factory=dict)

    def write_bands(self, matrix: Matrix, banded: Banded, types: Mapping[str, Dtype]) -> str:
        """Return the kernel's body; `types` are those of the arrays that take what is joined."""
        outer, self.columns = self.writer, matrix.columns
        outer.factors = {matrix.columns: "columns"}
        outer.taken |= {"columns", "rows", "tile", "strip", "first", "last", "row", "lane"}
        self._declare_columns(types)
        outer.taken |= {column.name for column in self.kept.values()}
        self.writer = outer.branch()
        sequence = loops(self.stores, online=False)
        self._write_loops(sequence)
        shared = [line for line in self.writer.lines if line.startswith("threadgroup ")]
        body = [line for line in self.writer.lines if line not in shared]
        head = self._band_head(matrix, banded)
        self.writer = outer
        # Arrays of a threadgroup stand where the kernel begins.
        outer.lines += shared
        outer.line(f"for (uint row = first + strip; row < last; row += {banded.teams}) {{")
        if shared:
            outer.line(f"{INDENT}// Every simdgroup has read what it needs of the row before.")
            outer.line(f"{INDENT}threadgroup_barrier(metal::mem_flags::mem_threadgroup);")
        outer.lines += [f"{INDENT}{line}" for line in body]
        outer.line("}")
        write = self._write_joined if banded.teams > 1 else self._write_columns
        for array, column in self.kept.items():
            write(array, column, types[array], banded)
        return "\n".join([*head, *outer.lines]) + "\n"

    def _band_head(self, matrix: Matrix, banded: Banded) -> list[str]:
        span = banded.teams * banded.depth
        bands = -(-matrix.rows // span)
        head = [f"constexpr uint columns = {matrix.columns};"]
        head.append("uint tile = threadgroup_position_in_grid.y;")
        head.append("uint strip = thread_position_in_threadgroup.y;")
        head += [line for line in self._row_head(banded.lanes)[1:] if self._is_read(line)]
        if not any(" lane " in line for line in head):
            head.append("uint lane = thread_position_in_threadgroup.x;")
        if matrix.planes == 1:
            head.append(f"uint first = tile * {span};")
            head.append(f"uint last = metal::min(first + {span}, {matrix.rows}u);")
            return head
        head.append(f"uint first = tile / {bands} * {matrix.rows} + tile % {bands} * {span};")
        head.append(
            f"uint last = metal::min(first + {span}, (tile / {bands} + 1) * {matrix.rows});"
        )
        return head

    def _declare_columns(self, types: Mapping[str, Dtype]) -> None:
        assert isinstance(self.schedule, Rowwise)
        for store in self.stores:
            if (op := self.joins.get(store.array)) is None:
                continue
            axis = next(a for a in store.offset.axes if a.name == "column")
            walk_ = self._walk(axis)
            dtype, name = types[store.array], self.writer.fresh("joined")
            reduced = ReduceExpr(dtype, name, -1, REDUCERS[op], store.value, axis)
            start, kind = identity(reduced), MSL_TYPE[dtype]
            size = per_lane(axis, self.schedule.lanes, self.schedule.vector) if walk_.slot else 0
            self.writer.line(f"{kind} {name}{f'[{size}]' if size else f' = {start}'};")
            if size:
                with self.writer.block(f"for (uint i = 0; i < {size}; ++i)"):
                    self.writer.line(f"{name}[i] = {start};")
            self.kept[store.array] = Column(name, reduced)

    def _leave(self, inner: Writer, store: Store, walk_: Walk | None) -> None:
        column = self.kept.get(store.array)
        if column is None or walk_ is None:
            super()._leave(inner, store, walk_)
            return
        value = inner.expression(store.value)
        is_logical = column.reduced.reducer in (Reducer.ALL, Reducer.ANY)
        text = value.inside(Binding.EQUAL) if is_logical else value.text
        inner.line(step(column.reduced, f"{column.name}{walk_.slot}", text))

    def _find_uneven(self, sequence: Sequence[Loop]) -> None:
        """Leave rows as they are: a lane's columns are those of every row."""

    def _in_memory(self, stores: Sequence[Store]) -> list[Store]:
        return [store for store in stores if store.array not in self.kept]

    def _write_columns(self, array: str, column: Column, dtype: Dtype, banded: Banded) -> None:
        self._each_column(column, f"{array}[tile * columns + column] = {{0}};")

    def _write_joined(self, array: str, column: Column, dtype: Dtype, banded: Banded) -> None:
        writer, partial = self.writer, self.writer.fresh(f"partial_{column.name}")
        kind, teams = MSL_TYPE[dtype], banded.teams
        writer.line(f"threadgroup {kind} {partial}[{teams} * columns];")
        self._each_column(column, f"{partial}[strip * columns + column] = {{0}};")
        writer.line("// Every strip's columns are written before any is read.")
        writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")
        start = f"strip * {banded.lanes} + lane"
        threads = banded.lanes * teams
        head = f"for (uint column = {start}; column < columns; column += {threads})"
        with writer.block(head):
            writer.line(f"{kind} whole = {partial}[column];")
            with writer.block(f"for (uint other = 1; other < {teams}; ++other)"):
                value = f"{partial}[other * columns + column]"
                writer.line(step(column.reduced, "whole", value))
            writer.line(f"{array}[tile * columns + column] = whole;")

    def _each_column(self, column: Column, statement: str) -> None:
        """Write a statement for every column of a lane, `{0}` being what it holds of it."""
        assert isinstance(self.schedule, Rowwise)
        walk_ = self._walk(column.reduced.axis)
        depth = 0
        # The lines of a walk without a block around them would stand twice.
        self.writer.line("{")
        depth += 1
        for part in walk_.around:
            is_block = isinstance(part, Block)
            text = f"{part.head} {{" if isinstance(part, Block) else part.text
            self.writer.line(f"{INDENT * depth}{text}")
            depth += is_block
        self.writer.line(f"{INDENT * depth}{statement.format(column.name + walk_.slot)}")
        for level in reversed(range(depth)):
            self.writer.line(f"{INDENT * level}}}")
