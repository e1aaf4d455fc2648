"""From a graph and a schedule to a program; pure."""

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.family import served
from kernelwright.metal.family.concatenated_outputs import stacked_axis
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.metal.lower.attention.program import attention_program
from kernelwright.metal.lower.banded import lower_banded
from kernelwright.metal.lower.gemm.kernel import lower_matmul
from kernelwright.metal.lower.gemv.kernel import lower_dense
from kernelwright.metal.lower.pointwise.kernel import lower_elementwise
from kernelwright.metal.lower.pointwise.stacked import lower_stacked
from kernelwright.metal.lower.program.generic import generalize
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.quantized.kernel import lower_matvec
from kernelwright.metal.lower.rowwise.kernel import lower_rowwise
from kernelwright.metal.lower.rowwise.split import lower_split
from kernelwright.metal.lower.rowwise.tiled import lower_tiled
from kernelwright.metal.lower.scan.columns import lower_column_scan
from kernelwright.metal.lower.scan.rows import lower_scan
from kernelwright.metal.lower.staged import lower_staged
from kernelwright.metal.lower.term.nesting import refuses_deep_nesting
from kernelwright.metal.lower.term.width import refuse_unproven_widths
from kernelwright.metal.lower.transposed import lower_transposed
from kernelwright.metal.schedule import (
    Attention,
    Banded,
    ColumnScan,
    ColumnSplit,
    Columnwise,
    Dense,
    Elementwise,
    Matmul,
    Matvec,
    Prefill,
    Rowwise,
    Scan,
    Schedule,
    Split,
    Staged,
    Tiled,
    Transposed,
)
from kernelwright.metal.target.msl.spelling import MSL_TYPE


@refuses_deep_nesting
def lower(graph: Graph, schedule: Schedule) -> Program:
    """Write the program that computes `graph` in the way that `schedule` says.

    The program binds every dimension by name on which its kernels' text does not depend.

    Raises:
        UnsupportedError: the graph is not one that the schedule's family computes.
    """
    if empty := [t for t in (*graph.input_types, *graph.output_types) if t.size == 0]:
        raise UnsupportedError(f"an array without elements, {empty[0]}, needs no kernel.")
    if foreign := [t for t in graph.types if t.dtype not in MSL_TYPE]:
        raise UnsupportedError(
            f"Metal has no {foreign[0].dtype.short}; cast the arrays, or leave {foreign[0]} to MLX."
        )
    graph = served(graph)
    refuse_unproven_widths(graph, schedule)
    signature = Signature.of(graph)
    if isinstance(schedule, Split | ColumnSplit):
        return _split(graph, signature, schedule)
    if isinstance(schedule, Staged):
        return _program(signature, *lower_staged(graph, signature, schedule))
    if isinstance(schedule, Banded):
        return _program(signature, *lower_banded(graph, signature, schedule))
    if isinstance(schedule, ColumnScan):
        return _program(signature, (lower_column_scan(graph, signature, schedule),), ())
    if isinstance(schedule, Tiled):
        return _program(signature, (lower_tiled(graph, signature, schedule),), ())
    if isinstance(schedule, Transposed):
        return _program(signature, (lower_transposed(graph, signature, schedule),), ())
    if isinstance(schedule, Attention | Prefill):
        return attention_program(graph, schedule)
    if isinstance(schedule, Dense):
        return _program(*lower_dense(graph, schedule))
    if isinstance(schedule, Matmul):
        return _program(*lower_matmul(graph, schedule))

    def write(other: Graph) -> tuple[Kernel, ...]:
        return _kernels(other, Signature.of(other), schedule)

    kernels = write(graph)
    generic = generalize(graph, write, kernels)
    inputs = tuple(
        Tensor(name=name, dtype=type_.dtype, shape=generic.input_shape(i))
        for i, (name, type_) in enumerate(signature.inputs)
    )
    outputs = tuple(
        Tensor(name=name, dtype=type_.dtype, shape=generic.output_shape(i))
        for i, (name, type_) in enumerate(signature.outputs)
    )
    spelled = _kernels(graph, signature.spelling((*inputs, *outputs)), schedule)
    return Program(
        inputs=inputs,
        outputs=outputs,
        kernels=tuple(
            kernel.model_copy(update={"grid": generic.grid(kernels, i)})
            for i, kernel in enumerate(spelled)
        ),
    )


def _split(graph: Graph, signature: Signature, schedule: Split | ColumnSplit) -> Program:
    return _program(signature, *lower_split(graph, signature, schedule))


def _program(
    signature: Signature, kernels: tuple[Kernel, ...], temporaries: tuple[Tensor, ...]
) -> Program:
    """Return a program of fixed sizes."""
    return Program(
        inputs=tuple(Tensor(name=n, dtype=t.dtype, shape=t.shape) for n, t in signature.inputs),
        outputs=tuple(Tensor(name=n, dtype=t.dtype, shape=t.shape) for n, t in signature.outputs),
        temporaries=temporaries,
        kernels=kernels,
    )


def _kernels(
    graph: Graph,
    signature: Signature,
    schedule: Elementwise | Rowwise | Columnwise | Scan | Matvec,
) -> tuple[Kernel, ...]:
    match schedule:
        case Elementwise():
            axis = stacked_axis(graph)
            if axis is not None and (one := lower_stacked(graph, signature, axis, schedule)):
                return (one,)
            # Outputs of other sizes share no threads, and so no kernel.
            sizes = dict.fromkeys(t.size for t in graph.output_types)
            groups = [
                [i for i, t in enumerate(graph.output_types) if t.size == size] for size in sizes
            ]
            return tuple(lower_elementwise(graph, signature, g, schedule) for g in groups)
        case Rowwise() | Columnwise():
            return (lower_rowwise(graph, signature, schedule),)
        case Scan():
            return (lower_scan(graph, signature, schedule),)
        case Matvec():
            return (lower_matvec(graph, signature, schedule),)
