"""Counts that cannot be true: fewer reads, writes or operations than every right kernel needs."""

from collections.abc import Iterable, Sequence

from kernelwright.evaluator.speed.roofline import least_bytes_read, least_operations
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import Counters
from kernelwright.metal.kernel import Program

_MATRIX_FLOPS = 8 * 8 * 8 * 2
_LEAST_SHARE = 0.5
"""Of a contraction's operations: products without additions, or one step of Strassen's."""
_SMALLEST = 32
"""Elements of an input below which it may be passed by value, and is not counted as it is read."""


def undercount(
    counters: Sequence[Counters], program: Program, graph: Graph, ignored: Iterable[int] = ()
) -> str:
    """Say what was counted below the least that the task needs; empty where nothing was.

    Args:
        counters: Of every launch of the program, in order.
        program: What was counted.
        graph: What it computes, at the shapes at which it was counted.
        ignored: Places of inputs that no case shows to be read.
    """
    skipped = set(ignored)
    for place, least in enumerate(least_bytes_read(graph)):
        type_ = graph.input_types[place]
        if place in skipped or type_.size < _SMALLEST:
            continue
        name = program.inputs[place].name
        read = sum(b.unique_bytes_read for c in counters for b in c.buffers if b.name == name)
        if read < least:
            return _words(f"bytes of {name} are read", read, least)
    filled = {n for k in program.kernels if k.init_value is not None for n in k.outputs}
    for tensor, type_ in zip(program.outputs, graph.output_types, strict=True):
        written = sum(
            b.unique_bytes_written for c in counters for b in c.buffers if b.name == tensor.name
        )
        if tensor.name not in filled and written < type_.nbytes:
            return _words(f"bytes of {tensor.name} are written", written, type_.nbytes)
    return _idleness(counters, graph)


def _idleness(counters: Sequence[Counters], graph: Graph) -> str:
    done = sum(
        c.float_operations
        + c.integer_operations
        + c.special_operations
        + c.simd_operations * 32
        + c.matrix_operations * _MATRIX_FLOPS
        for c in counters
    )
    least = round(_LEAST_SHARE * least_operations(graph))
    return _words("operations are done", done, least) if done < least else ""


def _words(what: str, found: int, least: int) -> str:
    return f"only {found} {what} where every right kernel needs {least}"
