"""Worked examples: each compiles, runs clean and is right; tasks are shown those that suit them."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.example import EXAMPLES, example_dtype, examples_for
from kernelwright.agents.roles.text.prompt import source
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.simulator.device import SimulatorDevice
from tests.agents.loopback.example import draft_in

Shape = tuple[int, ...]


def rowwise(x: mx.array, residual: mx.array, weight: mx.array) -> mx.array:
    h = x.astype(mx.float32) + residual.astype(mx.float32)
    scale = mx.rsqrt(mx.mean(h * h, axis=-1, keepdims=True) + 1e-5)
    return (h * scale * weight.astype(mx.float32)).astype(x.dtype)


def elementwise(gate: mx.array, up: mx.array) -> mx.array:
    return gate * mx.sigmoid(gate) * up


def columns(x: mx.array) -> mx.array:
    return mx.sum(x, axis=0)


def registers(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def row_and_column(x: mx.array) -> tuple[mx.array, mx.array]:
    return mx.sum(x, axis=1), mx.sum(x, axis=0)


def stencil(x: mx.array) -> mx.array:
    padded = mx.pad(x, [(0, 0), (1, 1)])
    return x + 0.1 * (padded[:, :-2] - 2.0 * x + padded[:, 2:])


def matrices(a: mx.array, b: mx.array) -> mx.array:
    return mx.maximum(a @ b, 0.0)


def split_k(x: mx.array, w: mx.array) -> mx.array:
    return x @ w


def sort(x: mx.array) -> mx.array:
    return mx.sort(x, axis=-1)


def histogram(x: mx.array) -> mx.array:
    return mx.zeros((64,), mx.int32).at[x].add(1)


CASES: dict[str, tuple[Callable[..., object], list[Shape]]] = {
    "rowwise": (rowwise, [(5, 70), (5, 70), (70,)]),
    "elementwise": (elementwise, [(5, 70), (5, 70)]),
    "columns": (columns, [(5, 70)]),
    "registers": (registers, [(5, 70)]),
    "row_and_column": (row_and_column, [(45, 150)]),
    "stencil": (stencil, [(5, 70)]),
    "matrices": (matrices, [(16, 24), (24, 64)]),
    "split_k": (split_k, [(1, 100), (100, 70)]),
    "sort": (sort, [(5, 64)]),
    "histogram": (histogram, [(5000,)]),
}
GENERIC = {"rowwise", "elementwise", "columns", "registers", "sort"}


def inputs_of(example: str, dtype: Dtype = Dtype.FLOAT32) -> list[NDArray[np.generic]]:
    random = np.random.default_rng(3)
    if example == "histogram":
        return [random.integers(0, 64, 5000).astype(np.int32)]
    return [random.normal(size=shape).astype(dtype.numpy) for shape in CASES[example][1]]


def test_every_example_is_registered_and_run() -> None:
    files = Path(__file__).parents[4] / "kernelwright" / "prompts" / "examples"
    named = {example.name for example in EXAMPLES}
    assert named == set(CASES) == {path.stem for path in files.glob("*.md")}
    assert all(len(source(f"examples/{name}.md")) < 3000 for name in named)


@pytest.mark.parametrize("dtype", [Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16])
@pytest.mark.parametrize("example", CASES)
def test_worked_examples_compile_and_are_right_and_clean(example: str, dtype: Dtype) -> None:
    function, arrays = CASES[example][0], inputs_of(example, dtype)
    graph = canonicalize(capture(function, *(mx.array(a) for a in arrays)))
    assert example == "histogram" or example_dtype(graph) is dtype
    program = draft_in(example, dtype).program(Interface(Task(graph, example)))
    assert program.is_generic is (example in GENERIC)
    bound = program.bind(graph.input_types)
    result = SimulatorDevice().compile(bound, sanitize=True).run(arrays, RunOptions(sanitize=True))
    with mx.stream(mx.cpu):
        expected = function(*(mx.array(a) for a in arrays))
    assert result.reports == ()
    for found, value in zip(
        result.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        wanted = np.array(value.astype(mx.float32))
        rounding = dtype.epsilon
        np.testing.assert_allclose(
            found.astype(np.float32), wanted, rtol=max(2e-3, rounding), atol=max(1e-3, 4 * rounding)
        )


@pytest.mark.parametrize("example", CASES)
def test_a_task_like_an_example_is_shown_it(example: str) -> None:
    arrays = [mx.array(a) for a in inputs_of(example)]
    shown = examples_for(canonicalize(capture(CASES[example][0], *arrays)))
    assert example in shown
    assert len(shown) <= 3
