"""The kernels of the stages of a graph, and the arrays between them."""

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.metal.kernel import Kernel, Tensor
from kernelwright.metal.lower.pointwise.kernel import lower_elementwise
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.rowwise.kernel import lower_rowwise
from kernelwright.metal.lower.rowwise.stores import is_strided, row_count, row_stores
from kernelwright.metal.lower.staged.cut import Stage, cut
from kernelwright.metal.schedule import Columnwise, Elementwise, Rowwise, Staged

_COMBINING_LANES = 256
_MOST_STRIPS = 32


def lower_staged(
    graph: Graph, signature: Signature, schedule: Staged
) -> tuple[tuple[Kernel, ...], tuple[Tensor, ...]]:
    """Write the kernels of all stages, and the arrays between them.

    Raises:
        UnsupportedError: a reduction does not divide into as many parts, or into any.
    """
    try:
        return _written(graph, signature, schedule, writes_early=True)
    except UnsupportedError:
        return _written(graph, signature, schedule, writes_early=False)


def _written(
    graph: Graph, signature: Signature, schedule: Staged, *, writes_early: bool
) -> tuple[tuple[Kernel, ...], tuple[Tensor, ...]]:
    outputs = [name for name, _ in signature.outputs]
    stages = cut(graph, signature.arrays, outputs, schedule.parts, writes_early=writes_early)
    kernels: list[Kernel] = []
    between: list[Tensor] = []
    for number, stage in enumerate(stages):
        kernel = _kernel(stage, schedule)
        kernels.append(kernel.model_copy(update={"name": f"{kernel_name(graph)}_{number}"}))
        between += [
            Tensor(name=name, dtype=type_.dtype, shape=type_.shape)
            for name, type_ in zip(stage.writes, stage.graph.output_types, strict=True)
            if name not in outputs
        ]
    return tuple(kernels), tuple(between)


def _kernel(stage: Stage, schedule: Staged) -> Kernel:
    graph, signature = stage.graph, _signature(stage)
    if stage.role == "map":
        vector = schedule.vector if graph.output_types[0].size > 1 << 16 else 1
        every = range(len(graph.outputs))
        return lower_elementwise(graph, signature, every, Elementwise(vector, 256))
    stores = row_stores(graph, signature, row_count(graph))
    if not is_strided(stores):
        lanes = schedule.lanes if stage.role == "partial" else _lanes_for(graph)
        vector = schedule.vector if stage.role == "partial" else 1
        return lower_rowwise(graph, signature, Rowwise(lanes, 1, vector, cached=False))
    if stage.role == "partial":
        return lower_rowwise(graph, signature, Columnwise(schedule.strips, vector=schedule.vector))
    strips = min(_MOST_STRIPS, _length(graph))
    return lower_rowwise(graph, signature, Columnwise(strips))


def _length(graph: Graph) -> int:
    return max(t.size for t in graph.input_types) // row_count(graph)


def _lanes_for(graph: Graph) -> int:
    return min(_COMBINING_LANES, max(32, 1 << (_length(graph) - 1).bit_length()))


def _signature(stage: Stage) -> Signature:
    graph = stage.graph
    inputs: tuple[tuple[str, TensorType], ...] = tuple(
        zip(stage.reads, graph.input_types, strict=True)
    )
    outputs = tuple(zip(stage.writes, graph.output_types, strict=True))
    spelled = {name: str(type_) for name, type_ in (*inputs, *outputs)}
    arrays = dict(zip(graph.inputs, stage.reads, strict=True))
    return Signature(inputs, outputs, arrays, spelled)
