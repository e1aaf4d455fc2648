"""Reductions across memory in runs: each thread takes neighbouring results at once."""

from collections.abc import Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.metal.kernel_ir.expression import ReduceExpr, Reducer, Store
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.emit.accumulator import identity, step, update
from kernelwright.metal.lower.emit.layout import Block, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.rowwise.passes import Loop, column_of, loops
from kernelwright.metal.schedule import Columnwise
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_LANES = 32
_PLACE = f"k * {_LANES} + lane"
"""Of a thread's k-th result in a strip: neighbouring lanes meet different banks."""
_JOINED = frozenset({Reducer.SUM, Reducer.PRODUCT, Reducer.MAXIMUM, Reducer.MINIMUM})


def place_in_runs(rows: int, vector: int) -> Index:
    """Return the place of a result as `run * vector + k`.

    Raises:
        UnsupportedError: the results are no whole number of runs.
    """
    if rows % vector:
        raise UnsupportedError(f"{rows} results are no runs of {vector}; use vector=1.")
    return Index.of(Axis("run", rows // vector)) * vector + Index.of(Axis("k", vector))


def write_column_runs(writer: Writer, stores: Sequence[Store], schedule: Columnwise) -> str:
    """Return the body of a kernel whose stores stand at `place_in_runs()`.

    Raises:
        UnsupportedError: results need more than one walk along what is reduced.
    """
    loop = _only_loop(stores)
    strips, vector = schedule.strips, schedule.vector
    writer.factors = {loop.axis.extent: "columns"}
    writer.taken |= {"columns"}
    span_ = Span(Axis("k", vector), vector, first="")
    neighbours = Block(f"for (uint k = 0; k < {vector}; ++k)", is_span=True)
    writer.prepare(loop.roots, (loop.axis, span_.axis))
    names = {reduced: _declare(writer, reduced, vector) for reduced in loop.reduced}

    def reduce(inner: Writer) -> list[Run]:
        runs = span_.bind(inner, loop.roots, ())
        inner.prepare(loop.roots)
        for reduced, name in names.items():
            update(inner, reduced, f"{name}[k]")
        return runs

    def result(inner: Writer) -> list[Run]:
        values = [store.value for store in stores]
        for reduced, name in names.items():
            inner.bind(reduced, f"{name}[k]")
        runs = span_.bind(inner, values, stores)
        for reduced, partial in partials.items():
            with inner.block(f"for (uint other = 1; other < {strips}; ++other)"):
                value = f"{partial}[other][{_PLACE}]"
                inner.line(step(reduced, f"{names[reduced]}[k]", value))
        inner.prepare(values)
        for store in stores:
            inner.store(store)
        return runs

    def step_along(inner: Writer) -> list[Run]:
        # What neighbours share, such as the place of a row that they read, is found once.
        inner.prepare(loop.roots, (span_.axis,))
        surround(inner, (neighbours,), reduce)
        return []

    along = Block(f"for (uint column = strip; column < columns; column += {strips})")
    surround(writer, (along,), step_along)
    partials = {reduced: _leave(writer, reduced, name, schedule) for reduced, name in names.items()}
    writer.line("// Every strip's partial results are written before any is read.")
    writer.line("threadgroup_barrier(metal::mem_flags::mem_threadgroup);")
    surround(writer, (Block("if (strip == 0)"), neighbours), result)
    head = [
        f"constexpr uint columns = {loop.axis.extent};",
        "uint run = thread_position_in_grid.x;",
        "uint strip = thread_position_in_threadgroup.y;",
        "uint lane = thread_position_in_threadgroup.x;",
    ]
    return "\n".join([*head, *writer.lines]) + "\n"


def _only_loop(stores: Sequence[Store]) -> Loop:
    """Return the only walk that results need."""
    sequence = loops(stores, online=False)
    reduced = [r for loop in sequence for r in loop.reduced]
    if len(sequence) != 1 or not reduced or any(column_of(s) is not None for s in stores):
        raise UnsupportedError("runs of results need one walk along what is reduced; use vector=1.")
    if other := next((r for r in reduced if r.reducer not in _JOINED), None):
        raise UnsupportedError(f"{other.reducer} is not found in runs; use vector=1.")
    return sequence[0]


def _declare(writer: Writer, reduced: ReduceExpr, vector: int) -> str:
    name, start = writer.fresh(reduced.name), identity(reduced)
    is_zero = start.rstrip("f") in ("0", "0.0")
    writer.line(f"{MSL_TYPE[reduced.dtype]} {name}[{vector}]{' = {}' if is_zero else ''};")
    if not is_zero:
        with writer.block(f"for (uint k = 0; k < {vector}; ++k)"):
            writer.line(f"{name}[k] = {start};")
    return name


def _leave(writer: Writer, reduced: ReduceExpr, name: str, schedule: Columnwise) -> str:
    """Leave what a strip found where the first one sees it."""
    partial, vector = writer.fresh(f"partial_{name}"), schedule.vector
    shape = f"[{schedule.strips}][{_LANES * vector}]"
    writer.line(f"threadgroup {MSL_TYPE[reduced.dtype]} {partial}{shape};")
    with writer.block(f"for (uint k = 0; k < {vector}; ++k)"):
        writer.line(f"{partial}[strip][{_PLACE}] = {name}[k];")
    return partial
