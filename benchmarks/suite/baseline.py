"""The ways in which MLX itself computes a workload, each of which a candidate is timed beside."""

from collections.abc import Mapping

import mlx.core as mx

from benchmarks.suite.search import capture
from benchmarks.suite.workload import Function, Workload
from kernelwright import ir
from kernelwright.evaluator.speed.mlx_benchmark import Function as ListFunction
from kernelwright.evaluator.speed.mlx_fast import fast_regions
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.trace.fast_call import find_fast_call
from kernelwright.ir.trace.stitch import stitch


def mlx_ways(workload: Workload, dtype: Dtype) -> Mapping[str, ListFunction]:
    """Return a workload as written, the same compiled, and with the kernels of `mx.fast`.

    `fast` is there where MLX has a kernel of its own for the workload or a part of it, however that
    is written: a whole call of `mx.fast`, or norms, losses, attention and rope among other ops.
    """
    found = {
        "eager": plain(workload.function),
        "compile": plain(mx.compile(workload.function)),
    }
    fast = _fast(capture(workload, dtype))
    return found if fast is None else {**found, "fast": mx.compile(fast)}


def _fast(graph: ir.Graph) -> ListFunction | None:
    """Return a captured graph with the kernels of `mx.fast` in place; None where MLX has none."""
    if (whole := find_fast_call(graph)) is not None:
        return whole
    parts = fast_regions(graph)
    if parts or any(node.op == "attention" for node in graph.nodes):
        return stitch(graph, parts)
    return None


def plain(function: Function) -> ListFunction:
    """Return the outputs as a list, however many there are."""

    def run(*arrays: mx.array) -> list[mx.array]:
        made = function(*arrays)
        return [made] if isinstance(made, mx.array) else list(made)

    return run
