"""The schedules of a graph: legal on the device, all of them different, the best guess first."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import footprint, schedules
from kernelwright.metal.schedule import (
    ColumnSplit,
    Columnwise,
    Elementwise,
    Rowwise,
    Scan,
    Split,
    parse,
    render,
)

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def softmax(rows: int, columns: int) -> Graph:
    return canonicalize(capture(lambda x: mx.softmax(x, -1), mx.zeros((rows, columns))))


@pytest.mark.parametrize("columns", [5, 100, 512, 4096, 50000])
def test_every_schedule_fits_the_device(columns: int) -> None:
    graph = softmax(8, columns)
    space = schedules(graph, DEVICE)
    assert len(set(space)) == len(space) > 5
    for schedule in space:
        taken = footprint(graph, schedule)
        assert taken.threadgroup_bytes <= DEVICE.threadgroup_bytes
        assert taken.registers <= 96
        assert parse(render(schedule)) == schedule


def test_long_rows_begin_with_a_threadgroup_and_short_ones_with_a_thread() -> None:
    assert schedules(softmax(8, 4096), DEVICE)[0] == Rowwise(512, 1, 4, cached=True)
    assert schedules(softmax(8, 256), DEVICE)[0] == Rowwise(32, 4, 4, cached=True)
    assert schedules(softmax(8, 5), DEVICE)[0] == Rowwise(1, 64, 1, cached=False)


def test_reductions_along_memory_rows_and_columns_have_their_own_families() -> None:
    columns = canonicalize(capture(lambda x: mx.sum(x, 0), mx.zeros((64, 64))))
    everything = canonicalize(capture(mx.sum, mx.zeros((512, 512))))
    chain = canonicalize(capture(mx.tanh, mx.zeros((8, 8))))
    assert isinstance(schedules(columns, DEVICE)[0], Columnwise)
    assert isinstance(schedules(everything, DEVICE)[0], Split)
    long = canonicalize(capture(lambda x: mx.sum(x, 0), mx.zeros((2048, 64))))
    assert isinstance(schedules(long, DEVICE)[0], ColumnSplit)
    assert isinstance(schedules(chain, DEVICE)[0], Elementwise)
    running = canonicalize(capture(lambda x: mx.cumsum(x, -1), mx.zeros((64, 1024))))
    assert schedules(running, DEVICE)[0] == Scan(256, 1, 4)


def test_short_rows_are_scanned_in_sequence() -> None:
    running = canonicalize(capture(lambda x: mx.cumsum(x, -1), mx.zeros((64, 8))))
    assert schedules(running, DEVICE)[0] == Scan(1, 64, 1)


def test_a_small_device_gets_small_threadgroups() -> None:
    small = DEVICE.model_copy(update={"threads_per_threadgroup": 256})
    found = [s for s in schedules(softmax(8, 4096), small) if isinstance(s, Rowwise)]
    assert max(s.lanes for s in found) == 256


@pytest.mark.parametrize("dtype", [mx.float16, mx.float32])
def test_the_first_schedules_differ_in_memory_accesses_and_teams(dtype: mx.Dtype) -> None:
    chain = canonicalize(capture(lambda x: mx.tanh(x) * 2, mx.zeros((1024, 4096), dtype)))
    first = [s for s in schedules(chain, DEVICE)[:7] if isinstance(s, Elementwise)]
    assert len({(s.vector, s.unroll) for s in first}) == 7
    assert first[1].vector * first[1].unroll * chain.input_types[0].dtype.itemsize >= 16
    rows = [s for s in schedules(softmax(64, 512), DEVICE)[:10] if isinstance(s, Rowwise)]
    assert len({(s.lanes, s.vector, s.cached, s.online) for s in rows}) == 10


@pytest.mark.parametrize(
    ("function", "is_elementwise"),
    [
        (lambda x: mx.sum(x, axis=1), True),
        (lambda x: mx.sum(x[:, :, :8], axis=-1), False),
        (lambda x: x / mx.sum(x, axis=1, keepdims=True), False),
        (lambda x: mx.sum(x, axis=0), False),
    ],
)
def test_a_thread_joins_few_elements_where_its_neighbours_read_theirs(
    function: Callable[[mx.array], mx.array], is_elementwise: bool
) -> None:
    graph = canonicalize(capture(function, mx.zeros((64, 8, 512))))
    assert isinstance(schedules(graph, DEVICE)[0], Elementwise) is is_elementwise


def test_a_product_of_many_rows_has_no_schedule() -> None:
    graph = canonicalize(capture(lambda x: x @ x, mx.zeros((96, 96))))
    with pytest.raises(UnsupportedError, match="left to MLX"):
        schedules(graph, DEVICE)


@pytest.mark.parametrize("text", ["tiled(k=4)", "rowwise(lanes)", "rowwise(tile=4)", ""])
def test_other_text_is_no_schedule(text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        parse(text)


@pytest.mark.parametrize(("rows", "strips"), [(1024, 8), (8192, 32)])
def test_no_thread_adds_up_a_long_column_by_itself_first(rows: int, strips: int) -> None:
    graph = canonicalize(capture(lambda x: x - x.mean(axis=0), mx.zeros((rows, 96))))
    found = [s for s in schedules(graph, DEVICE) if isinstance(s, Columnwise)]
    first = next(s for s in found if not s.cached)
    assert first.strips == strips


def test_a_run_of_neighbours_divides_what_stands_side_by_side() -> None:
    def centred(x: mx.array, mean: mx.array) -> mx.array:
        return x - mean[:, None]

    graph = canonicalize(
        capture(centred, mx.zeros((128, 1004), mx.float16), mx.zeros(128, mx.float16))
    )
    first, *_ = schedules(graph, DEVICE)
    assert isinstance(first, Elementwise)
    assert first.vector == 4


@pytest.mark.parametrize("length", [32, 64])
def test_few_lanes_find_the_range_of_a_group_at_a_read_each(length: int) -> None:
    def ranged(x: mx.array) -> mx.array:
        groups = x.reshape(-1, length)
        low = groups.min(axis=-1, keepdims=True)
        return (groups - low) / (groups.max(axis=-1, keepdims=True) - low + 1)

    graph = canonicalize(capture(ranged, mx.zeros((64, 4096), mx.float16)))
    first, *_ = schedules(graph, DEVICE)
    assert isinstance(first, Rowwise)
    assert first.lanes * first.vector == length
    assert first.lanes < 32
