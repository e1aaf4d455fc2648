"""`lower` ends in a program or in an UnsupportedError, whatever graph and schedule it is given."""

import random
from collections.abc import Callable

import mlx.core as mx
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.errors import UnsupportedError
from kernelwright.ir import Graph, canonicalize, capture, gather_attention
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import (
    Attention,
    Banded,
    ColumnScan,
    ColumnSplit,
    Columnwise,
    Dense,
    Elementwise,
    Matmul,
    Matvec,
    Prefill,
    Rowwise,
    Scan,
    Schedule,
    Split,
    Staged,
    Tiled,
    Transposed,
)

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Step = Callable[[mx.array], mx.array]
ROWS, COLUMNS = 8, 64


def _over(axis: int) -> list[Step]:
    """Return steps that reduce or scan along one axis of a matrix, and keep its shape."""
    return [
        lambda x: mx.softmax(x, axis=axis),
        lambda x: x - mx.logsumexp(x, axis=axis, keepdims=True),
        lambda x: x / (mx.sum(x, axis=axis, keepdims=True) + 9),
        lambda x: x * mx.rsqrt(mx.mean(x * x, axis=axis, keepdims=True) + 1e-5),
        lambda x: x - mx.max(x, axis=axis, keepdims=True),
        lambda x: x + mx.argmin(x, axis=axis, keepdims=True).astype(x.dtype),
        lambda x: x - mx.var(x, axis=axis, keepdims=True),
        lambda x: mx.cumsum(x, axis=axis),
        lambda x: mx.cummax(x, axis=axis, reverse=True),
        lambda x: mx.sort(x, axis=axis)[:1] + x if axis == 0 else mx.sort(x, axis=axis)[:, :1] + x,
        lambda x: mx.take_along_axis(x, mx.argmax(x, axis=axis, keepdims=True), axis=axis) + x,
    ]


STEPS: list[Step] = [
    *_over(1),
    *_over(0),
    lambda x: mx.exp(x * 0.5) + 1,
    lambda x: x + mx.sum(x),
    lambda x: mx.concatenate([x[:, 32:], x[:, :32]], axis=1),
    lambda x: mx.roll(x, 1, 0) + x,
    lambda x: mx.pad(x, [(1, 0), (0, 0)])[:-1] * x,
    lambda x: x.T.reshape(ROWS, COLUMNS),
    lambda x: x.reshape(ROWS, 4, 16).transpose(1, 0, 2).reshape(ROWS, COLUMNS),
    lambda x: x.reshape(ROWS, 8, 8).max(axis=-1, keepdims=True) + x.reshape(ROWS, 8, 8),
    lambda x: mx.abs(x[:, None] - x[None]).sum(axis=-1),
    lambda x: mx.fast.rms_norm(x, None, 1e-5),
    lambda x: x @ mx.ones((COLUMNS, COLUMNS), x.dtype),
    lambda x: x[:1] @ mx.broadcast_to(x[0][:, None], (COLUMNS, COLUMNS)),
    lambda x: mx.quantized_matmul(
        x,
        mx.zeros((COLUMNS, COLUMNS // 8), mx.uint32),
        mx.ones((COLUMNS, 1), x.dtype),
        mx.ones((COLUMNS, 1), x.dtype),
        group_size=64,
        bits=4,
    ),
    lambda x: mx.fast.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], scale=0.125
    )[0, 0],
    lambda x: mx.conv1d(x[None], mx.ones((COLUMNS, 4, 1), x.dtype), padding=3, groups=COLUMNS)[
        0, :ROWS
    ],
]
FOREIGN: list[Schedule] = [
    Elementwise(4, 256),
    Rowwise(32, 4, 2, cached=True),
    Rowwise(1, 64, 1, cached=False),
    Columnwise(4, vector=2),
    Columnwise(8, cached=True),
    Split(4, 32, 1),
    ColumnSplit(2, 4, 1),
    Staged(4, 32, 4, 2),
    Tiled(2, 8, cached=True),
    Transposed(32, 8, 1),
    Scan(32, 4, 2),
    ColumnScan(4, 2, 2),
    Banded(),
    Attention(),
    Prefill(),
    Matvec(),
    Dense(),
    Matmul(),
]


def _graph(numbers: list[int], dtype: mx.Dtype) -> Graph | None:
    """Return the graph of several steps, or None where one does not fit what came before."""

    def function(x: mx.array) -> list[mx.array]:
        values = [x]
        for number in numbers:
            before = values[-1]
            if before.shape != (ROWS, COLUMNS):
                before = mx.broadcast_to(before.reshape(-1)[:COLUMNS], (ROWS, COLUMNS))
            values.append(STEPS[number](before))
        return values[-1 - len(numbers) % 2 :]

    try:
        return gather_attention(canonicalize(capture(function, mx.zeros((ROWS, COLUMNS), dtype))))
    except (ValueError, UnsupportedError):
        return None


def _lowered(graph: Graph, schedule: Schedule) -> Program | None:
    try:
        footprint(graph, schedule)
        return lower(graph, schedule)
    except UnsupportedError:
        return None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=3),
    st.sampled_from([mx.float16, mx.float32]),
    st.randoms(use_true_random=False),
)
def test_any_steps_are_lowered_or_refused_in_a_sentence(
    numbers: list[int], dtype: mx.Dtype, draw: random.Random
) -> None:
    graph = _graph(numbers, dtype)
    if graph is None:
        return
    try:
        own = schedules(graph, DEVICE)
    except UnsupportedError:
        own = ()
    for schedule in draw.sample(own, min(len(own), 4)):
        assert _lowered(graph, schedule) is not None, f"{schedule} was offered and is refused"
    for schedule in draw.sample(FOREIGN, 5):
        _lowered(graph, schedule)
