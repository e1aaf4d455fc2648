"""The emitted MSL, held in files and reviewed as code."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.nn.layers.activations import gelu, silu
from mlx.nn.losses import cross_entropy as cross_entropy_loss

from kernelwright.evaluator.static.rules import check_program
from kernelwright.ir import canonicalize, capture, gather_attention
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import parse

GOLDEN = Path(__file__).parents[2] / "golden" / "lower"
Function = Callable[..., mx.array | tuple[mx.array, ...]]
X = mx.zeros((8, 512), mx.float16)
W = mx.zeros((512,), mx.float16)


def softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def masked_softmax(scores: mx.array, mask: mx.array) -> mx.array:
    return mx.softmax(mx.where(mask, scores, -mx.inf), axis=-1)


def residual_norm(x: mx.array, residual: mx.array, weight: mx.array) -> tuple[mx.array, mx.array]:
    total = x + residual
    return total, mx.fast.rms_norm(total, weight, 1e-5)


def norm_gelu(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    activated: mx.array = gelu(mx.fast.layer_norm(x, weight, bias, 1e-5))
    return activated


def cross_entropy(logits: mx.array, targets: mx.array) -> mx.array:
    return cross_entropy_loss(logits, targets)


def swiglu(gate: mx.array, up: mx.array, bias: mx.array) -> mx.array:
    activated: mx.array = silu(gate + bias) * up
    return activated


def transposed(x: mx.array, scale: mx.array) -> mx.array:
    return (mx.tanh(x) * scale).transpose(1, 0)


def integers(x: mx.array, y: mx.array) -> tuple[mx.array, mx.array]:
    return x // y, x % y


def argmax(x: mx.array) -> mx.array:
    return mx.argmax(x, axis=-1)


def column_mean(x: mx.array) -> mx.array:
    return mx.mean(x, axis=0)


def decay(logits: mx.array) -> mx.array:
    return mx.exp(mx.cumsum(-mx.logaddexp(logits, 0), axis=-1))


def dequantized(packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    return mx.dequantize(packed, scales, biases, group_size=64, bits=4)


def quantized_glu(
    x: mx.array,
    gate: mx.array,
    gate_scales: mx.array,
    gate_biases: mx.array,
    up: mx.array,
    up_scales: mx.array,
    up_biases: mx.array,
) -> mx.array:
    left = mx.quantized_matmul(x, gate, gate_scales, gate_biases, group_size=64, bits=4)
    right = mx.quantized_matmul(x, up, up_scales, up_biases, group_size=64, bits=4)
    activated: mx.array = silu(left) * right
    return activated


def quantized_residual(
    x: mx.array, residual: mx.array, packed: mx.array, scales: mx.array, biases: mx.array
) -> mx.array:
    return residual + mx.quantized_matmul(x, packed, scales, biases, group_size=32, bits=6)


def expert(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, chosen: mx.array
) -> mx.array:
    made: mx.array = silu(
        mx.gather_qmm(x, packed, scales, biases, rhs_indices=chosen, group_size=64, bits=8)
    )
    return made


def gate(logits: mx.array) -> tuple[mx.array, mx.array]:
    p = mx.softmax(logits, axis=-1)
    chosen = mx.argpartition(-p, kth=1, axis=-1)[..., :2]
    weights = mx.take_along_axis(p, chosen, axis=-1)
    return chosen, weights / mx.sum(weights, axis=-1, keepdims=True)


def head_norm_rope(x: mx.array, weight: mx.array) -> mx.array:
    heads = mx.fast.rms_norm(x, weight, 1e-6).transpose(0, 2, 1, 3)
    return mx.fast.rope(heads, 128, traditional=False, base=10000.0, scale=1.0, offset=0)


def query_and_key_norm_rope(
    q: mx.array, k: mx.array, query_weight: mx.array, key_weight: mx.array, offset: mx.array
) -> tuple[mx.array, mx.array]:
    queries = mx.fast.rms_norm(q, query_weight, 1e-6).transpose(0, 2, 1, 3)
    keys = mx.fast.rms_norm(k, key_weight, 1e-6).transpose(0, 2, 1, 3)

    def turn(x: mx.array) -> mx.array:
        return mx.fast.rope(x, 128, traditional=False, base=10000.0, scale=1.0, offset=offset)

    return turn(queries), turn(keys)


def turned_heads(qkv: mx.array, cos: mx.array) -> tuple[mx.array, mx.array]:
    heads = qkv.reshape(qkv.shape[0], 6, 64).transpose(1, 0, 2)

    def turn(x: mx.array) -> mx.array:
        left, right = mx.split(x, 2, axis=-1)
        return mx.concatenate([left * cos - right, left + right * cos], axis=-1)

    return turn(heads[:4]), turn(heads[4:])


Q4 = mx.quantize(mx.zeros((256, 512), mx.float16), 64, 4)
Q6 = mx.quantize(mx.zeros((64, 256), mx.float16), 32, 6)
Q8 = mx.quantize(mx.zeros((4, 64, 256), mx.float16), 64, 8)


def decode(q: mx.array, k: mx.array, v: mx.array, gate: mx.array) -> mx.array:
    attended = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125)
    return attended.reshape(gate.shape) * mx.sigmoid(gate)


def decode_causal(q: mx.array, k: mx.array, v: mx.array, sinks: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal", sinks=sinks)


def prefill_capped(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    keys, values = mx.repeat(k, 2, axis=1), mx.repeat(v, 2, axis=1)
    scores = mx.tanh((q * 0.125) @ keys.swapaxes(-1, -2) / 50.0) * 50.0
    places = mx.arange(q.shape[2])
    scores = mx.where(places <= places[:, None], scores, -mx.inf)
    return mx.softmax(scores, axis=-1, precise=True) @ values


def prefill_window(q: mx.array, k: mx.array, v: mx.array, sinks: mx.array) -> mx.array:
    rows, columns = mx.arange(q.shape[2])[:, None], mx.arange(q.shape[2])
    mask = (columns <= rows) & (columns > rows - 64)
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask, sinks=sinks)


def prefill_sloped(q: mx.array, k: mx.array, v: mx.array, slopes: mx.array) -> mx.array:
    places = mx.arange(q.shape[2])
    after = (places - places[:, None]).astype(q.dtype)
    scores = (q @ k.swapaxes(-1, -2)) * 0.25 + slopes[:, None, None] * after
    return mx.softmax(scores, axis=-1) @ v


def norm_rope_of_a_half(
    x: mx.array, weight: mx.array, cosine: mx.array, sine: mx.array
) -> mx.array:
    normed = mx.fast.rms_norm(x, weight, 1e-5)
    kept, turned = normed[..., :64], normed[..., 64:]
    even, odd = turned[..., ::2], turned[..., 1::2]
    pairs = mx.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1)
    return mx.concatenate([kept, pairs.reshape(turned.shape)], axis=-1)


def project(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    activated: mx.array = silu(x @ weight.T + bias)
    return activated


def residual_project(x: mx.array, weight: mx.array, residual: mx.array) -> mx.array:
    return residual + x @ weight


def gated_project(x: mx.array, weight: mx.array) -> mx.array:
    gate, up = mx.split(x @ weight, 2, axis=-1)
    activated: mx.array = silu(gate) * up
    return activated


CASES: dict[str, tuple[Function, tuple[mx.array, ...], str]] = {
    "softmax_simdgroup": (softmax, (X,), "rowwise(lanes=32, rows=4, vector=4, cached=1)"),
    "softmax_threadgroup": (softmax, (X,), "rowwise(lanes=128, rows=1, vector=4, cached=1)"),
    "softmax_online": (softmax, (X,), "rowwise(lanes=128, rows=1, vector=4, cached=0, online=1)"),
    "softmax_ragged": (
        softmax,
        (mx.zeros((8, 50)),),
        "rowwise(lanes=32, rows=4, vector=1, cached=1)",
    ),
    "softmax_thread": (softmax, (mx.zeros((64, 5)),), "rowwise(lanes=1, rows=64, cached=0)"),
    "masked_softmax": (
        masked_softmax,
        (X, mx.zeros((512,), mx.bool_)),
        "rowwise(lanes=64, rows=1, vector=4, cached=1)",
    ),
    "residual_norm": (
        residual_norm,
        (X, X, W),
        "rowwise(lanes=32, rows=4, vector=4, cached=1)",
    ),
    "norm_gelu": (norm_gelu, (X, W, W), "rowwise(lanes=128, rows=1, vector=4, cached=1)"),
    "cross_entropy": (
        cross_entropy,
        (X, mx.zeros((8,), mx.int32)),
        "rowwise(lanes=32, rows=4, vector=4, cached=0, online=1)",
    ),
    "argmax": (argmax, (X,), "rowwise(lanes=64, rows=1, vector=1, cached=0)"),
    "column_mean": (column_mean, (X,), "rowwise(lanes=1, rows=64, cached=0)"),
    "column_mean_strips": (column_mean, (X,), "columnwise(strips=4)"),
    "column_mean_runs": (column_mean, (X,), "columnwise(strips=2, vector=4)"),
    "argmax_runs": (argmax, (X,), "rowwise(lanes=32, rows=4, vector=4, cached=0)"),
    "experts_joined": (
        lambda x, w: mx.sum(x * w[..., None], axis=1),
        (mx.zeros((64, 4, 512), mx.float16), mx.zeros((64, 4), mx.float16)),
        "elementwise(vector=4)",
    ),
    "norm_of_half_a_simdgroup": (
        lambda x: mx.fast.rms_norm(x, None, 1e-5),
        (mx.zeros((64, 128), mx.float16),),
        "rowwise(lanes=16, rows=8, vector=8, cached=1)",
    ),
    "column_mean_split": (
        column_mean,
        (mx.zeros((512, 512), mx.float16),),
        "column_split(chunks=16, strips=4)",
    ),
    "sum_kahan": (
        lambda x: mx.sum(x, axis=-1),
        (X,),
        "rowwise(lanes=32, rows=4, vector=4, cached=0, kahan=1)",
    ),
    "mean_and_max_split": (
        lambda x: (mx.mean(x), mx.max(x)),
        (mx.zeros((64, 1024), mx.float16),),
        "split(chunks=64, lanes=64, vector=4)",
    ),
    "decay": (decay, (X,), "scan(lanes=64, rows=1, vector=4)"),
    "reverse_maximum": (
        lambda x: mx.cummax(x, axis=-1, reverse=True) - x,
        (mx.zeros((8, 50)),),
        "scan(lanes=32, rows=4, vector=1)",
    ),
    "running_product": (
        lambda x: mx.cumprod(x, axis=-1),
        (X,),
        "scan(lanes=32, rows=4, vector=4)",
    ),
    "short_rows_in_sequence": (
        lambda x: mx.cumsum(x * 2, axis=-1) - x,
        (mx.zeros((64, 8)),),
        "scan(lanes=1, rows=64, vector=1)",
    ),
    "window_padded": (
        lambda x, w: mx.conv2d(x, w, padding=1, groups=64),
        (mx.zeros((2, 32, 32, 64), mx.float16), mx.zeros((64, 3, 3, 1), mx.float16)),
        "elementwise(vector=4, threads=256)",
    ),
    "window_of_rows": (
        lambda x, w: mx.conv_general(x, w, padding=([3], [0]), groups=64),
        (mx.zeros((2, 32, 64), mx.float16), mx.zeros((64, 4, 1), mx.float16)),
        "elementwise(vector=4, threads=256, rows=4)",
    ),
    "norm_rope_of_a_half": (
        norm_rope_of_a_half,
        (
            mx.zeros((2, 16, 128), mx.float16),
            mx.zeros((128,), mx.float16),
            mx.zeros((16, 32)),
            mx.zeros((16, 32)),
        ),
        "rowwise(lanes=32, rows=4, cached=0)",
    ),
    "swiglu_bias": (swiglu, (X, X, W), "elementwise(vector=4, threads=256)"),
    "swiglu_eight": (swiglu, (X, X, W), "elementwise(vector=8, threads=256)"),
    "swiglu_unrolled": (swiglu, (X, X, W), "elementwise(vector=4, threads=64, unroll=2)"),
    "dequantized": (dequantized, tuple(Q4), "elementwise(vector=4, threads=256)"),
    "quantized_glu": (
        quantized_glu,
        (mx.zeros((1, 1, 512), mx.float16), *Q4, *Q4),
        "matvec(results=4, words=2, simdgroups=2)",
    ),
    "quantized_residual": (
        quantized_residual,
        (mx.zeros((2, 256), mx.float16), mx.zeros((2, 64), mx.float16), *Q6),
        "matvec(results=2, words=3, simdgroups=2)",
    ),
    "expert": (
        expert,
        (mx.zeros((3, 1, 1, 256), mx.float16), *Q8, mx.zeros((3, 2), mx.uint32)),
        "matvec(results=1, words=2, simdgroups=4)",
    ),
    "gate": (gate, (mx.zeros((8, 64)),), "rowwise(lanes=32, rows=4, vector=2, cached=1)"),
    "largest_three": (
        lambda x: mx.topk(x, 3),
        (mx.zeros((8, 50)),),
        "rowwise(lanes=1, rows=64, cached=0)",
    ),
    "head_norm_rope": (
        head_norm_rope,
        (mx.zeros((1, 16, 8, 128), mx.float16), mx.zeros((128,), mx.float16)),
        "rowwise(lanes=32, rows=4, vector=2, cached=1)",
    ),
    "query_and_key_norm_rope": (
        query_and_key_norm_rope,
        (
            mx.zeros((1, 1, 16, 128), mx.float16),
            mx.zeros((1, 1, 8, 128), mx.float16),
            mx.zeros((128,), mx.float16),
            mx.ones((128,), mx.float16),
            mx.array(0),
        ),
        "rowwise(lanes=16, rows=8, vector=4, cached=1)",
    ),
    "turned_heads": (
        turned_heads,
        (mx.zeros((16, 384), mx.float16), mx.zeros((16, 32), mx.float16)),
        "elementwise(vector=4, threads=256)",
    ),
    "transposed": (transposed, (X, mx.array(2.0, mx.float16)), "elementwise(vector=1)"),
    "attention_decode": (
        decode,
        (
            mx.zeros((2, 8, 1, 64), mx.float16),
            mx.zeros((2, 2, 1024, 64), mx.float16),
            mx.zeros((2, 2, 1024, 64), mx.float16),
            mx.zeros((2, 1, 512), mx.float16),
        ),
        "attention(lanes=8, queries=4, simdgroups=4, keys=2, chunks=1)",
    ),
    "attention_decode_eight": (
        decode,
        (
            mx.zeros((2, 8, 1, 64), mx.float16),
            mx.zeros((2, 2, 1024, 64), mx.float16),
            mx.zeros((2, 2, 1024, 64), mx.float16),
            mx.zeros((2, 1, 512), mx.float16),
        ),
        "attention(lanes=8, queries=4, simdgroups=4, keys=2, chunks=1, fixed=1, vector=8)",
    ),
    "attention_chunks": (
        decode_causal,
        (
            mx.zeros((1, 8, 3, 128), mx.bfloat16),
            mx.zeros((1, 8, 1000, 128), mx.bfloat16),
            mx.zeros((1, 8, 1000, 128), mx.bfloat16),
            mx.zeros((8,), mx.bfloat16),
        ),
        "attention(lanes=32, queries=1, simdgroups=8, keys=1, chunks=4)",
    ),
    "prefill_capped": (
        prefill_capped,
        (
            mx.zeros((1, 8, 512, 64), mx.float16),
            mx.zeros((1, 4, 512, 64), mx.float16),
            mx.zeros((1, 4, 512, 64), mx.float16),
        ),
        "prefill(rows=1, simdgroups=4, keys=32)",
    ),
    "prefill_ahead": (
        prefill_capped,
        (
            mx.zeros((1, 8, 512, 64), mx.float16),
            mx.zeros((1, 4, 512, 64), mx.float16),
            mx.zeros((1, 4, 512, 64), mx.float16),
        ),
        "prefill(rows=4, simdgroups=2, keys=32, fixed=1, ahead=1)",
    ),
    "prefill_window": (
        prefill_window,
        (*[mx.zeros((1, 8, 500, 128), mx.bfloat16)] * 3, mx.zeros((8,), mx.bfloat16)),
        "prefill(rows=2, simdgroups=2, keys=16, fixed=1)",
    ),
    "prefill_sloped": (
        prefill_sloped,
        (*[mx.zeros((1, 8, 100, 20))] * 3, mx.zeros((8,))),
        "prefill(rows=1, simdgroups=2, keys=32)",
    ),
    "project": (
        project,
        (mx.zeros((1, 512), mx.float16), mx.zeros((256, 512), mx.float16), W[:256]),
        "dense(columns=4, strips=1, teams=4, vector=4)",
    ),
    "project_tiles": (
        project,
        (mx.zeros((20, 512), mx.float16), mx.zeros((256, 512), mx.float16), W[:256]),
        "matmul(rows=2, columns=2, simdgroups=4, depth=16)",
    ),
    "gated_project": (
        gated_project,
        (mx.zeros((3, 512), mx.float16), mx.zeros((512, 200), mx.float16)),
        "dense(columns=1, strips=8, teams=1, vector=4)",
    ),
    "residual_chunks": (
        residual_project,
        (mx.zeros((3, 512), mx.float16), mx.zeros((512, 200), mx.float16), W[:200]),
        "dense(columns=1, strips=4, teams=1, vector=8, terms=4, chunks=8)",
    ),
    "integers": (
        integers,
        (mx.zeros((7, 3), mx.int32), mx.zeros((7, 3), mx.int32)),
        "elementwise(vector=4)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_read_as_written_by_hand(name: str, pytestconfig: pytest.Config) -> None:
    function, inputs, schedule = CASES[name]
    graph = gather_attention(canonicalize(capture(function, *inputs)))
    text = listing(lower(graph, parse(schedule)), schedule)
    path = GOLDEN / f"{name}.metal"
    if pytestconfig.getoption("--update-golden"):
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize("name", CASES)
def test_kernels_break_no_static_rule(name: str) -> None:
    function, inputs, schedule = CASES[name]
    graph = gather_attention(canonicalize(capture(function, *inputs)))
    program = lower(graph, parse(schedule))
    assert check_program(program) == ()


def listing(program: Program, schedule: str) -> str:
    parts = [f"// {schedule}\n"]
    for kernel in program.kernels:
        arrays = f"{', '.join(kernel.inputs)} -> {', '.join(kernel.outputs)}"
        launch = f"grid {kernel.grid}, threadgroup {kernel.threadgroup}"
        parts.append(f"// {kernel.name}: {arrays}; {launch}\n{kernel.header}\n{kernel.source}")
    return "".join(parts)
