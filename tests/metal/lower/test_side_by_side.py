"""Parts of a graph that only read the same are one launch: products, and rows of other counts."""

import mlx.core as mx
import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, canonicalize, capture, interpret
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.component import components, ragged_parts, row_parts
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import Rowwise, parse
from kernelwright.plan import legality, partition, with_own_copies
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
@pytest.mark.sampled(1)
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


def norms(*counts: int, length: int = 64, dtype: mx.Dtype = mx.bfloat16) -> Graph:
    """Return norms and ropes of one offset, each of so many heads and with a weight of its own."""

    def function(offset: mx.array, *rest: mx.array) -> list[mx.array]:
        normed = [mx.fast.rms_norm(x, w, 1e-6) for x, w in zip(rest[::2], rest[1::2], strict=True)]
        return [
            mx.fast.rope(x, length, traditional=False, base=10000.0, scale=1.0, offset=offset)
            for x in normed
        ]

    shapes = [shape for n in counts for shape in ((1, n, 1, length), (length,))]
    return canonicalize(
        capture(function, mx.array(0), *(mx.zeros(shape, dtype) for shape in shapes))
    )


def part_of(graph: Graph) -> Graph:
    """Return the only region of a graph, as a task has it."""
    (region,) = partition(with_own_copies(graph))
    assert legality(region).is_legal
    return region.extract()


@pytest.mark.parametrize(
    "graph", [norms(16, 8), norms(3, 2, 4, dtype=mx.float32)], ids=["two", "three"]
)
@pytest.mark.sampled(1)
def test_the_evaluator_passes_rows_of_other_counts(graph: Graph, judge: Judge) -> None:
    task = part_of(graph)
    assert len(row_parts(task)) == len(task.outputs)
    space = schedules(task, DEVICE)
    for schedule in (space[0], next(s for s in space if "lanes=1," in str(s))):
        program = lower(task, schedule)
        assert len(program.kernels) == 1
        found = judge(Task(task, "norms"), program)
        assert found.is_correct, found.summary


def test_no_simdgroup_has_rows_of_two_parts() -> None:
    task = part_of(norms(3, 2))
    found = [s for s in schedules(task, DEVICE) if isinstance(s, Rowwise)]
    assert {s.lanes for s in found} == {1, 32}
    with pytest.raises(UnsupportedError, match="rows of two parts; use lanes=32"):
        lower(task, parse("rowwise(lanes=16, rows=8, vector=4)"))
    whole = part_of(norms(16, 8))
    assert 8 in {s.lanes for s in schedules(whole, DEVICE) if isinstance(s, Rowwise)}


def test_parts_share_a_kernel_on_chip_but_no_thread() -> None:
    alone, both = (part_of(norms(*n, length=256)) for n in ((16,), (16, 8)))
    schedule = next(
        s for s in schedules(both, DEVICE) if isinstance(s, Rowwise) and s.lanes == 64 and s.cached
    )
    one, two = footprint(alone, schedule), footprint(both, schedule)
    assert two.registers == one.registers
    assert two.threadgroup_bytes == 2 * one.threadgroup_bytes > 0


@pytest.mark.parametrize("length", [33, 8192], ids=["uneven", "long"])
def test_rows_that_lanes_take_badly_stay_kernels_of_their_own(length: int) -> None:
    x, y, w = (mx.zeros(shape) for shape in ((4, length), (2, length), (length,)))
    graph = canonicalize(capture(lambda x, y, w: (mx.softmax(x * w), mx.softmax(y * w)), x, y, w))
    assert len(partition(graph)) == 2


def test_columns_stay_kernels_of_their_own() -> None:
    x, y = mx.zeros((64, 4)), mx.zeros((64, 8))
    w = mx.zeros((64,))
    graph = canonicalize(
        capture(lambda x, y, w: (mx.softmax(x.T * w), mx.softmax(y.T * w)), x, y, w)
    )
    assert len(partition(graph)) == 2


def test_parts_that_compute_different_things_stay_kernels_of_their_own() -> None:
    x, y, w = (mx.zeros(shape) for shape in ((4, 64), (2, 64), (64,)))
    graph = canonicalize(
        capture(lambda x, y, w: (mx.softmax(x * w), mx.softmax(mx.exp(y) * w)), x, y, w)
    )
    assert row_parts(graph) == ()
    assert len(partition(graph)) == 2


def test_a_table_of_an_offset_is_part_of_each_that_reads_it() -> None:
    graph = norms(4, 2)
    assert sum(node.op == "cos" for node in graph.nodes) == 1
    parts = components(graph)
    assert [sum(node.op == "cos" for node in part.nodes) for part in parts] == [1, 1]
    assert [len(part.outputs) for part in parts] == [1, 1]
    arrays = [mx.random.normal(t.shape).astype(mx.bfloat16) for t in graph.input_types[1:]]
    inputs = [mx.array(7), *arrays]
    for one, other in zip(
        interpret(graph, *inputs), interpret(parts[0].graph, *inputs), strict=True
    ):
        assert mx.array_equal(one, other)


def test_each_part_reads_its_own_matrix_once() -> None:
    graph = quantized(mx.float16)
    task = partition(graph)[0].extract()
    source = lower(task, schedules(task, DEVICE)[0]).kernels[0].source
    assert source.count("thread_position_in_grid.y <") == 2
    assert "%" not in source.replace("k % 4 ", "").replace("% 4 ", "").replace("% 2 ", "")


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
