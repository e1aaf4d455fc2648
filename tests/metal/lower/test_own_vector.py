"""Products of a vector's norm: every threadgroup makes the vector for itself."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import pytest

from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family import Pattern, classify
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import parse
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Product = Callable[[mx.array, Sequence[mx.array]], mx.array]
STRIPS = "matvec(results=2, words=1, simdgroups=4, strips=2)"
_DEPTH = 512


def packed(x: mx.array, w: Sequence[mx.array]) -> mx.array:
    matrix, scales, biases = w
    return mx.quantized_matmul(x, matrix, scales, biases, True, 64, 4)


def plain(x: mx.array, w: Sequence[mx.array]) -> mx.array:
    return x @ w[0].T


def weights(product: Product, rows: int, dtype: mx.Dtype) -> list[mx.array]:
    matrix = mx.zeros((rows, _DEPTH), dtype)
    return list(mx.quantize(matrix, 64, 4)) if product is packed else [matrix]


def gated(product: Product, dtype: mx.Dtype, rows: int = 64) -> Graph:
    count = len(weights(product, rows, dtype))

    def function(x: mx.array, weight: mx.array, *both: mx.array) -> mx.array:
        h = mx.fast.rms_norm(x, weight, 1e-6)
        gate, up = product(h, both[:count]), product(h, both[count:])
        return gate * mx.sigmoid(gate) * up

    both = [*weights(product, rows, dtype), *weights(product, rows, dtype)]
    return drawn(function, dtype, *both)


def joint(product: Product, dtype: mx.Dtype) -> Graph:
    """Return three products of one norm whose results differ in size."""
    count = len(weights(product, 64, dtype))

    def function(x: mx.array, gain: mx.array, *every: mx.array) -> tuple[mx.array, ...]:
        h = mx.fast.rms_norm(x, gain, 1e-6)
        return tuple(product(h, every[i * count : (i + 1) * count]) for i in range(3))

    every = [w for rows in (64, 32, 32) for w in weights(product, rows, dtype)]
    return drawn(function, dtype, *every)


def spelled_norm(product: Product, dtype: mx.Dtype) -> Graph:
    """Return a layer norm by hand, a product, and a residual that reads what the norm reads."""

    def function(x: mx.array, gain: mx.array, *w: mx.array) -> mx.array:
        centred = x - mx.mean(x, axis=-1, keepdims=True)
        scale = mx.rsqrt(mx.mean(mx.square(centred), axis=-1, keepdims=True) + 1e-5)
        return x + product(centred * scale * gain, w)

    return drawn(function, dtype, *weights(product, _DEPTH, dtype))


def drawn(function: Callable[..., object], dtype: mx.Dtype, *arrays: mx.array) -> Graph:
    x, gain = mx.zeros((1, 1, _DEPTH), dtype), mx.zeros((_DEPTH,), dtype)
    return canonicalize(capture(function, x, gain, *arrays))


@pytest.mark.parametrize(
    ("graph", "pattern", "schedule"),
    [
        (gated(packed, mx.bfloat16), Pattern.MATVEC, "matvec(results=2, words=2, simdgroups=4)"),
        (joint(packed, mx.float16), Pattern.MATVEC, "matvec(results=4, words=1, simdgroups=2)"),
        (joint(packed, mx.bfloat16), Pattern.MATVEC, STRIPS),
        (joint(packed, mx.float32), Pattern.MATVEC, "matvec(results=1, words=2, simdgroups=1)"),
        (spelled_norm(packed, mx.float16), Pattern.MATVEC, "matvec(results=8, words=1)"),
        (gated(plain, mx.float32), Pattern.DENSE, "dense(columns=2, strips=2, teams=2, vector=4)"),
        (joint(plain, mx.bfloat16), Pattern.DENSE, "dense(columns=1, strips=4, teams=1, vector=2)"),
        (
            spelled_norm(plain, mx.float16),
            Pattern.DENSE,
            "dense(columns=4, strips=1, teams=1, vector=1, chunks=2)",
        ),
    ],
)
@pytest.mark.sampled(1)
def test_the_evaluator_passes(graph: Graph, pattern: Pattern, schedule: str, judge: Judge) -> None:
    assert classify(graph).pattern is pattern
    program = lower(graph, parse(schedule))
    assert "own_vector" in program.kernels[0].source
    evaluation = judge(Task(graph, "own vector"), program)
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("make", [gated, joint, spelled_norm])
@pytest.mark.parametrize("product", [packed, plain])
def test_a_plan_makes_the_norm_where_it_is_multiplied(
    make: Callable[[Product, mx.Dtype], Graph], product: Product
) -> None:
    graph = make(product, mx.float16)
    (region,) = partition(graph)
    assert prologue_of(region.bare())
    assert schedules(region.bare(), DEVICE)


def test_a_plan_leaves_a_norm_apart_that_too_many_threadgroups_would_make() -> None:
    graph = gated(packed, mx.float16, rows=1 << 18)
    assert [prologue_of(region.bare()) for region in partition(graph)] == [None, None]


def test_simdgroups_that_would_miss_a_threadgroup_are_refused() -> None:
    graph = gated(packed, mx.float16, rows=12)
    assert {s.simdgroups for s in schedules(graph, DEVICE)} <= {1, 2, 4}  # type: ignore[attr-defined]


def test_a_norm_that_is_read_elsewhere_stays_apart() -> None:
    def function(x: mx.array, gain: mx.array, *w: mx.array) -> tuple[mx.array, mx.array]:
        h = mx.fast.rms_norm(x, gain, 1e-6)
        return h, packed(h, w)

    graph = drawn(function, mx.float16, *weights(packed, 64, mx.float16))
    assert prologue_of(graph) is None
    assert classify(graph).pattern is Pattern.NONE


def test_several_vectors_keep_their_norms_apart() -> None:
    def function(x: mx.array, gain: mx.array, *w: mx.array) -> mx.array:
        return packed(mx.fast.rms_norm(x, gain, 1e-6), w)

    x, gain = mx.zeros((2, _DEPTH), mx.float16), mx.zeros((_DEPTH,), mx.float16)
    graph = canonicalize(capture(function, x, gain, *weights(packed, 64, mx.float16)))
    assert prologue_of(graph) is None
