"""Short rows in threadgroup memory: right for every layout, dtype and number of lanes."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.evaluator import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.lower.space import footprint
from kernelwright.metal.schedule import Tiled, parse, render
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def _windows(x: mx.array, bias: mx.array) -> mx.array:
    return mx.softmax(x * 0.2 + bias[None], axis=-1)


def _along_the_middle(x: mx.array) -> mx.array:
    leaky = mx.maximum(x, 0.2 * x)
    return mx.softmax(leaky, axis=1)


def _normal(x: mx.array) -> mx.array:
    return (x - x.mean(axis=-1, keepdims=True)) * mx.rsqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def _largest(x: mx.array) -> tuple[mx.array, mx.array]:
    return mx.argmax(x, axis=-1), x.max(axis=-1)


def _distances(x: mx.array, y: mx.array) -> mx.array:
    return mx.sqrt(((x - y) ** 2).sum(axis=-1))


def _twice_and_sum(x: mx.array) -> tuple[mx.array, mx.array]:
    return x * 2, x.sum(axis=-1)


_CASES: list[tuple[Callable[..., object], tuple[tuple[int, ...], ...], Tiled]] = [
    (_softmax, ((64, 49),), Tiled(1, 16)),
    (_softmax, ((64, 49),), Tiled(4, 8)),
    (_softmax, ((48, 91),), Tiled(8, 4, cached=False)),
    (_softmax, ((30, 7),), Tiled(1, 5)),
    (_windows, ((8, 3, 7, 7), (3, 7, 7)), Tiled(1, 14)),
    (_windows, ((8, 3, 7, 7), (3, 7, 7)), Tiled(2, 12)),
    (_windows, ((8, 3, 7, 8), (3, 7, 8)), Tiled(2, 8)),
    (_along_the_middle, ((24, 17, 8),), Tiled(1, 32)),
    (_along_the_middle, ((24, 17, 8),), Tiled(2, 16)),
    (_normal, ((40, 33),), Tiled(2, 8)),
    (_largest, ((36, 21),), Tiled(1, 12)),
    (_distances, ((40, 3), (40, 3)), Tiled(1, 20)),
    (_twice_and_sum, ((40, 19),), Tiled(4, 8)),
]
_DTYPES = [mx.float32, mx.float16, mx.bfloat16]


def _graph(
    function: Callable[..., object], shapes: tuple[tuple[int, ...], ...], dtype: mx.Dtype
) -> ir.Graph:
    graph = ir.canonicalize(ir.capture(function, *(mx.zeros(s, dtype) for s in shapes)))
    (region,) = partition(graph)
    return region.extract()


# Each function meets two dtypes.
@pytest.mark.parametrize(
    ("function", "shapes", "schedule", "dtype"),
    [
        (*case, _DTYPES[(number + turn) % 3])
        for number, case in enumerate(_CASES)
        for turn in range(2)
    ],
)
@pytest.mark.sampled(5)
def test_tiles_of_rows_are_right(
    function: Callable[..., object],
    shapes: tuple[tuple[int, ...], ...],
    schedule: Tiled,
    dtype: mx.Dtype,
    judge: Judge,
) -> None:
    graph = _graph(function, shapes, dtype)
    evaluation = judge(Task(graph, "tiled"), lower(graph, schedule))
    assert evaluation.is_correct, evaluation.summary


def test_integers_have_tiles(judge: Judge) -> None:
    graph = ir.canonicalize(ir.capture(lambda x: x.max(axis=-1), mx.zeros((64, 9), mx.int32)))
    evaluation = judge(Task(graph, "tiled"), lower(graph, Tiled(1, 16)))
    assert evaluation.is_correct, evaluation.summary


def test_rows_of_odd_length_are_tried_in_tiles_first() -> None:
    graph = _graph(_softmax, ((262144, 91),), mx.float16)
    first = schedules(graph, _H200)[0]
    assert isinstance(first, Tiled)
    assert parse(render(first)) == first
    assert footprint(graph, first).threadgroup_bytes == first.rows * 91 * 2


def test_a_table_of_all_windows_has_a_tile_too() -> None:
    graph = _graph(_windows, ((4096, 4, 49, 49), (4, 49, 49)), mx.float16)
    assert "bias_tile" in lower(graph, Tiled(2, 98)).kernels[0].source


def test_a_table_that_threadgroups_enter_anywhere_has_a_tile_too() -> None:
    graph = _graph(_windows, ((4096, 4, 49, 49), (4, 49, 49)), mx.float16)
    source = lower(graph, Tiled(2, 64)).kernels[0].source
    assert "% 9604" in source
    assert "/ columns" not in source


def test_rows_that_fill_simdgroups_are_tried_first() -> None:
    graph = _graph(_windows, ((4096, 4, 49, 49), (4, 49, 49)), mx.float16)
    first = schedules(graph, _H200)[0]
    assert isinstance(first, Tiled)
    assert first.lanes * first.rows % 32 == 0


def test_rows_that_vectors_divide_need_no_tiles() -> None:
    found = schedules(_graph(_softmax, ((262144, 64),), mx.float16), _H200)
    assert not any(isinstance(s, Tiled) for s in found)


def test_rows_have_to_divide() -> None:
    with pytest.raises(UnsupportedError, match="do not divide 30 rows"):
        lower(_graph(_softmax, ((30, 7),), mx.float16), Tiled(1, 8))
