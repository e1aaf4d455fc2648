"""Norms put back as kernels of MLX, where a trace has taken them apart and nothing serves them."""

from collections.abc import Callable, Mapping, Sequence

import mlx.core as mx

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.ir.naming.idioms import Idiom
from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.plan.mlx.norm import NORMS, has_mlx_norm

_APART = frozenset({"rms_norm", "layer_norm", "rope"})
"""What MLX has one kernel for, and a trace on the CPU has in pieces."""


def put_back(graph: Graph, taken: frozenset[int]) -> tuple[dict[Region, RunRegion], str]:
    """Return MLX's kernels for what no program covers, and the name of what cannot be put back.

    What can be is there all the same, for who times MLX at what is left of its best.
    """
    found: dict[Region, RunRegion] = {}
    left = ""
    for idiom in ir.idioms(graph):
        if idiom.name not in _APART or taken.issuperset(idiom.indices):
            continue
        run = _norm(graph, idiom) if idiom.name in NORMS else None
        region = Region(graph, idiom.indices)
        is_whole = region.outputs == (idiom.output,) and taken.isdisjoint(idiom.indices)
        if run is None or not is_whole:
            left = left or idiom.name
        else:
            found[region] = _reading(region, idiom, run)
    return found, left


def _norm(graph: Graph, idiom: Idiom) -> Callable[[Mapping[str, mx.array]], mx.array] | None:
    shape = graph.types[idiom.output].shape
    epsilon = dict(idiom.parameters).get("epsilon")
    if not isinstance(epsilon, float) or not has_mlx_norm(graph, idiom):
        return None
    width = shape[-1]

    def run(given: Mapping[str, mx.array]) -> mx.array:
        weight, bias = (
            given[role].reshape(width) if role in given else None for role in ("weight", "bias")
        )
        if idiom.name == "rms_norm":
            return mx.fast.rms_norm(given["x"].reshape(shape), weight, epsilon)
        return mx.fast.layer_norm(given["x"].reshape(shape), weight, bias, epsilon)

    return run


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
