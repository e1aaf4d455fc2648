"""Products of many rows on simdgroup matrices: edges, layouts, prologues and epilogues."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, TensorType, canonicalize, capture, reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import Matmul, parse
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Function = Callable[..., mx.array]
# The same cases every time: a test says what changed, not what was drawn.
DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def linear(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    y = x @ w.T + b
    return y * mx.sigmoid(y)


def residual(x: mx.array, w: mx.array, h: mx.array) -> mx.array:
    return h + (x * 0.5) @ w


def gated(x: mx.array, gate: mx.array, up: mx.array) -> mx.array:
    y = x @ gate.T
    return y * mx.sigmoid(y) * (x @ up.T)


CASES: dict[str, tuple[Function, list[str], str]] = {
    "whole tiles": (linear, ["f16[32,64]", "f16[64,64]", "f16[64]"], "simdgroups=2"),
    "edges": (
        residual,
        ["f32[13,77]", "f32[77,50]", "f32[13,50]"],
        "rows=2, columns=1, simdgroups=2",
    ),
    "one matrix a simdgroup": (
        linear,
        ["bf16[9,40]", "bf16[24,40]", "bf16[24]"],
        "rows=1, columns=1, simdgroups=1",
    ),
    "two products": (gated, ["f16[2,8,64]", "f16[48,64]", "f16[48,64]"], "rows=2, depth=32"),
    "a batch of matrices": (
        lambda q, k: (q @ k.swapaxes(-1, -2)) * 0.125,
        ["f32[2,3,16,64]", "f32[2,3,24,64]"],
        "rows=2, simdgroups=1",
    ),
}


def graph_of(function: Function, types: Sequence[str]) -> Graph:
    parsed = map(TensorType.parse, types)
    zeros = [mx.zeros(t.shape, getattr(mx, t.dtype.value)) for t in parsed]
    return canonicalize(capture(function, *zeros))


@pytest.mark.parametrize("name", CASES)
def test_products_are_computed_as_written(name: str, run: Run, draw: Draw) -> None:
    function, types, decisions = CASES[name]
    graph = graph_of(function, types)
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    (found,) = run(lower(graph, parse(f"matmul({decisions})")), graph, arrays)
    (exact,) = reference(graph, arrays)
    tolerance = max(4 * graph.output_types[0].dtype.epsilon, 1e-5)
    size = np.abs(exact).max()
    assert np.allclose(found.astype(np.float64), exact, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize(("dtype", "place"), [("f16", 0), ("f32", 5)], ids=str)
def test_schedules_pass_the_evaluator(dtype: str, place: int, judge: Judge) -> None:
    types = [f"{dtype}[20,96]", f"{dtype}[72,96]", f"{dtype}[72]"]
    task = Task(graph_of(linear, types), "project")
    evaluation = judge(task, lower(task.graph, schedules(task.graph, DEVICE)[place]))
    assert evaluation.is_correct, evaluation.summary


def test_every_schedule_fits_the_device() -> None:
    graph = graph_of(gated, ["f32[40,512]", "f32[300,512]", "f32[300,512]"])
    space = schedules(graph, DEVICE)
    assert len(set(space)) == len(space) > 5
    assert all(isinstance(s, Matmul) for s in space)
    for schedule in space:
        taken = footprint(graph, schedule)
        assert taken.threadgroup_bytes <= DEVICE.threadgroup_bytes
        assert taken.registers <= 112


def test_the_planner_leaves_them_to_mlx() -> None:
    graph = graph_of(gated, ["f16[16,64]", "f16[64,64]", "f16[64,64]"])
    assert all(node.op != "matmul" for r in partition(graph) for node in r.nodes)


def test_a_tile_has_whole_matrices() -> None:
    graph = graph_of(linear, ["f16[32,64]", "f16[64,64]", "f16[64]"])
    with pytest.raises(UnsupportedError, match="multiple of 8, found 12"):
        lower(graph, parse("matmul(depth=12)"))
