"""Norms and rope put back as MLX's kernels, where a trace has them in pieces and nothing serves."""

from collections.abc import Callable, Mapping, Sequence

import mlx.core as mx

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.region import Region
from kernelwright.ir.trace.fast_program import norm_rows, rope_program
from kernelwright.ir.trace.stitch import Replacement, RunRegion
from kernelwright.plan.mlx.norm import NORMS, has_mlx_norm
from kernelwright.plan.mlx.rope import MlxRopes

_APART = frozenset({"rms_norm", "layer_norm", "rope"})
"""What MLX has one kernel for, and a trace on the CPU has in pieces."""


def put_back(graph: Graph, taken: frozenset[int]) -> tuple[dict[Region, Replacement], str]:
    """Return MLX's kernels for what no program covers, and the name of what cannot be put back.

    What can be is there all the same, for who times MLX at what is left of its best.
    """
    found: dict[Region, Replacement] = {}
    left = ""
    ropes = MlxRopes(graph)
    for idiom in ir.idioms(graph):
        if idiom.name not in _APART or taken.issuperset(idiom.indices):
            continue
        region = Region(graph, idiom.indices)
        is_whole = region.outputs == (idiom.output,) and taken.isdisjoint(idiom.indices)
        run = _program(graph, idiom, region, ropes) if is_whole else None
        if run is None:
            left = left or idiom.name
        else:
            found[region] = run
    return found, left


def _program(graph: Graph, idiom: Idiom, region: Region, ropes: MlxRopes) -> Replacement | None:
    if idiom.name in NORMS:
        norm = _norm(graph, idiom)
        return None if norm is None else _reading(region, idiom, norm)
    call = ropes.call(idiom)
    if call is None or call.amplitude != 1.0:
        return None
    if ropes.rounds_once(idiom) and mx.default_device() == mx.cpu:
        return None
    return rope_program(call, graph.types[idiom.output])


def _norm(graph: Graph, idiom: Idiom) -> Callable[[Mapping[str, mx.array]], mx.array] | None:
    shape = graph.types[idiom.output].shape
    epsilon = dict(idiom.parameters).get("epsilon")
    if not isinstance(epsilon, float) or not has_mlx_norm(graph, idiom):
        return None
    return lambda given: norm_rows(idiom.name, given, shape, epsilon)


def _reading(
    region: Region, idiom: Idiom, run: Callable[[Mapping[str, mx.array]], mx.array]
) -> RunRegion:
    places = {value: place for place, value in enumerate(region.inputs)}
    constants = {
        role: ir.interpret(_constant(region.graph, value))[0]
        for role, value in idiom.operands
        if value not in places
    }

    def call(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        given = {
            role: arrays[places[value]] if value in places else constants[role]
            for role, value in idiom.operands
        }
        return [run(given)]

    return call


def _constant(graph: Graph, value: int) -> Graph:
    return Graph((graph.types[value],), (), ((0, graph.constant_of[value]),), (), (0,))
