"""Each family computes what its own kind of graph asks for, edge cases included."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn import losses
from mlx.nn.layers.normalization import GroupNorm

from kernelwright.errors import UnsupportedError
from kernelwright.ir import Dtype, Graph, TensorType, canonicalize, capture, reference
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import parse

Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Function = Callable[..., mx.array | tuple[mx.array, ...]]
Case = tuple[Function, tuple[mx.array, ...], str]
F = mx.zeros((20, 33))
INTEGERS = mx.zeros((4, 33), mx.int32)


def rope(x: mx.array, *, traditional: bool) -> mx.array:
    return mx.fast.rope(x, 8, traditional=traditional, base=10000.0, scale=1.0, offset=3)


def rope_tables(x: mx.array, c: mx.array) -> mx.array:
    left, right = mx.split(x, 2, axis=-1)
    return mx.concatenate([left * c - right, left + right * c], axis=-1)


def norm_rope(x: mx.array, w: mx.array, *, traditional: bool) -> mx.array:
    normal = mx.fast.rms_norm(x, w, 1e-6).transpose(0, 2, 1, 3)
    return mx.fast.rope(normal, 8, traditional=traditional, base=10000.0, scale=1.0, offset=3)


def update(cache: mx.array, fresh: mx.array) -> mx.array:
    result = cache * 1.5
    result[1:3] = fresh
    return result


def every_second(x: mx.array, y: mx.array) -> mx.array:
    result = mx.abs(x)
    result[:, 1::2] = result[:, ::2][:, :4] - 1
    result[1:6:3, 4::2] = y
    return result


def joined(x: mx.array, y: mx.array) -> mx.array:
    x = mx.tanh(x).at[:, :2].add(y).at[:, 2:4].multiply(y)
    return x.at[:, 3:5].maximum(y).at[::2, 5:7].minimum(y[1::2])


def batch_norm(x: mx.array) -> mx.array:
    centred = x - mx.mean(x, axis=0, keepdims=True)
    return centred * mx.rsqrt(mx.var(x, axis=0, keepdims=True) + 1e-3)


def at_its_best(scores: mx.array, x: mx.array) -> mx.array:
    best = mx.argmax(scores, axis=-1, keepdims=True)
    chances = mx.softmax(x, axis=-1)
    return mx.take_along_axis(chances, best, axis=-1) * scores.max(axis=-1, keepdims=True)


CASES: dict[str, Case] = {
    "read where a reduction says": (at_its_best, (F, F), "rowwise(lanes=32)"),
    "read where a reduction says, a thread a row": (
        at_its_best,
        (F, F),
        "rowwise(lanes=1,rows=64)",
    ),
    "rope in halves": (
        lambda x: rope(x, traditional=False),
        (mx.zeros((2, 4, 6, 8)),),
        "elementwise(vector=4)",
    ),
    "rope in pairs": (
        lambda x: rope(x, traditional=True),
        (mx.zeros((2, 4, 6, 8)),),
        "elementwise(vector=1)",
    ),
    "rope of a part": (
        lambda x: mx.fast.rope(x, 4, traditional=False, base=100.0, scale=1.0, offset=0) * 2,
        (mx.zeros((1, 2, 6, 8)),),
        "elementwise(vector=1)",
    ),
    "norm and rope in halves, heads first": (
        lambda x, w: norm_rope(x, w, traditional=False),
        (mx.zeros((2, 6, 3, 8), mx.float16), mx.zeros((8,), mx.float16)),
        "rowwise(lanes=32, rows=4, cached=1)",
    ),
    "norm and rope in pairs, read again": (
        lambda x, w: norm_rope(x, w, traditional=True),
        (mx.zeros((2, 6, 3, 8)), mx.zeros((8,))),
        "rowwise(lanes=32, rows=1, vector=2, cached=0)",
    ),
    "norm and rope of one token, its heads moved by a reshape": (
        lambda x, w: norm_rope(x.reshape(1, 1, 3, 8), w, traditional=False) * 2,
        (mx.zeros((1, 1, 24)), mx.zeros((8,))),
        "rowwise(lanes=32, rows=4, cached=1)",
    ),
    "norm and rope of a part": (
        lambda x, w: norm_rope(x, w, traditional=False),
        (mx.zeros((2, 6, 3, 24)), mx.zeros((24,))),
        "rowwise(lanes=32, rows=4, cached=1)",
    ),
    "the larger of unlike halves": (
        lambda x, y: (mx.max(z := mx.concatenate([x, y], -1), -1, keepdims=True), mx.abs(z)),
        (mx.zeros((4, 8)), mx.zeros((4, 8))),
        "rowwise(lanes=1, rows=64, cached=0)",
    ),
    "an element a row beside the row's elements": (
        lambda x, s: ((y := mx.exp(s)) * 2, x * y[..., None], mx.tanh(x)),
        (mx.zeros((5, 8, 12), mx.float16), mx.zeros((5, 8), mx.float16)),
        "rowwise(lanes=32, rows=4, vector=4, cached=0)",
    ),
    "heads of queries and keys": (
        lambda x, c: tuple(rope_tables(h, c) for h in mx.split(x.transpose(0, 2, 1, 3), [4], 1)),
        (mx.zeros((2, 3, 6, 8), mx.float16), mx.zeros((3, 4), mx.float16)),
        "elementwise(vector=2)",
    ),
    "pairs of queries and keys": (
        lambda q, k: tuple(mx.stack([x[..., ::2] * 2, x[..., 1::2] + 1], -1) for x in (q, k)),
        (mx.zeros((1, 4, 6, 16)), mx.zeros((1, 2, 6, 16))),
        "elementwise(vector=2)",
    ),
    "three stacked outputs": (
        lambda x: (mx.exp(x[:, :2]), mx.tanh(x[:, 1:]) + x[:, :4], x[:, :1] * 2, x[:, 3:] * 3),
        (mx.zeros((3, 5, 7)),),
        "elementwise(vector=1)",
    ),
    "unequal parts": (
        lambda x, y: mx.concatenate([x * 2, y, x], axis=1),
        (mx.zeros((4, 6)), mx.zeros((4, 3))),
        "elementwise(vector=1)",
    ),
    "padding": (
        lambda x: mx.pad(x, [(1, 2), (0, 3)], constant_values=7) * 2,
        (mx.zeros((4, 6)),),
        "elementwise(vector=1)",
    ),
    "embedding": (
        lambda w, t: w[t] * 2,
        (mx.zeros((6, 16)), mx.zeros((5,), mx.int32)),
        "elementwise(vector=4)",
    ),
    "rows at fixed places": (
        lambda x, w: x * w[mx.array(1)] + w[mx.array(-1)],
        (mx.zeros((4, 16)), mx.zeros((3, 16))),
        "elementwise(vector=4)",
    ),
    "computed places in parts": (
        lambda x, i: mx.take_along_axis(mx.concatenate([x * 2, x + 1], axis=1), i, axis=1) * 2,
        (mx.zeros((6, 4)), mx.zeros((6, 4), mx.int32)),
        "elementwise(vector=4)",
    ),
    "computed places in padding": (
        lambda x, i: mx.pad(x, [(2, 2), (2, 2)])[i] * 2,
        (mx.zeros((8, 8)), mx.zeros((3,), mx.int32)),
        "elementwise(vector=4)",
    ),
    "computed numbers": (
        lambda x, i: mx.arange(20)[i] * x[i],
        (mx.zeros((20,)), mx.zeros((7,), mx.int32)),
        "elementwise(vector=1)",
    ),
    "several runs a thread": (
        lambda x, y, b: (mx.tanh(x + b) * y, x[:, ::-1] - y),
        (mx.zeros((3, 512)), mx.zeros((3, 512)), mx.zeros((512,))),
        "elementwise(vector=4, threads=64, unroll=2)",
    ),
    "several runs of rows at places": (
        lambda w, t: w[t] * 2,
        (mx.zeros((6, 256), mx.bfloat16), mx.zeros((5,), mx.int32)),
        "elementwise(vector=2, threads=32, unroll=4)",
    ),
    "cache update": (
        update,
        (mx.zeros((4, 6)), mx.zeros((2, 6))),
        "elementwise(vector=1)",
    ),
    "every second element, and a corner, updated": (
        every_second,
        (mx.zeros((6, 9)), mx.zeros((2, 3))),
        "elementwise(vector=1)",
    ),
    "updates that are joined with what stands there": (
        joined,
        (mx.zeros((4, 8)), mx.zeros((4, 2))),
        "elementwise(vector=2)",
    ),
    "one place of each row": (
        lambda x, i, u: mx.put_along_axis(x * 2, i - 3, u, axis=1) * 2,
        (mx.zeros((6, 9)), mx.zeros((6, 1), mx.int32), mx.zeros((6, 1))),
        "elementwise(vector=1)",
    ),
    "one place of each column": (
        lambda x, i, u: mx.put_along_axis(x * 2, i, u, axis=0) * 2,
        (mx.zeros((6, 8)), mx.zeros((1, 8), mx.uint32), mx.zeros((1, 8))),
        "elementwise(vector=4)",
    ),
    "a cross-entropy's gradient": (
        lambda x, t: mx.grad(lambda x: mx.mean(losses.cross_entropy(x, t)))(x),
        (mx.zeros((5, 40)), mx.zeros((5,), mx.int32)),
        "rowwise(lanes=32, vector=4)",
    ),
    "part of a softmax replaced": (
        lambda x: mx.softmax(x, axis=-1).at[:, 3:9].add(x[:, :6]),
        (F,),
        "rowwise(lanes=32)",
    ),
    "softmax over parts": (
        lambda x, y: mx.softmax(mx.concatenate([x, y], axis=-1), -1),
        (mx.zeros((4, 6)), mx.zeros((4, 3))),
        "rowwise(lanes=32, cached=1)",
    ),
    "column sums": (
        lambda x: (mx.sum(x, 0), mx.max(x, 0), mx.argmax(x, 0)),
        (F,),
        "columnwise(strips=4)",
    ),
    "experts' outputs, weighted and joined": (
        lambda x, w: mx.sum(x * w[..., None], axis=1) + x[:, 0],
        (mx.zeros((6, 8, 40)), mx.zeros((6, 8))),
        "elementwise(vector=4, threads=64)",
    ),
    "a mean of squares of pixels": (
        lambda x: mx.mean(x.reshape(2, 3, 2, 4, 2, 8), axis=(2, 4)),
        (mx.zeros((2, 6, 8, 8)),),
        "elementwise(vector=2, threads=64)",
    ),
    "column sums in runs": (
        lambda x, y: (mx.sum(x * x, 1) + y, mx.max(x, 1), mx.prod(x, 1)),
        (mx.zeros((3, 21, 40)), mx.zeros((40,))),
        "columnwise(strips=4, vector=4)",
    ),
    "column means in runs, divided": (
        lambda x: mx.mean(x, 0),
        (mx.zeros((64, 48)),),
        "column_split(chunks=4, strips=2, vector=8)",
    ),
    "parts of an array, one after the other": (
        lambda x: mx.max(x[:, 32:] * mx.max(x[:, :32], -1, keepdims=True), -1),
        (mx.zeros((13, 64)),),
        "rowwise(lanes=8, rows=16, vector=4, cached=1)",
    ),
    "rows of a table, weighted and compared": (
        lambda table, places, w: mx.max(table[places % 4] * w[..., None], 1),
        (mx.zeros((4, 64)), mx.zeros((6, 20), mx.uint32), mx.zeros((6, 20))),
        "columnwise(strips=4, vector=4)",
    ),
    "half a simdgroup a row": (
        lambda x: mx.softmax(x, -1) * mx.fast.rms_norm(x, None, 1e-5),
        (mx.zeros((3, 5, 64)),),
        "rowwise(lanes=16, rows=8, vector=4, cached=1)",
    ),
    "a quarter of a simdgroup a row": (
        lambda x: x - mx.max(x, -1, keepdims=True),
        (mx.zeros((13, 16)),),
        "rowwise(lanes=8, rows=16, vector=2, cached=1)",
    ),
    "softmax over columns": (lambda x: mx.softmax(x, 0), (F,), "columnwise(strips=8, online=1)"),
    "batch norm": (batch_norm, (F,), "columnwise(strips=3)"),
    "group norm": (
        lambda x: GroupNorm(4, 32, affine=False, pytorch_compatible=True)(x),
        (mx.zeros((2, 5, 5, 32)),),
        "rowwise(lanes=64, rows=1, cached=1)",
    ),
    "middle axis": (
        lambda x: (mx.mean(x, 1), mx.all(x > -3, 1), mx.any(x > 3, 1)),
        (mx.zeros((3, 20, 33)),),
        "columnwise(strips=4)",
    ),
    "all and any": (
        lambda x: (mx.all(x > -4, -1), mx.any(x > 4, -1)),
        (F,),
        "rowwise(lanes=64, rows=1, cached=0)",
    ),
    "integers": (
        lambda x: (mx.argmin(x, -1), mx.sum(x, -1), mx.max(x, -1), mx.min(x, -1)),
        (INTEGERS,),
        "rowwise(lanes=32, cached=0)",
    ),
    "bytes wrap": (
        lambda x: (x + 250, (x * 100) >> 1, mx.sum(x, -1, keepdims=True) + x),
        (mx.zeros((4, 64), mx.uint8),),
        "rowwise(lanes=32, vector=4, cached=1)",
    ),
    "Python's division": (
        lambda x, y: ((x - 3) // (y + 1), (x - 3) % (y + 1), mx.power(x, y)),
        (INTEGERS, INTEGERS),
        "elementwise(vector=4)",
    ),
    "running sums of several tiles": (
        lambda x, y: (mx.cumsum(x * 2, -1) + y, mx.cumsum(y, -1, inclusive=False)),
        (mx.zeros((3, 2, 300), mx.float16), mx.zeros((3, 2, 300), mx.float16)),
        "scan(lanes=64, rows=1, vector=2)",
    ),
    "running products and extremes backwards": (
        lambda x: (
            mx.cumprod(x * 0.5, -1, reverse=True),
            mx.cummax(x, -1, reverse=True, inclusive=False),
            mx.cummin(x, -1, reverse=True),
        ),
        (F,),
        "scan(lanes=32, rows=4, vector=1)",
    ),
    "running sums backwards in runs": (
        lambda x: mx.cumsum(x, -1, reverse=True) * x,
        (mx.zeros((3, 100)),),
        "scan(lanes=32, rows=4, vector=4)",
    ),
    "running values in sequence": (
        lambda x, y: (
            mx.cummin(x * 2, -1, inclusive=False) + y,
            mx.cumprod(x * 0.5, -1),
            mx.cumprod(x * 0.5, -1, inclusive=False),
        ),
        (F, F),
        "scan(lanes=1, rows=64, vector=1)",
    ),
    "running values in sequence backwards": (
        lambda x: (
            mx.cummax(x, -1, reverse=True, inclusive=False),
            mx.cumsum(mx.round(x * 4), -1, reverse=True),
        ),
        (F,),
        "scan(lanes=1, rows=64, vector=1)",
    ),
    "running integers": (
        lambda x: (mx.cumsum(x, -1) + 1, mx.cummax(x - 3, -1)),
        (INTEGERS,),
        "scan(lanes=64, rows=1, vector=1)",
    ),
    "split sums": (
        lambda x: (mx.sum(x), mx.max(x)),
        (mx.zeros((64, 128)),),
        "split(chunks=16, lanes=64, vector=2)",
    ),
    "split columns": (
        lambda x: (mx.sum(x * x, 1), mx.max(x, 1) + 1),
        (mx.zeros((3, 64, 37)),),
        "column_split(chunks=8, strips=2)",
    ),
    "Kahan": (
        lambda x: mx.mean(x * x, -1),
        (F,),
        "rowwise(lanes=32, cached=0, kahan=1)",
    ),
    "scalars": (
        lambda x, s: (x * s, s + 1),
        (mx.zeros((3, 5), mx.float16), mx.zeros((), mx.float16)),
        "elementwise(vector=1)",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(12)
def test_a_family_computes_its_graphs(name: str, run: Run, draw: Draw) -> None:
    function, inputs, schedule = CASES[name]
    graph = canonicalize(capture(function, *inputs))
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    found = run(lower(graph, parse(schedule)), graph, arrays)
    for output, exact, type_ in zip(
        found, reference(graph, arrays), graph.output_types, strict=True
    ):
        tolerance = 4 * type_.dtype.epsilon + (1e-6 if type_.dtype.is_float else 0)
        assert np.allclose(output.astype(np.float64), exact, rtol=tolerance, atol=tolerance)


def test_running_log_sum_exp(run: Run, draw: Draw) -> None:
    # MLX cannot export its own: the graph of a running sum with another op.
    sums = canonicalize(capture(lambda x: mx.cumsum(x * 2, -1), F))
    nodes = [replace(n, op="logcumsumexp") if n.op == "cumsum" else n for n in sums.nodes]
    graph = replace(sums, nodes=tuple(nodes))
    arrays = [draw(graph.input_types[0], 0)]
    (found,) = run(lower(graph, parse("scan(lanes=64, rows=1, vector=1)")), graph, arrays)
    assert np.allclose(found, reference(graph, arrays)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "schedule", ["scan(lanes=1, vector=1)", "scan(lanes=32, rows=4, vector=4)", "scan(lanes=64)"]
)
def test_running_products_come_back_from_where_floats_end(run: Run, schedule: str) -> None:
    # A zero before parts that overflow, a product that overflows on the way, one that vanishes.
    rows = np.ones((3, 256), np.float32)
    rows[0, 0], rows[0, 1:200:3] = 0.0, 1e30
    rows[1, 10:110:10], rows[1, 15:115:10] = 1e20, 1e-20
    rows[2, 10:110], rows[2, 110:210] = 1e-20, 1e20
    graph = canonicalize(capture(lambda x: mx.cumprod(x, -1), mx.zeros((3, 256))))
    (found,) = run(lower(graph, parse(schedule)), graph, [rows])
    assert np.allclose(found[:, [0, 150, 255]], [[0, 0, 0], [1, 1, 1], [1, 0, 1]], rtol=1e-4)


SPECIAL = np.array(
    [[-np.inf] * 4, [-np.inf, 1, 2, 3], [np.nan, 1, 2, 3], [np.inf, 1, -np.inf, 0]], np.float32
)


def weights_below(peak: mx.array, x: mx.array) -> tuple[mx.array, mx.array]:
    weights = mx.exp(x - peak)
    return peak, weights / mx.sum(weights, axis=-1, keepdims=True)


EDGES: dict[str, Case] = {
    "softmax": (lambda x: mx.softmax(x, -1), (mx.zeros((4, 4)),), "rowwise(lanes=32)"),
    "online softmax": (
        lambda x: mx.softmax(x, -1),
        (mx.zeros((4, 4)),),
        "rowwise(lanes=32, cached=0, online=1)",
    ),
    "online softmax of runs": (
        lambda x: mx.softmax(x, -1),
        (mx.zeros((4, 4)),),
        "rowwise(lanes=32, vector=4, cached=0, online=1)",
    ),
    "a maximum and the exponentials below it": (
        lambda x: weights_below(mx.max(x, -1, keepdims=True), x),
        (mx.zeros((4, 4)),),
        "rowwise(lanes=32, vector=4, cached=0, online=1)",
    ),
    "a part of a simdgroup": (
        lambda x: weights_below(mx.max(x, -1, keepdims=True), x),
        (mx.zeros((4, 4)),),
        "rowwise(lanes=8, rows=16, cached=0, online=1)",
    ),
    "extremes of runs": (
        lambda x: (mx.max(x, -1), mx.min(x, -1), mx.argmax(x, -1), mx.argmin(x, -1)),
        (mx.zeros((4, 4)),),
        "rowwise(lanes=32, vector=2, cached=0)",
    ),
    "extremes": (
        lambda x: (mx.max(x, -1), mx.min(x, -1), mx.argmax(x, -1), mx.argmin(x, -1)),
        (mx.zeros((4, 4)),),
        "rowwise(lanes=32, cached=0)",
    ),
    "running values": (
        lambda x: (mx.cumsum(x, -1), mx.cummax(x, -1), mx.cummin(x, -1)),
        (mx.zeros((4, 4)),),
        "scan(lanes=32, rows=4, vector=2)",
    ),
    "Kahan": (
        lambda x: mx.sum(x * x, -1),
        (mx.zeros((4, 4)),),
        "rowwise(lanes=1, rows=64, cached=0, kahan=1)",
    ),
    "elementwise": (
        lambda x: (mx.maximum(x, 0), mx.sigmoid(x), mx.tanh(x), mx.erf(x), mx.exp(x)),
        (mx.zeros((4, 4)),),
        "elementwise(vector=2)",
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_nan_and_infinity_go_where_they_belong(name: str, run: Run) -> None:
    function, inputs, schedule = EDGES[name]
    graph = canonicalize(capture(function, *inputs))
    found = run(lower(graph, parse(schedule)), graph, [SPECIAL])
    for output, exact in zip(found, reference(graph, [SPECIAL]), strict=True):
        assert np.allclose(output, exact, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_float64_has_no_kernel() -> None:
    with mx.stream(mx.cpu):
        graph = capture(lambda x: x + x, mx.zeros((4,), mx.float64))
    assert graph.input_types[0].dtype is Dtype.FLOAT64
    with pytest.raises(UnsupportedError, match="Metal has no f64"):
        lower(graph, parse("elementwise(vector=1)"))


def test_runs_that_do_not_divide_an_axis_are_refused() -> None:
    graph = canonicalize(capture(mx.tanh, mx.zeros((4, 100))))
    with pytest.raises(UnsupportedError, match="do not divide 400 elements; use unroll=1"):
        lower(graph, parse("elementwise(vector=4, threads=64, unroll=2)"))


def test_a_scan_of_a_scan_is_refused() -> None:
    graph = canonicalize(capture(lambda x: mx.cumsum(mx.cummax(x, -1), -1), F))
    with pytest.raises(UnsupportedError, match="a scan of a scan is not lowered yet"):
        lower(graph, parse("scan(lanes=32, rows=4, vector=1)"))


def test_other_families_refuse_a_contraction() -> None:
    graph = capture(lambda x: x @ x, mx.zeros((4, 4)))
    with pytest.raises(UnsupportedError, match="matmul cannot be part of a fused kernel"):
        lower(graph, parse("elementwise(vector=1)"))


def gelu_tanh(x: mx.array) -> mx.array:
    return 0.5 * x * (1 + mx.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


@pytest.mark.parametrize(
    ("function", "dtype", "text"),
    [
        (gelu_tanh, mx.float16, "quick_sigmoid"),
        (gelu_tanh, mx.float32, "metal::precise::tanh"),
        (lambda x: mx.tanh(x / 30) * 30, mx.bfloat16, "* 0.033333335f"),
        (lambda x: mx.tanh(x / 30) * 30, mx.float32, "/ 30.0f"),
        (lambda x: mx.round(x / 30), mx.float16, "/ 30.0f"),
        (lambda x: x / 0.0, mx.float16, "/ 0.0f"),
        (lambda x: x * 3 * mx.abs(x) * 2, mx.float16, "* 6.0f"),
    ],
)
def test_results_of_16_bits_are_computed_in_fewer_instructions(
    function: Callable[[mx.array], mx.array], dtype: mx.Dtype, text: str
) -> None:
    graph = canonicalize(capture(function, mx.zeros((4, 64), dtype)))
    (kernel,) = lower(graph, parse("elementwise(vector=4)")).kernels
    assert text in kernel.source


@pytest.mark.parametrize("function", [mx.sigmoid, mx.exp, gelu_tanh])
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_quick_functions_are_exact_where_results_have_16_bits(
    run: Run, function: Callable[[mx.array], mx.array], dtype: mx.Dtype
) -> None:
    graph = canonicalize(capture(function, mx.zeros((65536,), dtype)))
    (type_,) = graph.input_types
    arrays = [np.arange(65536, dtype=np.uint16).view(type_.dtype.numpy)]
    (found,) = run(lower(graph, parse("elementwise(vector=4)")), graph, arrays)
    with np.errstate(all="ignore"):
        (exact,) = reference(graph, arrays)
        expected = exact.astype(type_.dtype.numpy)
        steps = np.abs(found.view(np.int16).astype(int) - expected.view(np.int16).astype(int))
    number = ~np.isnan(exact)
    assert (np.isnan(found.astype(np.float64)) == np.isnan(exact)).all()
    # Numbers below the smallest normal float32 may become zero; 1 + tanh(x) ends far above them.
    least = 2.0**-30 if function is gelu_tanh else 2.0**-120
    assert (steps[number & (np.abs(exact) > least)] <= 1).all()
