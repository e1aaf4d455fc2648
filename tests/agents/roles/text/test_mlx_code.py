"""The code of MLX in prompts computes what the graph does."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.agents.roles.text.mlx_code import mlx_code
from kernelwright.campaign.agent_bench import bench_tasks
from kernelwright.campaign.agent_bench.task import BenchTask
from kernelwright.ir import canonicalize, capture, interpret
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.replay import to_mlx_dtype


def drawn(task: BenchTask) -> list[mx.array]:
    mx.random.seed(3)
    return [
        (mx.random.uniform(shape=t.shape) * 4 - 1).astype(to_mlx_dtype(t.dtype))
        for t in task.inputs
    ]


def run(graph: Graph, code: str, arrays: list[mx.array]) -> list[mx.array]:
    names = ", ".join(graph.input_names())
    body = "\n".join(f"    {line}" for line in code.splitlines())
    space: dict[str, object] = {"mx": mx}
    for place, (_, constant) in enumerate(graph.constants):
        space[f"c{place}"] = mx.array(constant.array)
    exec(f"def function({names}):\n{body}", space)
    function = space["function"]
    assert callable(function)
    made = function(*arrays)
    return list(made) if isinstance(made, tuple) else [made]


@pytest.mark.parametrize("task", bench_tasks(), ids=lambda task: task.name)
def test_the_code_of_a_task_computes_what_its_graph_does(task: BenchTask) -> None:
    arrays = drawn(task)
    graph = canonicalize(capture(task.function, *arrays))
    code = mlx_code(graph)
    if "= <" in code:
        pytest.skip("an op that is several calls of MLX is written as the graph has it")
    for found, expected in zip(run(graph, code, arrays), interpret(graph, *arrays), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        one, other = (np.array(a.astype(mx.float32)) for a in (found, expected))
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3, equal_nan=True)


def edges(x: mx.array) -> mx.array:
    return mx.pad(x, [(1, 2), (3, 0)], mode="edge") * 2


def placed(x: mx.array) -> mx.array:
    out = mx.zeros((9, 12))
    out[2:6, 1:9] = x
    return mx.exp(out)


def added(x: mx.array) -> mx.array:
    return mx.ones((9, 12)).at[2:6, 1:9].add(x) + 1


def maximal(x: mx.array) -> mx.array:
    return mx.zeros((9, 12)).at[2:6, :8].maximum(x) + 1


def windowed(x: mx.array) -> mx.array:
    start = mx.array([1, 2])
    window = mx.slice(x, start, (0, 1), (2, 3))
    return mx.slice_update(x, window * 2, start + 1, (0, 1))


@pytest.mark.parametrize("fn", [edges, placed, added, maximal, windowed])
def test_updates_of_a_part_are_code_too(fn: Callable[[mx.array], mx.array]) -> None:
    x = mx.random.normal((4, 8), key=mx.random.key(1))
    graph = canonicalize(capture(fn, x))
    code = mlx_code(graph)
    assert "<" not in code
    for found, expected in zip(run(graph, code, [x]), interpret(graph, x), strict=True):
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-6)
