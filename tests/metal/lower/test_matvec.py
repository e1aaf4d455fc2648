"""Quantized matrices times few vectors, and what follows, in kernels that the evaluator passes."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.ir.ops.weight import FLOAT_MODES
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family import Pattern, classify
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import parse
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

H, B, F = mx.float16, mx.bfloat16, mx.float32
DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def quantized(shape: Sequence[int], group_size: int, bits: int, dtype: mx.Dtype) -> list[mx.array]:
    weights = mx.random.normal(shape, key=mx.random.key(0)).astype(dtype)
    return list(mx.quantize(weights, group_size, bits))


def silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


def branch(
    vectors: int, rows: int, columns: int, group_size: int, bits: int, dtype: mx.Dtype
) -> Graph:
    """Return a projection with bias, activation and residual."""

    def function(
        x: mx.array, w: mx.array, s: mx.array, z: mx.array, bias: mx.array, residual: mx.array
    ) -> mx.array:
        y = mx.quantized_matmul(x, w, s, z, True, group_size, bits)
        return residual + silu(y + bias)

    inputs = (
        mx.zeros((vectors, columns), dtype),
        *quantized((rows, columns), group_size, bits, dtype),
        mx.zeros((rows,), dtype),
        mx.zeros((vectors, rows), dtype),
    )
    return canonicalize(capture(function, *inputs))


def packed_glu() -> Graph:
    def function(x: mx.array, w: mx.array, s: mx.array, z: mx.array) -> mx.array:
        gate, up = mx.split(mx.quantized_matmul(x, w, s, z, True, 64, 6), 2, axis=-1)
        return silu(gate) * up

    return canonicalize(
        capture(function, mx.zeros((2, 1, 128), H), *quantized((32, 128), 64, 6, H))
    )


def experts(columns: int = 256) -> Graph:
    def function(
        x: mx.array, chosen: mx.array, w: mx.array, s: mx.array, z: mx.array, v: mx.array
    ) -> mx.array:
        gate, up = (
            mx.gather_qmm(x, p, s, z, rhs_indices=chosen, transpose=True, group_size=64, bits=4)
            for p in (w, v)
        )
        return silu(gate) * up

    w, s, z = quantized((4, 16, columns), 64, 4, H)
    chosen = mx.zeros((3, 2), mx.uint32)
    return canonicalize(capture(function, mx.zeros((3, 1, 1, columns), H), chosen, w, s, z, w))


def floats(mode: str, vectors: int = 1) -> Graph:
    bits, group_size = FLOAT_MODES[mode]

    def function(x: mx.array, w: mx.array, s: mx.array, bias: mx.array) -> mx.array:
        y = mx.quantized_matmul(
            x, w, s, transpose=True, group_size=group_size, bits=bits, mode=mode
        )
        return silu(y + bias)

    weights = mx.random.normal((24, 256), key=mx.random.key(0))
    packed = mx.quantize(weights, group_size=group_size, bits=bits, mode=mode)
    return canonicalize(capture(function, mx.zeros((vectors, 256), H), *packed, mx.zeros((24,), H)))


CASES: dict[str, tuple[Callable[[], Graph], str]] = {
    "4 bits": (lambda: branch(1, 16, 1024, 64, 4, H), "matvec(results=4, words=2)"),
    "8 bits, rows that no four divide": (
        lambda: branch(1, 35, 288, 32, 8, B),
        "matvec(results=1, words=4, simdgroups=4)",
    ),
    "2 bits, several vectors": (
        lambda: branch(3, 24, 256, 128, 2, F),
        "matvec(results=2, words=1, simdgroups=1)",
    ),
    "3 bits, digits across words": (
        lambda: branch(2, 40, 192, 64, 3, H),
        "matvec(results=8, words=3, simdgroups=2)",
    ),
    "5 bits, five words at a time": (
        lambda: branch(2, 24, 192, 64, 5, H),
        "matvec(results=2, words=5, simdgroups=2)",
    ),
    "four-bit floats, scaled by powers of two": (
        lambda: floats("mxfp4", 2),
        "matvec(results=4, words=2)",
    ),
    "eight-bit floats": (lambda: floats("mxfp8"), "matvec(results=2, words=2)"),
    "four-bit floats, scaled by eight-bit ones": (
        lambda: floats("nvfp4"),
        "matvec(results=1, words=2)",
    ),
    "as many vectors as lanes keep": (
        lambda: branch(8, 16, 512, 64, 4, B),
        "matvec(results=4, words=1, simdgroups=2)",
    ),
    "both halves of a packed projection": (packed_glu, "matvec(results=2, words=3)"),
    "experts of each token": (experts, "matvec(results=4, words=2)"),
    "simdgroups that share columns": (
        lambda: branch(1, 16, 1024, 64, 4, H),
        "matvec(results=4, words=2, simdgroups=2, strips=2)",
    ),
    "shared columns, several vectors": (
        lambda: branch(3, 24, 1024, 128, 4, B),
        "matvec(results=1, words=1, simdgroups=4, strips=4)",
    ),
    "shared columns of experts, the last of them with less": (
        lambda: experts(448),
        "matvec(results=2, words=1, simdgroups=1, strips=2)",
    ),
    "shared columns of digits across words": (
        lambda: branch(2, 40, 1536, 64, 3, H),
        "matvec(results=8, words=3, simdgroups=1, strips=2)",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(2)
def test_the_evaluator_passes_it(name: str, judge: Judge) -> None:
    make, schedule = CASES[name]
    (region,) = partition(make())
    graph = region.extract()
    evaluation = judge(Task(graph, name), lower(graph, parse(schedule)))
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("name", CASES)
def test_every_schedule_is_legal_and_fits(name: str) -> None:
    graph = CASES[name][0]()
    found = schedules(graph, DEVICE)
    assert len(set(found)) == len(found) >= 4
    for schedule in {found[0], found[-1]}:
        lower(graph, schedule).bind(graph.input_types)
        assert footprint(graph, schedule).registers <= 160


def test_many_vectors_are_left_to_mlx() -> None:
    family = classify(branch(64, 64, 128, 64, 4, H))
    assert family.pattern is Pattern.NONE
    assert "64 vectors are a matrix" in family.reason
    # What follows the product is a region of its own.
    (region,) = partition(branch(64, 64, 128, 64, 4, H))
    assert "quantized_matmul" not in {node.op for node in region.nodes}


def test_a_vector_that_is_computed_is_not_computed_again_by_every_row() -> None:
    def function(x: mx.array, w: mx.array, s: mx.array, z: mx.array) -> mx.array:
        return mx.quantized_matmul(silu(x), w, s, z, True, 64, 4) * 2

    arrays = quantized((32, 128), 64, 4, H)
    graph = canonicalize(capture(function, mx.zeros((1, 128), H), *arrays))
    ops = [{node.op for node in region.nodes} for region in partition(graph)]
    assert not any({"sigmoid", "quantized_matmul"} <= found for found in ops)
    assert any("quantized_matmul" in found for found in ops)


def test_a_schedule_that_does_not_divide_says_so() -> None:
    with pytest.raises(UnsupportedError, match="4 results of 2 words"):
        lower(branch(1, 30, 128, 64, 4, H), parse("matvec(results=4, words=2)"))
