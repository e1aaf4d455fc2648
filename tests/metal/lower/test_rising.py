"""The largest of a rising function is its value at the largest argument, where none is hidden."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.metal.device.array import to_numpy
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import Rowwise, Split

Run = Callable[[Program, ir.Graph, Sequence[Array]], tuple[Array, ...]]
_ROWS = Rowwise(lanes=32, rows=4, vector=1, cached=False)


def _loudest(x: mx.array) -> mx.array:
    return mx.log10(mx.maximum(x, 1e-10)).max(axis=-1) * 10 - 8


def _least_root(x: mx.array) -> mx.array:
    return mx.sqrt(mx.abs(x) + 1).min(axis=-1)


def _bounded(x: mx.array) -> mx.array:
    return (2 * mx.tanh(x) - 1).max(axis=-1)


def _below(x: mx.array) -> mx.array:
    """Apply a relative scale to a level and hold what is left to it."""
    level = mx.log10(mx.maximum(x, 1e-10))
    return mx.maximum(level, level.max(axis=-1, keepdims=True) - 2.0)


def _of_any_sign(x: mx.array) -> mx.array:
    return mx.log(x).max(axis=-1)


def _falling(x: mx.array) -> mx.array:
    return (mx.tanh(x) * -2).max(axis=-1)


def _graph(function: Callable[[mx.array], mx.array], columns: int) -> ir.Graph:
    return ir.canonicalize(ir.capture(function, mx.zeros((8, columns))))


@pytest.mark.parametrize(
    ("function", "costly"),
    [(_loudest, "log10"), (_least_root, "sqrt"), (_bounded, "tanh"), (_below, "log10")],
)
def test_a_rising_function_is_applied_to_the_extreme(
    run: Run, function: Callable[[mx.array], mx.array], costly: str
) -> None:
    graph = _graph(function, 96)
    program = lower(graph, _ROWS)
    source = program.kernels[0].source
    loop = source[source.index("for (") : source.index("}")]
    assert costly not in loop
    x = mx.random.normal((8, 96), key=mx.random.key(3))
    x[1, 5], x[2] = mx.nan, mx.inf
    (found,) = run(program, graph, [to_numpy(x)])
    np.testing.assert_allclose(
        found.astype(np.float64), np.array(function(x)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("function", [_of_any_sign, _falling])
def test_a_function_that_falls_or_hides_a_nan_is_applied_to_all(
    run: Run, function: Callable[[mx.array], mx.array]
) -> None:
    graph = _graph(function, 96)
    x = mx.random.normal((8, 96), key=mx.random.key(4))
    x[0] = mx.abs(x[0])
    (found,) = run(lower(graph, _ROWS), graph, [to_numpy(x)])
    np.testing.assert_allclose(
        found.astype(np.float64), np.array(function(x)), rtol=1e-5, atol=1e-6
    )


def test_chunks_of_a_long_row_agree(run: Run) -> None:
    graph = _graph(_loudest, 4096)
    x = mx.random.normal((8, 4096), key=mx.random.key(5))
    (found,) = run(lower(graph, Split(chunks=4, lanes=64, vector=4)), graph, [to_numpy(x)])
    np.testing.assert_allclose(
        found.astype(np.float64), np.array(_loudest(x)), rtol=1e-5, atol=1e-6
    )
