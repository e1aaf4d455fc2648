"""Every function of `mx.fast` counts as MLX at its best, the day that MLX has it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.speed.baseline import baselines_of
from kernelwright.ir import Graph, canonicalize, capture, gather_attention
from kernelwright.ir.trace.fast_call import (
    KERNEL_MAKERS,
    WHOLE_CALLS,
    WITH_IDIOM,
    find_fast_call,
)
from kernelwright.plan import compiled_traffic, fast_traffic, mlx_kernels

HEADS, DEPTH = 4, 64


def _delta(*arrays: mx.array, mask: mx.array | None = None) -> list[mx.array]:
    q, k, v, gamma, beta, *state = arrays
    found = mx.fast.gated_delta_update(q, k, v, gamma, beta, state[0] if state else None, mask)
    return list(found)


@dataclass(frozen=True)
class Call:
    function: Callable[..., mx.array | Sequence[mx.array]]
    shapes: tuple[tuple[int, ...], ...]
    others: tuple[mx.array, ...] = ()
    """Arguments behind the floats."""


def _rope(traditional: bool, base: float | None, scale: float, offset: int, dims: int = 32) -> Call:
    return Call(
        lambda x: mx.fast.rope(
            x, dims, traditional=traditional, base=base, scale=scale, offset=offset
        ),
        ((1, 2, 8, 64),),
    )


def _rope_from(offset: mx.array) -> Call:
    return Call(
        lambda x, start: mx.fast.rope(x, 32, traditional=False, base=1e4, scale=1.0, offset=start),
        ((2, 2, 8, 64),),
        (offset,),
    )


def _rope_by_frequencies(x: mx.array) -> mx.array:
    periods = mx.arange(1.0, 17.0)
    return mx.fast.rope(x, 32, traditional=True, base=None, scale=1.0, offset=2, freqs=periods)


def _attention(
    *shapes: tuple[int, ...], mask: mx.array | str | None = None, sinks: bool = False
) -> Call:
    others = (mask,) if isinstance(mask, mx.array) else ()

    def call(q: mx.array, k: mx.array, v: mx.array, *rest: mx.array) -> mx.array:
        left = list(rest)
        sink = left.pop(0) if sinks else None
        hidden = left[0] if left else mask
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=hidden, sinks=sink)

    return Call(call, (*shapes, *([shapes[0][1:2]] if sinks else [])), others)


_QUERIES = ((1, 3, 2, DEPTH), (1, 3, 2, DEPTH), (1, 3, HEADS, 32), (1, 3, HEADS), (1, 3, HEADS))
_HEADS = (1, HEADS, 4, DEPTH)
_FEW_HEADS = (1, 2, 16, DEPTH)
_LOWER = mx.tril(mx.ones((4, 4))) > 0
CALLS: dict[str, list[Call]] = {
    "rms_norm": [
        Call(lambda x, w: mx.fast.rms_norm(x, w, 1e-5), ((8, 64), (64,))),
        Call(lambda x: mx.fast.rms_norm(x, None, 1e-5), ((8, 64),)),
    ],
    "layer_norm": [
        Call(lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5), ((8, 64), (64,), (64,))),
        Call(lambda x, w: mx.fast.layer_norm(x, w, None, 1e-5), ((8, 64), (64,))),
        Call(lambda x, b: mx.fast.layer_norm(x, None, b, 1e-5), ((8, 64), (64,))),
        Call(lambda x: mx.fast.layer_norm(x, None, None, 1e-5), ((8, 64),)),
    ],
    "rope": [
        _rope(False, 1e4, 1.0, 0),
        _rope(True, 5e5, 1.0, 7),
        _rope(False, 1e6, 0.25, 1),
        _rope(False, 1e4, 1.0, 0, dims=64),
        _rope_from(mx.array(3)),
        _rope_from(mx.array([3, 5])),
        Call(_rope_by_frequencies, ((1, 2, 8, 64),)),
    ],
    "scaled_dot_product_attention": [
        _attention(_HEADS, _HEADS, _HEADS),
        _attention(_HEADS, _HEADS, _HEADS, mask="causal"),
        _attention(_HEADS, _HEADS, _HEADS, mask=_LOWER),
        _attention(_HEADS, _HEADS, _HEADS, mask=mx.where(_LOWER, 0.0, -1.0).astype(mx.float16)),
        _attention(_HEADS, _FEW_HEADS, _FEW_HEADS),
        _attention(_HEADS, _HEADS, _HEADS, sinks=True),
        _attention(_HEADS, _HEADS, _HEADS, mask="causal", sinks=True),
    ],
    "cross_entropy": [
        Call(lambda x: mx.fast.cross_entropy(x, mx.arange(8, dtype=mx.int32)), ((8, 64),)),
        Call(mx.fast.cross_entropy, ((2, 4, 64),), (mx.zeros((2, 4), mx.int32),)),
    ],
    "gated_delta_update": [
        Call(_delta, _QUERIES),
        Call(_delta, (*_QUERIES, (1, HEADS, 32, DEPTH))),
        Call(lambda k, q, v, b, g: _delta(q, k, v, g, b), _QUERIES),
        Call(lambda *arrays: _delta(*arrays)[0], _QUERIES),
        Call(
            lambda *arrays: _delta(*arrays[:5], mask=arrays[5]),
            _QUERIES,
            (mx.ones((1, 3), mx.bool_),),
        ),
    ],
}
PARAMETERS: dict[str, set[str]] = {
    "rms_norm": {"x", "weight", "eps"},
    "layer_norm": {"x", "weight", "bias", "eps"},
    "rope": {"a", "dims", "traditional", "base", "scale", "offset", "freqs"},
    "scaled_dot_product_attention": {"q", "k", "v", "scale", "mask", "sinks", "force_fused"},
    "cross_entropy": {"logits", "targets"},
    "gated_delta_update": {"q", "k", "v", "gamma", "beta", "initial_state", "mask"},
}
"""What each takes beside a stream. A fused attention is what counts, forced or not."""
CASES = [(name, place) for name, calls in CALLS.items() for place in range(len(calls))]


def _graph(call: Call, dtype: mx.Dtype = mx.float32) -> Graph:
    with mx.stream(mx.cpu):
        floats = (mx.zeros(s, dtype) for s in call.shapes)
        return canonicalize(capture(call.function, *floats, *call.others))


def test_mlx_has_no_fast_function_that_is_unknown_here() -> None:
    offered = {name for name in dir(mx.fast) if not name.startswith("_")}
    known = WITH_IDIOM | WHOLE_CALLS.keys()
    assert offered - KERNEL_MAKERS == known, "teach plan and baselines the new ones"
    assert known == CALLS.keys()


@pytest.mark.parametrize("name", PARAMETERS)
def test_mlx_has_no_parameter_that_is_unknown_here(name: str) -> None:
    signature = str(getattr(mx.fast, name).__doc__).strip().split(") ->")[0]
    offered = {*re.findall(r"[(,]\s*(?:\*,\s*)?(\w+):", signature)}
    assert offered - {"stream"} == PARAMETERS[name], "call it with the new one in CALLS"


@pytest.mark.parametrize(("name", "place"), CASES)
def test_a_function_that_is_one_call_is_one_kernel_of_mlx(name: str, place: int) -> None:
    graph = gather_attention(_graph(CALLS[name][place], mx.float16))
    assert fast_traffic(graph).launches == 1
    assert name.removeprefix("scaled_dot_product_") in mlx_kernels(graph).values() or (
        compiled_traffic(graph) == fast_traffic(graph)
    )


@pytest.mark.parametrize(("name", "place"), CASES)
@pytest.mark.sampled(5)
def test_its_baseline_computes_the_same(name: str, place: int) -> None:
    graph = _graph(CALLS[name][place])
    random = np.random.default_rng(place)
    with mx.stream(mx.cpu):
        call = CALLS[name][place]
        floats = [mx.array(random.random(s, np.float32)) * 0.1 for s in call.shapes]
        arrays = [*floats, *call.others]
        eager, fast = (baselines_of(graph)[way](*arrays) for way in ("eager", "fast"))
        assert all(mx.allclose(a, b, 1e-4, 1e-5) for a, b in zip(eager, fast, strict=True))


def test_a_loss_that_is_negated_behind_its_mean_has_the_same_baseline() -> None:
    def loss(x: mx.array) -> mx.array:
        rows = x - mx.logsumexp(x, -1, keepdims=True)
        return -mx.take_along_axis(rows, mx.arange(8)[:, None], -1).mean()

    graph = _graph(Call(loss, ((8, 64),)))
    assert "log_likelihood" in mlx_kernels(graph).values()
    x = mx.random.normal((8, 64), key=mx.random.key(3))
    with mx.stream(mx.cpu):
        (fast,) = baselines_of(graph)["fast"](x)
        assert mx.allclose(fast, loss(x), 1e-5, 1e-6)


def test_work_beside_a_call_is_no_call() -> None:
    doubled = Call(lambda *arrays: [2 * _delta(*arrays)[0], _delta(*arrays)[1]], _QUERIES)
    assert find_fast_call(_graph(doubled)) is None


def _turned(x: mx.array) -> mx.array:
    """Turn rows of one matrix, which `mx.fast.rope` takes only with an axis of batches."""
    return mx.fast.rope(x[None], 32, traditional=False, base=1e4, scale=1.0, offset=0)[0]


def test_what_mlx_refuses_is_no_call() -> None:
    graph = _graph(Call(_turned, ((8, 64),)))
    assert find_fast_call(graph) is None
    assert fast_traffic(graph).launches == 1
