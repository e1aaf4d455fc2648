"""Rotary embeddings are computed in a layer's graph, or left to MLX where no kernel serves them."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import pytest
from mlx.nn.layers.base import Module
from mlx.nn.layers.positional_encoding import RoPE
from mlx_lm.models.cache import KVCache

from kernelwright import ir
from kernelwright.plan import partition, with_own_copies
from kernelwright.runtime.models.install import Installation, optimize_model
from kernelwright.runtime.models.nest import Ref, leaves
from kernelwright.runtime.models.route import ROPE
from kernelwright.runtime.models.segment import segments_of
from kernelwright.runtime.models.site import site_of
from kernelwright.runtime.models.target import build_model
from kernelwright.runtime.models.trace import trace_call
from tests.runtime.models.replaying import Replaying, decode

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 200,
    "torch_dtype": "float32",
}
QWEN: dict[str, object] = {
    **LLAMA,
    "model_type": "qwen3",
    "head_dim": 16,
    "rope_theta": 1e6,
    "max_position_embeddings": 1000,
    "tie_word_embeddings": True,
}


def plans(model: Module) -> Sequence[object]:
    site = site_of(model)
    assert site is not None
    assert isinstance(site.owner, Installation)
    return site.owner.chooser.plans


@pytest.mark.parametrize("config", [LLAMA, QWEN], ids=["llama", "qwen3"])
def test_a_model_whose_graphs_hold_them_decodes_the_same(config: dict[str, object]) -> None:
    model = build_model(config)
    expected = decode(model, 6)
    optimize_model(model, Replaying())
    found = decode(model, 6)
    assert found[0] == expected[0]
    assert mx.allclose(found[1], expected[1], atol=1e-4)
    assert any(ROPE in plan.parts for plan in plans(model))  # type: ignore[attr-defined]


def test_without_kernels_for_them_the_others_run() -> None:
    model, server = build_model(LLAMA), Replaying(only="swiglu")
    expected = decode(model, 4)[0]
    optimize_model(model, server)
    assert decode(model, 4)[0] == expected
    # MLX's own kernel of them is put back where graphs hold them.
    assert server.runs


def new_cache() -> KVCache:
    return KVCache()  # type: ignore[no-untyped-call]


class Turned(Module):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rope = RoPE(16, traditional=False, base=1e4)

    def __call__(self, x: mx.array, cache: KVCache) -> mx.array:
        turned = self.rope(x, offset=cache.offset)
        again: mx.array = self.rope(x + turned, offset=cache.offset)
        return again


def test_how_far_a_cache_is_is_read_once_and_first() -> None:
    x = mx.zeros((1, 2, 1, 16))
    trace = trace_call(Turned(), "__call__", (x, new_cache()), {}, {}, holds_rope=True)
    assert [call.name for call in trace.calls] == ["offset", "position"]
    assert trace.rotates


def test_halves_are_turned_as_the_kernel_of_mlx_does() -> None:
    """In float32 and rounded once: cosines in half precision would lose bits that MLX keeps."""
    x = mx.zeros((1, 2, 1, 16), mx.bfloat16)
    trace = trace_call(Turned(), "__call__", (x, new_cache()), {}, {}, holds_rope=True)
    products = [node for node in trace.graph.nodes if node.op in ("multiply", "cos", "sin")]
    types = {trace.graph.types[v].dtype for node in products for v in node.outputs}
    assert types == {ir.Dtype.FLOAT32}


class TurnedBack(Module):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.freqs = mx.arange(1, 9) * 0.5

    def __call__(self, x: mx.array, cache: KVCache) -> mx.array:
        return mx.fast.rope(
            x, 16, traditional=True, base=None, scale=1.0, offset=cache.offset, freqs=-self.freqs
        )


def test_what_a_call_is_given_is_computed_before_it() -> None:
    """Also where parameters alone make it, as the frequencies of a rotation that is undone."""
    x = mx.zeros((1, 2, 1, 16))
    trace = trace_call(TurnedBack(), "__call__", (x, new_cache()), {}, {})
    made = {v: segment.before for segment in segments_of(trace) for v in segment.makes}
    given = {
        (number, leaf.place)
        for number, call in enumerate(trace.calls)
        for leaf in leaves((call.args, call.kwargs))
        if isinstance(leaf, Ref) and leaf.place in made
    }
    assert given
    assert all(made[place] <= number for number, place in given)


def norms_turned(curve: Callable[[mx.array], mx.array]) -> Callable[..., list[mx.array]]:
    def function(*arrays: mx.array) -> list[mx.array]:
        q, k, w, offset = arrays
        found = []
        for x, then in ((q, mx.abs), (k, curve)):
            normed = mx.fast.rms_norm(x.reshape(1, 1, -1, 64), w, 1e-6).transpose(0, 2, 1, 3)
            found.append(
                mx.fast.rope(
                    then(normed), 64, traditional=False, base=1e4, scale=1.0, offset=offset
                )
            )
        return found

    return function


@pytest.mark.parametrize(("curve", "apart", "copied"), [(mx.abs, 1, 1), (mx.tanh, 3, 2)])
def test_either_norm_computes_the_angles_itself(
    curve: Callable[[mx.array], mx.array], apart: int, copied: int
) -> None:
    """Norms that do the same stand side by side in one kernel; others are two."""
    q, k = mx.random.normal((1, 1, 256)), mx.random.normal((1, 1, 128))
    arrays = [q, k, mx.random.normal((64,)), mx.array(7, mx.int32)]
    graph = ir.canonicalize(ir.capture(norms_turned(curve), *arrays))
    own = with_own_copies(graph)
    assert (len(partition(graph)), len(partition(own))) == (apart, copied)
    ir.verify(own)
    expected = norms_turned(curve)(*arrays)
    for made, right in zip(ir.interpret(own, *arrays), expected, strict=True):
        assert mx.allclose(made, right, atol=1e-5)


@pytest.mark.parametrize("function", [lambda x, o: x * mx.cos(o), lambda x, o: mx.sin(o) + x])
def test_what_one_reader_has_is_left_as_it_is(function: Callable[..., mx.array]) -> None:
    graph = ir.canonicalize(ir.capture(function, mx.zeros((4, 8)), mx.array(1.0)))
    assert with_own_copies(graph) is graph
