"""What a candidate has to beat: MLX eager, under `mx.compile`, and with `mx.fast`."""

from collections.abc import Callable, Mapping

import mlx.core as mx

from kernelwright.evaluator.speed.mlx_fast import fast_regions
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes.attention import gather_attention
from kernelwright.ir.trace.fast_call import find_fast_call
from kernelwright.ir.trace.stitch import stitch

Function = Callable[..., list[mx.array]]
"""Takes MLX arrays, returns unevaluated outputs."""


def baselines_of(graph: Graph) -> Mapping[str, Function]:
    """Return every way in which MLX itself computes a graph, by name.

    `fast` is there where MLX has a kernel of its own for the graph or a part of it, which a trace
    on the CPU takes apart. It is compiled too, for what stands around that part.
    """
    eager = stitch(graph, {})
    found: dict[str, Function] = {"eager": eager, "compile": mx.compile(eager)}
    if (whole := find_fast_call(graph)) is not None:
        found["fast"] = mx.compile(whole)
        return found
    gathered = gather_attention(graph)
    parts = fast_regions(gathered)
    if parts or gathered != graph:
        found["fast"] = mx.compile(stitch(gathered, parts))
    return found
