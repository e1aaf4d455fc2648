"""Norms and rope that a trace has in pieces run as MLX's own kernel."""

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


def restored(function: Function, *arrays: mx.array) -> tuple[list[str], mx.array]:
    """Return what is left apart, and what the function makes with all else put back."""
    graph = ir.canonicalize(ir.capture(function, *arrays))
    kept, left = put_back(graph, frozenset())
    assert bool(kept) != bool(left)
    return [left] if left else [], stitch(graph, kept)(*arrays)[0]


def rotated(x: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return mx.concatenate([-b, a], axis=-1)


def angles(x: mx.array) -> mx.array:
    frequencies = 1.0 / (10000 ** (mx.arange(0, 16, 2) / 16))
    return mx.outer(mx.arange(x.shape[-2]), frequencies)


def by_hand(x: mx.array, _: mx.array) -> mx.array:
    """Turn whole rows in float32, as models of other frameworks do, and round once."""
    wide = mx.concatenate([angles(x), angles(x)], axis=-1)
    return (x * mx.cos(wide) + rotated(x) * mx.sin(wide)).astype(x.dtype)


def in_columns(x: mx.array, _: mx.array) -> mx.array:
    """Turn neighbours, the heads behind the positions."""
    c, s = (f(angles(x.swapaxes(1, 2)))[:, None] for f in (mx.cos, mx.sin))
    a, b = x[..., ::2], x[..., 1::2]
    return mx.stack([a * c - b * s, a * s + b * c], axis=-1).flatten(-2)


def own(x: mx.array, offset: mx.array | int, *, dims: int = 16, scale: float = 1.0) -> mx.array:
    return mx.fast.rope(x, dims, traditional=False, base=1e4, scale=scale, offset=offset)


ROPES: dict[str, Function] = {
    "from an array": own,
    "from a number, half a row, scaled": lambda x, _: own(x, 7, dims=8, scale=0.5),
    "a batch each": lambda x, offset: own(x, mx.stack([offset, 2 * offset])),
    "one token": lambda x, offset: own(x[:, :, :1], offset),
    "heads last": lambda x, offset: own(x.swapaxes(1, 2), offset).swapaxes(1, 2),
    "frequencies": lambda x, offset: mx.fast.rope(
        x, 16, traditional=True, base=None, scale=1.0, offset=offset, freqs=mx.arange(1.0, 9)
    ),
    "the end of a row": lambda x, offset: own(x[..., 4:], offset, dims=12),
    "the middle of a row": lambda x, offset: own(x[..., 2:14], offset, dims=8),
    "a row's beginning": lambda x, offset: own(x[..., :8], offset, dims=8),
    "in columns": in_columns,
    "by hand": by_hand,
}


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


APART: dict[str, Function] = {
    "rounded once": by_hand,
    "half angles": lambda x, _: x * mx.cos(wide_half(x)) + rotated(x) * mx.sin(wide_half(x)),
    "fractions": lambda x, offset: mx.concatenate(
        [
            x[..., :8] * mx.cos(angles(x) + 0.5) - x[..., 8:] * mx.sin(angles(x) + 0.5),
            x[..., :8] * mx.sin(angles(x) + 0.5) + x[..., 8:] * mx.cos(angles(x) + 0.5),
        ],
        axis=-1,
    ),
    "scaled tables": lambda x, _: (
        x * (1.2 * mx.cos(mx.concatenate([angles(x)] * 2, -1)))
        + rotated(x) * (1.2 * mx.sin(mx.concatenate([angles(x)] * 2, -1)))
    ),
    "counted down": lambda x, _: (
        x * mx.cos(mx.concatenate([-angles(x)] * 2, -1))
        + rotated(x) * mx.sin(mx.concatenate([-angles(x)] * 2, -1))
    ),
}


def wide_half(x: mx.array) -> mx.array:
    return mx.concatenate([angles(x).astype(x.dtype)] * 2, axis=-1)


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
