"""Every baseline computes the same, and `fast` is there where MLX has a kernel of its own."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.evaluator.speed.baseline import baselines_of
from kernelwright.evaluator.speed.mlx_fast import fast_regions
from kernelwright.ir.trace.stitch import stitch
from kernelwright.plan.traffic import fast_parts
from tests.ir.ropes import APART, ROPES, Function, by_hand, own


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


ALSO: dict[str, Function] = {
    "scaled tables": APART["scaled tables"],
    "behind kept places": lambda x, offset: mx.concatenate(
        [x[..., :4], own(x[..., 4:], offset, dims=12)], axis=-1
    ),
    "before other work": lambda x, offset: mx.tanh(own(x, offset)) * 2,
}


@pytest.mark.parametrize("name", [*ROPES, *ALSO])
def test_rope_counts_however_it_is_written(name: str) -> None:
    """Candidates are timed beside the calls of `mx.fast.rope` that plans count."""
    function = (ROPES | ALSO)[name]
    arrays = (mx.random.normal((2, 3, 5, 16), key=mx.random.key(0)), mx.array(3))
    graph = ir.canonicalize(ir.capture(function, *arrays))
    assert len(fast_parts(graph)) == len(fast_regions(graph)) == 1
    with mx.stream(mx.cpu):
        (fast,) = stitch(graph, fast_regions(graph))(*arrays)
        assert mx.allclose(fast, function(*arrays), rtol=1e-5, atol=1e-6)


def test_rope_that_rounds_once_counts_as_well() -> None:
    """MLX's kernel on a GPU rounds once; the baseline is what it computes, wherever it runs."""
    x = mx.zeros((2, 3, 5, 16), mx.bfloat16)
    graph = ir.canonicalize(ir.capture(by_hand, x, x))
    assert len(fast_regions(graph)) == 1


@pytest.mark.parametrize("name", sorted(APART.keys() - {"rounded once", "scaled tables"}))
def test_rope_by_other_angles_does_not_count(name: str) -> None:
    x = mx.zeros((2, 3, 5, 16), mx.bfloat16)
    graph = ir.canonicalize(ir.capture(APART[name], x, x))
    assert not fast_regions(graph)
    assert not fast_parts(graph)
