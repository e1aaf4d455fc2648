"""Parts of a graph as `mx.fast` computes them, which a trace on the CPU takes apart."""

from collections.abc import Sequence

import mlx.core as mx

from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.naming.idioms import Idiom, idioms
from kernelwright.ir.ops import op_named
from kernelwright.ir.region import Region
from kernelwright.ir.trace.fast_program import norm_rows, rope_program
from kernelwright.ir.trace.stitch import Replacement, RunRegion
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.plan.mlx.cross_entropy import SIGN_OF_LOSS, has_mlx_cross_entropy
from kernelwright.plan.mlx.norm import NORMS, has_mlx_norm
from kernelwright.plan.mlx.rope import MlxRopes


def fast_regions(graph: Graph) -> dict[Region, Replacement]:
    """Return the norms, rotary embeddings and losses of a graph with MLX's kernels for them."""
    found: dict[Region, Replacement] = {}
    ropes = MlxRopes(graph)
    for idiom in idioms(graph):
        if idiom.name == "rope":
            found |= _rope(graph, idiom, ropes)
            continue
        operands = dict(idiom.operands)
        casts = _shared_casts(graph, idiom)
        region = Region(graph, tuple(sorted((*idiom.indices, *casts))))
        known = {idiom.output, *(v for i in casts for v in graph.nodes[i].outputs)}
        if set(region.inputs) != set(operands.values()) or not known.issuperset(region.outputs):
            continue
        place = {name: region.inputs.index(value) for name, value in operands.items()}
        if idiom.name in NORMS and has_mlx_norm(graph, idiom):
            run = _norm(idiom, place, graph.types[idiom.output].shape)
        elif idiom.name in SIGN_OF_LOSS and has_mlx_cross_entropy(graph, idiom):
            run = _cross_entropy(place, graph.types[idiom.output], SIGN_OF_LOSS[idiom.name])
        else:
            continue
        found[region] = _with_casts(graph, idiom, region, run) if casts else run
    return found


def _rope(graph: Graph, idiom: Idiom, ropes: MlxRopes) -> dict[Region, Replacement]:
    """Return what of a rotary embedding is a call, on a GPU, where MLX rounds it once."""
    turned = ropes.within(idiom)
    if turned is None:
        return {}
    part, call = turned
    region = Region(graph, part.indices)
    if region.outputs != (part.output,):
        return {}
    return {region: rope_program(call, graph.types[part.output])}


def _shared_casts(graph: Graph, idiom: Idiom) -> tuple[int, ...]:
    """Return the casts of operands that others read, too; the kernel of MLX has its own."""
    operands = {value for _, value in idiom.operands}
    makers = [graph.producer_of.get(v) for v in Region(graph, idiom.indices).inputs]
    return tuple(
        maker
        for maker in makers
        if maker is not None
        and op_named(graph.nodes[maker].op).behaviour.converts
        and operands.issuperset(graph.nodes[maker].inputs)
    )


def _with_casts(graph: Graph, idiom: Idiom, region: Region, norm: RunRegion) -> RunRegion:
    """Also compute the casts that others read."""
    outputs = [value for value in region.outputs if value != idiom.output]
    made = [(v, graph.nodes[graph.producer_of[v]].inputs[0], graph.types[v].dtype) for v in outputs]
    places = [(region.inputs.index(source), mlx_dtype(dtype)) for _, source, dtype in made]

    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        values = dict(zip(outputs, (arrays[p].astype(d) for p, d in places), strict=True))
        values[idiom.output] = norm(arrays)[0]
        return [values[value] for value in region.outputs]

    return run


def _norm(idiom: Idiom, place: dict[str, int], shape: tuple[int, ...]) -> RunRegion:
    epsilon = float(idiom.parameter("epsilon"))  # type: ignore[arg-type]

    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        given = {role: arrays[index] for role, index in place.items()}
        return [norm_rows(idiom.name, given, shape, epsilon)]

    return run


def _cross_entropy(place: dict[str, int], made: TensorType, sign: int) -> RunRegion:
    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        x, target = arrays[place["x"]], arrays[place["target"]]
        loss = mx.fast.cross_entropy(x, target.reshape(x.shape[:-1]))
        loss = loss if sign > 0 else -loss
        return [loss.reshape(made.shape).astype(mlx_dtype(made.dtype))]

    return run
