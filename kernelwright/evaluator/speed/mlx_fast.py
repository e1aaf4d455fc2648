"""Parts of a graph as `mx.fast` computes them, which a trace on the CPU takes apart."""

from collections.abc import Sequence

import mlx.core as mx

from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.naming.idioms import Idiom, idioms
from kernelwright.ir.ops import op_named
from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.plan.mlx.cross_entropy import SIGN_OF_LOSS, has_mlx_cross_entropy
from kernelwright.plan.mlx.norm import NORMS, has_mlx_norm


def fast_regions(graph: Graph) -> dict[Region, RunRegion]:
    """Return the norms and losses of a graph with MLX's kernels for them."""
    found: dict[Region, RunRegion] = {}
    for idiom in idioms(graph):
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
        x = arrays[place["x"]].reshape(shape)
        weight, bias = (
            arrays[place[name]].reshape(shape[-1]) if name in place else None
            for name in ("weight", "bias")
        )
        if idiom.name == "rms_norm":
            return [mx.fast.rms_norm(x, weight, epsilon)]
        return [mx.fast.layer_norm(x, weight, bias, epsilon)]

    return run


def _cross_entropy(place: dict[str, int], made: TensorType, sign: int) -> RunRegion:
    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        x, target = arrays[place["x"]], arrays[place["target"]]
        loss = mx.fast.cross_entropy(x, target.reshape(x.shape[:-1]))
        loss = loss if sign > 0 else -loss
        return [loss.reshape(made.shape).astype(mlx_dtype(made.dtype))]

    return run
