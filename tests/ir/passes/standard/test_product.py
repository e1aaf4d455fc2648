"""Products with a gate or a norm are ordered without an overflow that nobody wrote."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.ir import canonicalize, capture, standardize

LARGE, SMALL = mx.full((2, 4), 300.0, mx.float16), mx.full((4,), 0.01, mx.float16)
Function = Callable[[mx.array, mx.array, mx.array], mx.array]


def normed(x: mx.array) -> mx.array:
    wide = x.astype(mx.float32)
    return x * mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True)).astype(x.dtype)


PRODUCTS: dict[str, Function] = {
    "scaled before": lambda x, y, w: (x * mx.sigmoid(x)) * (y * w),
    "scaled between": lambda x, y, w: ((x * mx.sigmoid(x)) * w) * y,
    "scaled inside": lambda x, y, w: ((x * w) * mx.sigmoid(x)) * y,
    "a norm": lambda x, y, w: normed(x) * ((y * w) * y),
    "a gelu": lambda x, y, w: (0.5 * x * (1 + mx.erf(x * 0.5**0.5))) * (w * y),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_finite_as_written_stays_so(name: str) -> None:
    function = PRODUCTS[name]
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, LARGE, LARGE, SMALL))
        (made,) = ir.interpret(standardize(graph), LARGE, LARGE, SMALL)
        assert mx.allclose(made, function(LARGE, LARGE, SMALL), rtol=1e-2)
        assert mx.isfinite(made).all()


def test_a_gate_that_is_multiplied_late_is_multiplied_first() -> None:
    def late(x: mx.array, y: mx.array, w: mx.array) -> mx.array:
        return (x * y) * mx.sigmoid(x)

    def first(x: mx.array, y: mx.array, w: mx.array) -> mx.array:
        return y * (mx.sigmoid(x) * x)

    with mx.stream(mx.cpu):
        found = [
            standardize(canonicalize(capture(f, LARGE, LARGE, SMALL))).fingerprint
            for f in (late, first)
        ]
    assert found[0] == found[1]
