"""Sums that hang on a row's softmax: one walk along the row, right for every dtype and row."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.evaluator import Task
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import Rowwise
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge


def _entropy(x: mx.array) -> mx.array:
    log_p = x - mx.logsumexp(x, axis=-1, keepdims=True)
    return -(mx.exp(log_p) * log_p).sum(axis=-1)


def _expectation(x: mx.array, value: mx.array) -> mx.array:
    return (mx.softmax(x, axis=-1) * value).sum(axis=-1)


def _divergence(x: mx.array, y: mx.array) -> mx.array:
    log_p = x - mx.logsumexp(x, axis=-1, keepdims=True)
    log_q = y - mx.logsumexp(y, axis=-1, keepdims=True)
    return (mx.exp(log_p) * (log_p - log_q)).sum(axis=-1)


def _mean_log(x: mx.array) -> mx.array:
    return (x - mx.logsumexp(x, axis=-1, keepdims=True)).mean(axis=-1)


def _smoothed(x: mx.array) -> mx.array:
    log_p = x - mx.logsumexp(x, axis=-1, keepdims=True)
    return -0.9 * log_p[..., 0] - 0.1 * log_p.mean(axis=-1)


def _centred_map(x: mx.array) -> mx.array:
    p = mx.softmax(x, axis=-1)
    return p * (x - (p * x).sum(axis=-1, keepdims=True))


_CASES: list[tuple[Callable[..., object], int]] = [
    (_entropy, 1),
    (_expectation, 2),
    (_divergence, 2),
    (_mean_log, 1),
    (_smoothed, 1),
    (_centred_map, 1),
]
_DTYPES = [mx.float32, mx.float16, mx.bfloat16]
_SCHEDULES = [
    Rowwise(32, 2, 1, cached=False, online=True),
    Rowwise(64, 1, 4, cached=False, online=True),
    Rowwise(32, 2, 4, cached=True),
]


def _graph(function: Callable[..., object], inputs: int, dtype: mx.Dtype) -> ir.Graph:
    zeros = [mx.zeros((24, 256), dtype)] * inputs
    graph = ir.canonicalize(ir.capture(function, *zeros))
    (region,) = partition(graph)
    return region.extract()


# Each function meets each dtype once, and each schedule once.
@pytest.mark.parametrize(
    ("function", "inputs", "dtype", "schedule"),
    [
        (function, inputs, dtype, _SCHEDULES[(case + place) % 3])
        for case, (function, inputs) in enumerate(_CASES)
        for place, dtype in enumerate(_DTYPES)
    ],
)
@pytest.mark.sampled(3)
def test_moments_are_right(
    function: Callable[..., object], inputs: int, dtype: mx.Dtype, schedule: Rowwise, judge: Judge
) -> None:
    graph = _graph(function, inputs, dtype)
    evaluation = judge(Task(graph, "moments"), lower(graph, schedule))
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("function", [_entropy, _mean_log, _smoothed])
def test_a_row_is_read_once(function: Callable[..., object]) -> None:
    graph = _graph(function, 1, mx.float16)
    source = lower(graph, Rowwise(64, 1, 4, cached=False, online=True)).kernels[0].source
    assert source.count("for (uint start") == 1
