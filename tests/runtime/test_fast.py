"""Norms and rope that a trace has in pieces run as MLX's own kernel."""

from collections.abc import Iterator

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.fast import put_back
from tests.ir.ropes import APART, ROPES, Function, by_hand, own, rotated


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


def restored(function: Function, *arrays: mx.array) -> tuple[list[str], mx.array]:
    """Return what is left apart, and what the function makes with all else put back."""
    graph = ir.canonicalize(ir.capture(function, *arrays))
    kept, left = put_back(graph, frozenset())
    assert bool(kept) != bool(left)
    return [left] if left else [], stitch(graph, kept)(*arrays)[0]


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_rope_is_put_back_however_it_is_written(name: str, dtype: mx.Dtype) -> None:
    if (name, dtype) == ("by hand", mx.bfloat16):
        pytest.skip("rounds once, which MLX does on a GPU alone")
    x = mx.random.normal((2, 3, 5, 16), key=mx.random.key(0)).astype(dtype)
    left, found = restored(ROPES[name], x, mx.array(3))
    assert not left
    assert found.dtype == ROPES[name](x, mx.array(3)).dtype
    assert mx.allclose(found, ROPES[name](x, mx.array(3)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", APART)
def test_rope_that_mlx_computes_otherwise_stays_apart(name: str) -> None:
    """MLX on a CPU rounds sines, products and sums each, which moves sums that cancel too far."""
    x = mx.random.normal((2, 3, 5, 16), key=mx.random.key(0)).astype(mx.bfloat16)
    left, found = restored(APART[name], x, mx.array(3))
    assert left == ["rope"]
    assert mx.array_equal(found, APART[name](x, mx.array(3)))


def test_what_rounds_once_is_not_what_mlx_computes_on_a_cpu() -> None:
    """Of 6,144 numbers 38 are too far from the exact ones; of those rounded once none is."""
    x = mx.random.normal((2, 3, 64, 16), key=mx.random.key(0)).astype(mx.bfloat16)
    exact = by_hand(x.astype(mx.float32), x)
    assert mx.allclose(by_hand(x, x), exact, rtol=1.6e-2, atol=1e-3)
    assert not mx.allclose(own(x, 0), exact, rtol=1.6e-2, atol=1e-3)


def test_norms_are_put_back_beside_what_cannot_be() -> None:
    """MLX at its best is timed with them, though nothing serves a graph with rope in pieces."""

    def turned(x: mx.array, weight: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
        rows = mx.fast.rms_norm(x, weight, 1e-6)
        return rows * cosine + rotated(rows) * sine

    table = mx.random.normal((1, 32))
    arrays = (mx.random.normal((1, 4, 1, 32)), mx.random.normal((32,)), table, table)
    graph = ir.canonicalize(ir.capture(turned, *arrays))
    kept, left = put_back(graph, frozenset())
    assert (len(kept), left) == (1, "rope")
    (made,) = stitch(graph, kept)(*arrays)
    assert mx.allclose(made, turned(*arrays), rtol=1e-4, atol=1e-4)
