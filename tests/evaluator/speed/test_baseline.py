"""Every baseline computes the same, and `fast` is there where MLX has a kernel of its own."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.evaluator.speed.baseline import baselines_of


def rms(x: mx.array, w: mx.array) -> mx.array:
    return mx.fast.rms_norm(x, w, 1e-5) * 2


def residual_layer(x: mx.array, w: mx.array) -> tuple[mx.array, mx.array]:
    h = x + x
    return h, mx.fast.layer_norm(h, w, w, 1e-5)


def attend(x: mx.array, w: mx.array) -> mx.array:
    q = (x * w).reshape(1, 2, 4, 8)
    return mx.fast.scaled_dot_product_attention(q, q, q, scale=0.3, mask="causal")


def plain(x: mx.array, w: mx.array) -> mx.array:
    return mx.exp(x) * w


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (rms, ["eager", "compile", "fast"]),
        (residual_layer, ["eager", "compile", "fast"]),
        (attend, ["eager", "compile", "fast"]),
        (plain, ["eager", "compile"]),
    ],
)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
@pytest.mark.sampled(4)
def test_baselines_agree(
    function: Callable[..., object], names: list[str], dtype: mx.Dtype
) -> None:
    random = np.random.default_rng(0)
    arrays = [mx.array(random.standard_normal(s)).astype(dtype) for s in ((4, 16), (16,))]
    graph = ir.canonicalize(ir.capture(function, *arrays))
    baselines = baselines_of(graph)
    assert list(baselines) == names
    expected = ir.interpret(graph, *arrays)
    for run in baselines.values():
        for a, b in zip(run(*arrays), expected, strict=True):
            assert mx.allclose(a, b, rtol=1e-2, atol=1e-2).item()
