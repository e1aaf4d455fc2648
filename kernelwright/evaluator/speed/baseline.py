"""What a candidate has to beat: MLX eager, under `mx.compile`, and with `mx.fast`."""

from collections.abc import Callable, Mapping, Sequence

import mlx.core as mx

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.idioms import Idiom, idioms
from kernelwright.ir.passes.attention import gather_attention
from kernelwright.ir.region import Region
from kernelwright.ir.stitch import RunRegion, stitch
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
    region = Region(graph, idiom.indices)
    if region.outputs != (idiom.output,) or set(region.inputs) != set(operands.values()):
        return ()
    return ((region, _call(idiom, region.inputs, operands)),)


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
