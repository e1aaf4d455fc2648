"""Norms that a trace has in pieces run as MLX's own kernel."""

from collections.abc import Callable, Iterator

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.fast import put_back

Function = Callable[[mx.array, mx.array], mx.array]


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def by_heads(x: mx.array, w: mx.array) -> mx.array:
    return mx.fast.rms_norm(x.reshape(1, 3, 4, 8), w, 1e-6)


def turned(x: mx.array, w: mx.array) -> mx.array:
    return mx.fast.rms_norm(x.reshape(1, 3, 8, 4).swapaxes(-1, -2), w, 1e-6)


@pytest.mark.parametrize("function", [by_heads, turned])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_norms_of_heads_are_put_back(function: Function, dtype: mx.Dtype) -> None:
    x = mx.random.normal((1, 3, 32), key=mx.random.key(0)).astype(dtype)
    w = mx.random.normal((8,), key=mx.random.key(1)).astype(dtype)
    graph = ir.canonicalize(ir.capture(function, x, w))
    kept, left = put_back(graph, frozenset())
    if function is by_heads:
        assert len(kept) == 1
        assert not left
    found = stitch(graph, kept)(x, w)[0]
    assert mx.array_equal(found, function(x, w))


def test_norms_are_put_back_beside_what_cannot_be() -> None:
    """MLX at its best is timed with them, though nothing serves a graph with rope in pieces."""

    def turned(x: mx.array, weight: mx.array, offset: mx.array) -> mx.array:
        rows = mx.fast.rms_norm(x, weight, 1e-6)
        return mx.fast.rope(rows, 32, traditional=False, base=1e4, scale=1.0, offset=offset)

    arrays = (mx.random.normal((1, 4, 1, 32)), mx.random.normal((32,)), mx.array(3))
    graph = ir.canonicalize(ir.capture(turned, *arrays))
    kept, left = put_back(graph, frozenset())
    assert (len(kept), left) == (1, "rope")
    (made,) = stitch(graph, kept)(*arrays)
    assert mx.allclose(made, turned(*arrays), rtol=1e-4, atol=1e-4)
