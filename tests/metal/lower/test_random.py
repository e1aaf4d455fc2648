"""Whatever graph a family takes, under whatever schedule, the kernel computes it."""

import random
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, TensorType, canonicalize, capture, interpret, reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.family.component import row_parts
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Unary = Callable[[mx.array], mx.array]
Binary = Callable[[mx.array, mx.array], mx.array]
Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]

UNARY: list[Unary] = [
    mx.negative,
    mx.tanh,
    mx.sigmoid,
    mx.erf,
    mx.sin,
    lambda a: mx.exp(-mx.abs(a)),
    lambda a: mx.log1p(mx.abs(a)),
    lambda a: mx.expm1(mx.minimum(a, 1)),
    lambda a: mx.rsqrt(mx.square(a) + 0.5),
    lambda a: 1 - a * 0.5,
    lambda a: mx.maximum(a, 0),
]
BINARY: list[Binary] = [
    mx.add,
    mx.subtract,
    mx.maximum,
    mx.logaddexp,
    lambda a, b: mx.tanh(a) * b,
    lambda a, b: a / (mx.abs(b) + 1),
    lambda a, b: mx.where(a > b, a, b * 0.5),
]
ROWS: list[Unary] = [
    lambda a: a - mx.mean(a, -1, keepdims=True),
    lambda a: a * mx.rsqrt(mx.mean(mx.square(a), -1, keepdims=True) + 1),
    lambda a: a - mx.max(a, -1, keepdims=True),
    lambda a: a / (mx.var(a, -1, keepdims=True) + 1),
    lambda a: mx.softmax(a, -1),
    lambda a: a - mx.logsumexp(a, -1, keepdims=True),
    lambda a: mx.broadcast_to(mx.sum(a, -1, keepdims=True) * 0.1, a.shape),
]
VIEWS: list[Unary] = [
    lambda a: a,
    lambda a: a.reshape(-1),
    lambda a: a.T,
    lambda a: a[..., ::2],
    lambda a: a[..., ::-1],
    lambda a: a.reshape(*a.shape, 1)[None],
]


def build(choose: random.Random, *, rowwise: bool) -> Graph:
    """Return a random graph of one family over up to three broadcast inputs."""
    rank = choose.randint(1, 3)
    shape = tuple(choose.choice([1, 2, 3, 5, 8]) for _ in range(rank - 1))
    shape += (choose.choice([1, 3, 8, 20, 32, 33, 64, 100, 128, 257]),)
    dtype = choose.choice([mx.float32, mx.float16, mx.bfloat16])
    inputs = [mx.zeros(_broadcastable(choose, shape), dtype) for _ in range(choose.randint(1, 3))]
    steps = [(choose.randint(0, 9), choose.random(), choose.random()) for _ in range(6)]
    view = choose.choice(VIEWS)
    outputs = choose.randint(1, 2)

    def function(*arrays: mx.array) -> list[mx.array]:
        values = [mx.broadcast_to(array, shape) for array in arrays]
        for kind, first, second in steps:
            a = values[-1 - int(first * min(len(values), 3))]
            b = values[int(second * len(values))]
            if rowwise and kind < 3:
                values.append(ROWS[int(second * len(ROWS))](a))
            elif kind < 6:
                values.append(UNARY[int(second * len(UNARY))](a))
            else:
                values.append(BINARY[int(first * len(BINARY))](a, b))
        if rowwise:
            return [values[-1], mx.sum(values[-1], -1), mx.max(values[-2], -1)][: outputs + 1]
        return [view(value) for value in values[-outputs:]]

    return canonicalize(capture(function, *inputs))


def _broadcastable(choose: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    match choose.randint(0, 4):
        case 0:
            return shape[choose.randint(0, len(shape) - 1) :]
        case 1:
            return tuple(choose.choice([1, n]) for n in shape)
        case 2:
            return shape[-1:]
    return shape


def build_parts(choose: random.Random) -> Graph:
    """Return a random graph that does the same to several numbers of rows, with a shared table."""
    length = choose.choice([32, 64, 128, 256])
    counts = choose.sample([(1,), (2,), (3, 1), (8,), (2, 8), (24,)], choose.randint(2, 3))
    dtype = choose.choice([mx.float32, mx.float16, mx.bfloat16])
    inputs = [mx.zeros(shape, dtype) for count in counts for shape in ((*count, length), (length,))]
    steps = [("rows", choose.random())] + [
        (choose.choice(["rows", "unary", "binary"]), choose.random()) for _ in range(3)
    ]
    sums = choose.random() < 0.5

    def function(offset: mx.array, *arrays: mx.array) -> list[mx.array]:
        table = mx.cos(mx.arange(length) * 0.1 + offset).astype(dtype)
        made = []
        for x, weight in zip(arrays[::2], arrays[1::2], strict=True):
            value = x * weight
            for kind, drawn in steps:
                if kind == "binary":
                    value = BINARY[int(drawn * len(BINARY))](value, table)
                else:
                    ops = ROWS if kind == "rows" else UNARY
                    value = ops[int(drawn * len(ops))](value)
            made.append(mx.sum(value, -1) if sums else value * table)
        return made

    return canonicalize(capture(function, mx.array(0), *inputs))


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.parametrize("rowwise", [False, True], ids=["elementwise", "rowwise"])
@pytest.mark.sampled(14)
def test_every_schedule_computes_the_graph(seed: int, rowwise: bool, run: Run, draw: Draw) -> None:
    choose = random.Random(seed)
    _check(build(choose, rowwise=rowwise), seed, choose, run, draw)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.sampled(2)
def test_every_schedule_computes_parts_side_by_side(seed: int, run: Run, draw: Draw) -> None:
    choose = random.Random(seed)
    graph = build_parts(choose)
    assert len(row_parts(graph)) > 1
    _check(graph, seed, choose, run, draw)


def _check(graph: Graph, seed: int, choose: random.Random, run: Run, draw: Draw) -> None:
    arrays = [draw(t, seed + i) for i, t in enumerate(graph.input_types)]
    expected = reference(graph, arrays)
    eager = interpret(graph, *map(_to_mlx, arrays))
    space = schedules(graph, DEVICE)
    for schedule in {space[0], choose.choice(space)}:
        found = run(lower(graph, schedule), graph, arrays)
        for output, exact, theirs in zip(found, expected, eager, strict=True):
            assert _error(output, exact) <= 2 * _error(_to_numpy(theirs), exact) + 5e-7, schedule


def _error(found: Array, exact: Array) -> float:
    """Return the error's norm over the answer's, infinite where NaN or infinity differ."""
    wide, answer = found.astype(np.float64), exact.astype(np.float64)
    regular = np.isfinite(answer)
    if not np.array_equal(wide[~regular], answer[~regular], equal_nan=True):
        return np.inf
    scale = max(float(np.linalg.norm(answer[regular])), 1e-3)
    return float(np.linalg.norm((wide - answer)[regular])) / scale


def _to_mlx(array: Array) -> mx.array:
    if array.dtype.name == "bfloat16":
        return mx.array(array.astype(np.float32)).astype(mx.bfloat16)
    return mx.array(array)


def _to_numpy(array: mx.array) -> Array:
    return np.array(array.astype(mx.float32) if array.dtype == mx.bfloat16 else array)
