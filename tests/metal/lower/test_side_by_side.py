"""Products of one vector with matrices of different heights are one launch."""

import mlx.core as mx
import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.component import components, ragged_parts
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import parse
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
HEIGHTS = (64, 32, 16)


def dense(dtype: mx.Dtype, tokens: int = 1, *, biased: bool = False) -> Graph:
    def function(x: mx.array, *rest: mx.array) -> tuple[mx.array, ...]:
        matrices, biases = rest[:3], rest[3:]
        made = [x @ m.T for m in matrices]
        return tuple(y + b for y, b in zip(made, biases, strict=True)) if biases else tuple(made)

    matrices = [mx.zeros((n, 128), dtype) for n in HEIGHTS]
    biases = [mx.zeros((n,), dtype) for n in HEIGHTS] if biased else []
    return canonicalize(capture(function, mx.zeros((1, tokens, 128), dtype), *matrices, *biases))


def quantized(dtype: mx.Dtype, tokens: int = 1) -> Graph:
    def function(x: mx.array, *rest: mx.array) -> tuple[mx.array, ...]:
        return tuple(
            mx.quantized_matmul(x, rest[i], rest[i + 1], rest[i + 2], True, 64, 4)
            for i in range(0, 9, 3)
        )

    packed = [a for n in HEIGHTS for a in mx.quantize(mx.zeros((n, 128), dtype), 64, 4)]
    return canonicalize(capture(function, mx.zeros((1, tokens, 128), dtype), *packed))


@pytest.mark.parametrize(
    "graph",
    [
        dense(mx.bfloat16),
        dense(mx.float32, 3, biased=True),
        quantized(mx.float16),
        quantized(mx.bfloat16, 2),
    ],
    ids=["dense", "dense_tokens_bias", "quantized", "quantized_tokens"],
)
def test_the_evaluator_passes_them(graph: Graph, judge: Judge) -> None:
    (region,) = partition(graph)
    task = region.extract()
    assert len(ragged_parts(task)) == 3
    space = schedules(task, DEVICE)
    for schedule in (space[0], space[len(space) // 2]):
        assert footprint(task, schedule).registers > 0
        program = lower(task, schedule)
        assert len(program.kernels) == 1
        found = judge(Task(task, "qkv"), program)
        assert found.is_correct, found.summary


def test_each_part_reads_its_own_matrix_once() -> None:
    graph = quantized(mx.float16)
    task = partition(graph)[0].extract()
    source = lower(task, schedules(task, DEVICE)[0]).kernels[0].source
    assert source.count("thread_position_in_grid.y <") == 2
    assert "%" not in source.replace("k % 8", "")


def test_threadgroup_memory_is_declared_at_the_top() -> None:
    task = partition(dense(mx.float32))[0].extract()
    schedule = next(s for s in schedules(task, DEVICE) if "strips=4" in str(s))
    lines = lower(task, schedule).kernels[0].source.splitlines()
    shared = [line for line in lines if line.lstrip().startswith("threadgroup ")]
    assert len(shared) == 3
    assert lines[:3] == shared


def test_a_sum_shared_by_threadgroups_is_refused() -> None:
    task = partition(dense(mx.float32))[0].extract()
    with pytest.raises(UnsupportedError, match="use chunks=1"):
        lower(
            task,
            parse("dense(columns=1, strips=1, teams=1, vector=4, terms=1, chunks=2, lanes=32)"),
        )


def test_what_feeds_each_other_is_one_component() -> None:
    graph = canonicalize(
        capture(lambda x, y: (mx.exp(x) * x, y + 1), mx.zeros((4,)), mx.zeros((8,)))
    )
    assert [len(part.outputs) for part in components(graph)] == [1, 1]
    joined = canonicalize(capture(lambda x: (mx.exp(x), mx.exp(x) + 1), mx.zeros((4,))))
    assert len(components(joined)) == 1
    assert ragged_parts(joined) == ()


def test_a_square_of_a_result_stays_outside_of_the_product() -> None:
    """What makes more than the products do belongs to what reads it."""
    graph = canonicalize(
        capture(
            lambda x, m: ((y := x @ m.T), mx.square(y)), mx.zeros((1, 128)), mx.zeros((64, 128))
        )
    )
    assert all(len(region.outputs) == 1 for region in partition(graph))
