"""`mx.fast` counts as a baseline for the norms that it computes, and for nothing like them."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.speed.baseline import baselines_of
from kernelwright.ir import canonicalize, capture
from kernelwright.plan.traffic import compiled_traffic, fast_traffic

X, W = mx.zeros((128, 256)), mx.zeros((256,))
Y = mx.zeros((32, 4, 64), mx.float16)


def scaled(x: mx.array, centre: mx.array, axis: int = -1, ddof: int = 0) -> mx.array:
    return (x - centre) * mx.rsqrt(x.var(axis, keepdims=True, ddof=ddof) + 1e-5)


def rms(x: mx.array, weight: mx.array, axis: int = -1) -> mx.array:
    return x * mx.rsqrt(mx.mean(x * x, axis=axis, keepdims=True) + 1e-6) * weight


NORMS: dict[str, tuple[Callable[..., object], tuple[mx.array, ...]]] = {
    "layer norm": (lambda x: scaled(x, x.mean(-1, keepdims=True)), (X,)),
    "scaled layer norm": (lambda x, w: scaled(x, x.mean(-1, keepdims=True)) * w + w, (X, W)),
    "rms norm": (rms, (X, W)),
    "layer norm of sums": (lambda x: mx.fast.layer_norm(mx.sum(x, axis=1), None, None, 1e-5), (Y,)),
    "rms norm of heads": (lambda x, w: mx.fast.rms_norm(x.reshape(-1, 8, 4), w, 1e-5), (X, W[:4])),
    "rms norm beside its cast": (
        lambda x, w: (mx.fast.rms_norm(x, w, 1e-5), mx.exp(x.astype(mx.float32))),
        (X.astype(mx.float16), W.astype(mx.float16)),
    ),
    "a factor of each element behind it": (rms, (X, X)),
    "a factor of each row behind it": (rms, (X, mx.zeros((128, 1)))),
    "a modulation of each sample behind it": (
        lambda x, scale: mx.fast.layer_norm(x, None, None, 1e-5) * (1 + scale) + scale,
        (Y, mx.zeros((32, 1, 64), mx.float16)),
    ),
    "a weight of a wider dtype": (
        lambda x, w: mx.fast.rms_norm(x, w, 1e-5),
        (X.astype(mx.float16), W),
    ),
    "a scale and a shift of a wider dtype": (
        lambda x, w: mx.fast.layer_norm(x, w, w, 1e-5),
        (X.astype(mx.bfloat16), W),
    ),
}
OTHERS: dict[str, tuple[Callable[..., object], tuple[mx.array, ...]]] = {
    "another centre": (scaled, (X, W)),
    "a peak as centre": (lambda x: scaled(x, x.max(-1, keepdims=True)), (X,)),
    "the centre of columns": (lambda x: scaled(x, x.mean(0)), (X,)),
    "a part of the centre": (lambda x: scaled(x, 0.1 * x.mean(0)), (X,)),
    "a corrected variance": (lambda x: scaled(x, x.mean(-1, keepdims=True), ddof=1), (X,)),
    "columns": (lambda x: scaled(x, x.mean(0, keepdims=True), 0), (X,)),
    "rms of columns": (lambda x: rms(x, mx.array(1.0), 0), (X,)),
    "statistics beside it": (
        lambda x: (scaled(x, x.mean(-1, keepdims=True)), x.mean(-1, keepdims=True)),
        (X,),
    ),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.sampled(3)
def test_what_it_computes(name: str) -> None:
    function, inputs = NORMS[name]
    graph = canonicalize(capture(function, *inputs))
    found = baselines_of(graph)
    assert "fast" in found
    arrays = [mx.random.normal(a.shape).astype(a.dtype) for a in inputs]
    for ours, own in zip(found["fast"](*arrays), found["eager"](*arrays), strict=True):
        assert mx.allclose(ours, own, rtol=2e-2, atol=2e-2).item()
    assert fast_traffic(graph).launches < compiled_traffic(graph).launches


@pytest.mark.parametrize("name", OTHERS)
def test_what_it_does_not(name: str) -> None:
    function, inputs = OTHERS[name]
    graph = canonicalize(capture(function, *inputs))
    assert "fast" not in baselines_of(graph)
    assert fast_traffic(graph) == compiled_traffic(graph)
