"""Programs that bind by name every dimension on which their kernels' text does not depend."""

from collections.abc import Callable

from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.metal.lower.program.generic import generalize
from kernelwright.metal.lower.program.signature import Signature

Write = Callable[[Graph, Signature], tuple[Kernel, ...]]


def open_program(graph: Graph, write: Write) -> Program:
    """Return the program of what `write` makes of a graph, for as many sizes as it serves.

    Raises:
        UnsupportedError: `write` refuses the graph.
    """
    signature = Signature.of(graph)
    kernels = write(graph, signature)
    generic = generalize(graph, lambda other: write(other, Signature.of(other)), kernels)
    inputs, outputs = (
        tuple(
            Tensor(name=name, dtype=type_.dtype, shape=type_.shape)
            for (name, _), type_ in zip(arrays, types, strict=True)
        )
        for arrays, types in (
            (signature.inputs, generic.graph.input_types),
            (signature.outputs, generic.graph.output_types),
        )
    )
    spelled = write(graph, signature.spelling((*inputs, *outputs)))
    return Program(
        inputs=inputs,
        outputs=outputs,
        kernels=tuple(
            kernel.model_copy(update={"grid": grid})
            for kernel, grid in zip(spelled, generic.grids, strict=True)
        ),
    )
