"""Printed MLX code computes what the graph computes, bit for bit."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn import losses
from mlx.nn.layers.activations import gelu, gelu_approx, silu
from numpy.typing import NDArray

from kernelwright.errors import UnsupportedError
from kernelwright.ir import Graph, canonicalize, capture, gather_attention, interpret
from kernelwright.runtime.export import function_source
from kernelwright.runtime.export.step_code import steps_source

Function = Callable[..., object]


def rope(x: mx.array) -> mx.array:
    return mx.fast.rope(x, 16, traditional=False, base=10000.0, scale=1.0, offset=0)


def residual_norm(x: mx.array, y: mx.array, w: mx.array) -> tuple[mx.array, mx.array]:
    hidden = x + y
    return hidden, mx.fast.rms_norm(hidden, w, 1e-5)


def operators(x: mx.array, y: mx.array) -> mx.array:
    return 1 - x * (2 / (y - 3.5)) / (x - (y - 1)) ** 2 - -x


def logic(x: mx.array, y: mx.array) -> mx.array:
    return mx.where((x > y) & (x != 0.5) | mx.isnan(y), x, -mx.inf)


def halves(x: mx.array) -> mx.array:
    left, right = mx.split(x, 2, axis=-1)
    return mx.concatenate([-right, left], axis=-1)


def picked(x: mx.array, y: mx.array) -> mx.array:
    return mx.pad(x[1:5, ::-1][:, 2:9:3], 1) + mx.take(y, mx.array([3, 0, 1, 5, 2]), axis=1)[:6]


def scanned(x: mx.array) -> mx.array:
    return (
        mx.cumsum(x, axis=0, reverse=True) + mx.sort(x, axis=-1) + mx.argmax(x, -1, keepdims=True)
    )


def attention(x: mx.array, y: mx.array) -> mx.array:
    scores = (x @ y.T).astype(mx.float32) * 0.25
    mask = mx.arange(8)[:, None] >= mx.arange(8)[None]
    return mx.softmax(mx.where(mask, scores, mx.finfo(mx.float32).min), axis=-1)


def pixels(x: mx.array, y: mx.array) -> mx.array:
    rows, columns = mx.array([[3, 0], [7, 7]]), mx.array([0, 5])
    return x[rows, columns] + mx.sum(y[:, rows], axis=0) + x.T[columns][:, mx.array([1, 2])]


def updated(x: mx.array, y: mx.array) -> mx.array:
    z = mx.exp(x)
    z[1:3, 2:] = y[:2, 2:]
    z[:, ::2] = -z[:, 1::2]
    z = z.at[2:5].add(y[:3]).at[::2, 1].maximum(y[4, 0]).at[1].multiply(x[1])
    best = mx.argmax(y, axis=1, keepdims=True)
    return mx.put_along_axis(z, best, y[:, :1], axis=1)


def loss_gradient(x: mx.array, y: mx.array) -> mx.array:
    labels = mx.argmax(y, axis=1)
    return mx.grad(lambda x: mx.mean(losses.cross_entropy(x, labels)))(x)  # type: ignore[no-any-return]


FUNCTIONS: dict[str, tuple[Function, int]] = {
    "rms_norm": (lambda x, y, w: residual_norm(x, y, w[0]), 3),
    "layer_norm": (lambda x, w, b: mx.fast.layer_norm(x, w[0], b[0], 1e-5), 3),
    "gelu": (gelu, 1),
    "gelu_approx": (gelu_approx, 1),
    "swiglu": (lambda x, y: silu(x) * y, 2),
    "logsumexp": (lambda x: mx.logsumexp(x, -1, keepdims=True) - mx.var(x, axis=-1, ddof=1), 1),
    "rope": (lambda x: rope(x.reshape(1, 1, 8, 16)), 1),
    "operators": (operators, 2),
    "logic": (logic, 2),
    "halves": (halves, 1),
    "picked": (picked, 2),
    "pixels": (pixels, 2),
    "updated": (updated, 2),
    "loss gradient": (loss_gradient, 2),
    "scanned": (scanned, 1),
    "attention": (attention, 2),
    "bits": (lambda x: (x.astype(mx.int32) << 2 ^ 7) // 3 % 5 | 1, 1),
}


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_printed_code_equals_the_graph(name: str, dtype: mx.Dtype) -> None:
    function, count = FUNCTIONS[name]
    arrays = _arrays(count, dtype)
    graph = canonicalize(capture(function, *arrays))
    with mx.stream(mx.cpu):
        wanted = interpret(graph, *arrays)
        found = _run(graph, arrays)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.array_equal(_bits(a), _bits(b))


def test_code_reads_as_a_person_would_write_it() -> None:
    x = mx.zeros((4, 8), mx.bfloat16)
    graph = canonicalize(capture(residual_norm, x, x, mx.zeros((8,), mx.bfloat16)))
    assert function_source(graph, "reference", "Do it.") == (
        "def reference(x, y, w):\n"
        '    """Do it."""\n'
        "    t1 = x + y  # bf16[4,8]\n"
        "    t2 = t1.astype(mx.float32)  # f32[4,8]\n"
        "    t3 = mx.rsqrt(mx.mean(mx.square(t2), axis=-1, keepdims=True) + 1e-05)  # f32[4,1]\n"
        "    return t1, (t2 * t3).astype(x.dtype) * w\n"
    )


def test_fallback_keeps_the_precision_of_another_dtype() -> None:
    arrays = _arrays(3, mx.bfloat16)
    wide = [a.astype(mx.float32) for a in arrays]
    graph = canonicalize(capture(FUNCTIONS["rms_norm"][0], *arrays))
    with mx.stream(mx.cpu):
        found = _run(graph, wide)
        wanted = interpret(canonicalize(capture(FUNCTIONS["rms_norm"][0], *wide)), *wide)
    assert all(mx.array_equal(a, b).item() for a, b in zip(found, wanted, strict=True))


def test_attention_kept_whole_is_mlxs_own_function() -> None:
    def attend(q: mx.array, k: mx.array, v: mx.array, sinks: mx.array) -> mx.array:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask="causal", sinks=sinks)

    q, sinks, cache = mx.zeros((1, 4, 2, 8)), mx.zeros((4,)), mx.zeros((1, 2, 9, 8))
    graph = gather_attention(canonicalize(capture(attend, q, cache, cache, sinks)))
    assert (
        "mx.fast.scaled_dot_product_attention("
        'q, k, v, scale=0.5, mask="causal", sinks=sinks)' in function_source(graph, "r", "Do it.")
    )


@pytest.mark.parametrize("is_capped", [False, True])
def test_attention_that_mlx_has_no_function_for_is_printed_step_by_step(is_capped: bool) -> None:
    def attend(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        rows, columns = mx.arange(4)[:, None], mx.arange(4)
        scores = q @ k.swapaxes(-1, -2) * 0.5
        scores = mx.tanh(scores / 5) * 5 if is_capped else scores
        seen = (columns <= rows) & (columns > rows - 2)
        return mx.softmax(mx.where(seen, scores, -mx.inf), axis=-1) @ v

    arrays = [mx.random.normal((1, 2, 4, 8), key=mx.random.key(i)) for i in range(3)]
    graph = gather_attention(canonicalize(capture(attend, *arrays)))
    assert [node.op for node in graph.nodes] == ["attention"]
    with mx.stream(mx.cpu):
        (found,) = _run(graph, arrays)
        assert mx.allclose(found, attend(*arrays), rtol=1e-5, atol=1e-6).item()


def packed(x: mx.array, w: mx.array, s: mx.array, b: mx.array, i: mx.array) -> mx.array:
    w3, s3, b3 = (mx.stack([a, a, a]) for a in (w, s, b))
    chosen = mx.gather_qmm(x[:, None], w3, s3, b3, rhs_indices=i, group_size=32, bits=6)
    whole = mx.quantized_matmul(x, w, s, b, True, 32, 6)
    return chosen[:, 0] + whole * mx.dequantize(w, s, b, 32, 6)[0, :8]


def ranked(x: mx.array, w: mx.array, s: mx.array, b: mx.array, i: mx.array) -> mx.array:
    place = mx.argpartition(x, 5, axis=-1)[:, 1:5]
    return mx.take_along_axis(x, place, axis=-1) + mx.sort(x, axis=-1)[:, ::-1][:, :4] + place[:1]


@pytest.mark.parametrize("function", [packed, ranked])
def test_packed_weights_and_ranks_print_as_mlx_calls_them(function: Function) -> None:
    x = mx.random.normal((8, 64), key=mx.random.key(1))
    weights = mx.quantize(mx.random.normal((8, 64), key=mx.random.key(2)), 32, 6)
    arrays = [x, *weights, mx.array([0, 2, 1, 0, 0, 1, 2, 2], mx.uint32)]
    graph = canonicalize(capture(function, *arrays))
    with mx.stream(mx.cpu):
        (found,), (wanted,) = _run(graph, arrays), interpret(graph, *arrays)
    assert mx.array_equal(found, wanted).item()


def convolved(x: mx.array, w: mx.array) -> mx.array:
    small = w.reshape(4, 4, 8)[:, :3]
    return mx.conv1d(x.reshape(1, 16, 8), small, stride=2, padding=1) + mx.conv_general(
        x.reshape(1, 16, 8), small, padding=([2], [1]), kernel_dilation=2, stride=2
    )


def transformed(x: mx.array, y: mx.array) -> mx.array:
    spectrum = mx.fft.rfft(x) * mx.fft.fft(y)[:, :9]
    bits = mx.view(y, mx.int32) & 0xFFFF
    return mx.fft.irfft(spectrum, n=16) + mx.hadamard_transform(x) + mx.abs(spectrum).sum() + bits


def factorised(x: mx.array) -> mx.array:
    square = x @ x.T + 8 * mx.eye(8)
    inverse = mx.linalg.inv(square) @ mx.linalg.cholesky(square)
    q, r = mx.linalg.qr(square)
    return inverse + q @ r + mx.linalg.eigvalsh(square) + mx.linalg.svd(square)[1]


def scattered(x: mx.array, y: mx.array) -> mx.array:
    rows, places = mx.array([2, 0, 5]), mx.array([[1, 7], [0, 3], [1, 15]])
    x = x.at[rows].add(y[:3]).at[rows[:2], rows[1:]].multiply(3.0).at[1:7:2, 2:9:3].maximum(0.5)
    x[rows] = y[4:7]
    x[1:7:2, 2:9:3] = y[:3, :3]
    return mx.put_along_axis(x[:3], places, y[:3, :2], axis=1) + mx.searchsorted(
        mx.sort(y[0]), x[:3]
    )


def masked(x: mx.array, y: mx.array) -> tuple[mx.array, ...]:
    quotient, rest = mx.divmod(x, mx.abs(y) + 0.5)
    x[y > 0] = y[0, 0]
    windows = mx.as_strided(mx.addmm(x, x, y.T @ x, 0.5, 2.0), (4, 3), (2, 5), 1)
    return quotient + rest, x, windows


@pytest.mark.parametrize("function", [convolved, transformed, factorised, scattered, masked])
def test_what_no_kernel_computes_prints_as_mlx_calls_it(function: Function) -> None:
    arrays = _arrays(
        len(function.__code__.co_varnames[: function.__code__.co_argcount]), mx.float32
    )
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, *arrays))
        for found, wanted in zip(_run(graph, arrays), interpret(graph, *arrays), strict=True):
            assert mx.array_equal(found, wanted, equal_nan=True).item()


def test_an_op_without_printed_form_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = capture(lambda x: mx.fft.fft(x), mx.zeros((4, 4)))
    monkeypatch.setattr("kernelwright.runtime.export.reference_code.RENDERERS", {})
    with pytest.raises(UnsupportedError, match="the op 'fft' cannot be printed"):
        function_source(graph, "reference", "")


def _arrays(count: int, dtype: mx.Dtype) -> list[mx.array]:
    generator = np.random.default_rng(7)
    return [mx.array(generator.normal(size=(8, 16))).astype(dtype) for _ in range(count)]


def _run(graph: Graph, arrays: list[mx.array]) -> list[mx.array]:
    module: dict[str, Callable[..., mx.array | tuple[mx.array, ...]]] = {}
    source = function_source(graph, "reference", "X")
    exec(f"import mlx.core as mx\n{source}{steps_source(source)}", module)
    result = module["reference"](*arrays)
    return [result] if isinstance(result, mx.array) else list(result)


def _bits(array: mx.array) -> NDArray[np.generic]:
    return np.array(array.astype(mx.float32) if array.dtype == mx.bfloat16 else array)


def _combined(experts: mx.array, scores: mx.array) -> mx.array:
    return (experts * mx.softmax(scores, axis=-1)[..., None]).sum(axis=1)


def _gated(x: mx.array) -> mx.array:
    gate, up = mx.split(x, 2, axis=-1)
    return (gate * mx.sigmoid(up)).reshape(x.shape[0], -1, 4).swapaxes(0, 1)


def _turned(x: mx.array) -> mx.array:
    half = x.shape[-1] // 2
    angles = mx.arange(x.shape[1])[:, None] * mx.exp(-mx.arange(half) * 0.3)
    a, b = x[..., :half], x[..., half:]
    return mx.concatenate([a * mx.cos(angles), b * mx.sin(angles)], axis=-1)


def _joined(past: mx.array, new: mx.array, mask: mx.array) -> mx.array:
    whole = mx.concatenate([past, new], axis=0) + mask
    return mx.repeat(whole.reshape(-1, 2, whole.shape[-1] // 2)[::-1], 3, axis=1)


def _stencil(x: mx.array) -> mx.array:
    padded = mx.pad(x, [(0, 0), (2, 1)])
    slid = mx.zeros_like(x)
    for k in range(4):
        slid = slid + (k + 0.5) * padded[:, k : k + x.shape[1]]
    added = mx.tanh(slid).at[:, 1:-1].add(1)[:, :-2] * mx.arange(1, 2 * x.shape[1] - 4, 2)
    return mx.concatenate([added[:, 1:], x[:, ::-1]], axis=1)


def _strided(x: mx.array) -> mx.array:
    return mx.repeat(x[:, 1::2], 2, axis=1) - x * mx.arange(0, -x.shape[1], -1)


@pytest.mark.parametrize(
    ("function", "before", "after"),
    [
        (_joined, [(40, 8), (9, 8), (49, 8)], [(37, 8), (2, 8), (39, 8)]),
        (_stencil, [(3, 40)], [(5, 23)]),
        (_strided, [(3, 40)], [(5, 22)]),
        (_combined, [(64, 4, 32), (64, 4)], [(32, 4, 16), (32, 4)]),
        (_gated, [(64, 32)], [(8, 16)]),
        (_turned, [(2, 16, 8)], [(3, 5, 12)]),
    ],
)
def test_the_fallback_takes_its_sizes_from_the_inputs(
    function: Callable[..., mx.array],
    before: list[tuple[int, ...]],
    after: list[tuple[int, ...]],
) -> None:
    graph = canonicalize(capture(function, *map(mx.zeros, before)))
    space: dict[str, object] = {"mx": mx}
    exec(function_source(graph, "printed", "Compute it."), space)
    printed = space["printed"]
    assert callable(printed)
    arrays = [mx.random.normal(shape, key=mx.random.key(1)) for shape in after]
    assert mx.allclose(printed(*arrays), function(*arrays), atol=1e-6).item()
