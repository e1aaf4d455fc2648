"""What a candidate has to beat: MLX eager, under `mx.compile`, and with `mx.fast`."""

from collections.abc import Callable, Mapping, Sequence

import mlx.core as mx

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.idioms import Idiom, idioms
from kernelwright.ir.passes.attention import gather_attention
from kernelwright.ir.region import Region
from kernelwright.ir.stitch import RunRegion, stitch
from kernelwright.metal.device.array import mlx_dtype
from kernelwright.plan.mlx.norm import NORMS, has_mlx_norm

Function = Callable[..., list[mx.array]]
"""Takes MLX arrays, returns unevaluated outputs."""


def baselines_of(graph: Graph) -> Mapping[str, Function]:
    """Return every way in which MLX itself computes a graph, by name.

    `fast` is there where MLX has a kernel of its own for a part: norms and attention, which a
    trace on the CPU takes apart. It is compiled too, for what stands around that part.
    """
    eager = stitch(graph, {})
    found: dict[str, Function] = {"eager": eager, "compile": mx.compile(eager)}
    gathered = gather_attention(graph)
    norms = {region: run for idiom in idioms(gathered) for region, run in _norm(gathered, idiom)}
    if norms or gathered != graph:
        found["fast"] = mx.compile(stitch(gathered, norms))
    return found


def _norm(graph: Graph, idiom: Idiom) -> Sequence[tuple[Region, RunRegion]]:
    """Return the region of a norm over the last axis with MLX's kernel for it, if that fits."""
    if idiom.name not in NORMS or not has_mlx_norm(graph, idiom):
        return ()
    operands = dict(idiom.operands)
    casts = _shared_casts(graph, idiom)
    region = Region(graph, tuple(sorted((*idiom.indices, *casts))))
    if set(region.inputs) != set(operands.values()):
        return ()
    norm = _call(idiom, region.inputs, operands)
    return ((region, _with_casts(graph, idiom, region, norm) if casts else norm),)


def _shared_casts(graph: Graph, idiom: Idiom) -> tuple[int, ...]:
    """Return the casts of operands that others read, too; the kernel of MLX has its own."""
    operands = {value for _, value in idiom.operands}
    makers = [graph.producer_of.get(v) for v in Region(graph, idiom.indices).inputs]
    return tuple(
        maker
        for maker in makers
        if maker is not None
        and graph.nodes[maker].op == "cast"
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


def _call(idiom: Idiom, inputs: Sequence[ValueId], operands: Mapping[str, ValueId]) -> RunRegion:
    place = {name: inputs.index(value) for name, value in operands.items()}
    epsilon = float(idiom.parameter("epsilon"))  # type: ignore[arg-type]

    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        x, weight, bias = (
            arrays[place[name]] if name in place else None for name in ("x", "weight", "bias")
        )
        assert x is not None
        if idiom.name == "rms_norm":
            return [mx.fast.rms_norm(x, weight, epsilon)]
        return [mx.fast.layer_norm(x, weight, bias, epsilon)]

    return run
