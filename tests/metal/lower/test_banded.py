"""Rows and columns of one matrix in one walk: right for every shape, dtype and order of both."""

import re
from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.evaluator import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.classify import Pattern, classify
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.lower.space import footprint
from kernelwright.metal.schedule import Banded, Rowwise, parse, render
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _rows_then_columns(p: mx.array) -> mx.array:
    p = mx.abs(p)
    p = p / (p.sum(axis=-1, keepdims=True) + 0.5)
    return p / (p.sum(axis=-2, keepdims=True) + 0.5)


def _columns_then_rows(p: mx.array) -> mx.array:
    p = p - mx.abs(p).max(axis=-2, keepdims=True)
    return p * mx.rsqrt((p * p).mean(axis=-1, keepdims=True) + 1.0)


def _both_norms(x: mx.array) -> tuple[mx.array, mx.array]:
    return mx.abs(x).max(axis=-1), mx.sqrt((x.astype(mx.float32) ** 2).sum(axis=-2))


def _norm_backward(
    x: mx.array, weight: mx.array, g: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    inverse = mx.rsqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    normal, gw = centred * inverse, g * weight
    dot = (gw * normal).mean(axis=-1, keepdims=True)
    return (
        inverse * (gw - gw.mean(axis=-1, keepdims=True) - normal * dot),
        (g * normal).sum(axis=0),
        g.sum(axis=0),
    )


def _factored(g: mx.array) -> mx.array:
    squares = g * g + 0.01
    rows, columns = squares.mean(axis=1), squares.mean(axis=0)
    return g * mx.rsqrt(rows)[:, None] * mx.rsqrt(columns)[None]


def _pooled_norm(x: mx.array, weight: mx.array) -> mx.array:
    root = mx.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    return (x * root * weight).mean(axis=1)


def _extremes(x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    return x.max(axis=1), x.max(axis=0), x.min(axis=0)


def _counts(x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    positive = x > 0
    return positive.any(axis=1), positive.all(axis=0), positive.astype(mx.int32).sum(axis=0)


def _softmax_mean(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1).mean(axis=-2)


_Function = Callable[..., object]
_CASES: list[tuple[_Function, tuple[tuple[int, ...], ...]]] = [
    (_rows_then_columns, ((2, 40, 64),)),
    (_rows_then_columns, ((37, 91),)),
    (_columns_then_rows, ((33, 40),)),
    (_both_norms, ((50, 96),)),
    (_norm_backward, ((70, 136), (136,), (70, 136))),
    (_factored, ((41, 72),)),
    (_pooled_norm, ((3, 35, 64), (64,))),
    (_extremes, ((45, 33),)),
    (_counts, ((40, 48),)),
    (_softmax_mean, ((2, 36, 50),)),
]
_SCHEDULES = [Banded(32, 4, 3, 1), Banded(32, 1, 40, 2), Banded(64, 1, 8, 4), Banded(32, 2, 1, 8)]
_DTYPES = [mx.float32, mx.float16, mx.bfloat16]
_EACH = [
    (*case, _DTYPES[number % 3], _SCHEDULES[(number + turn) % 4])
    for number, case in enumerate(_CASES)
    for turn in range(2)
]
"""Every function twice, over all dtypes and schedules."""


def _graph(function: _Function, shapes: tuple[tuple[int, ...], ...], dtype: mx.Dtype) -> ir.Graph:
    zeros = [mx.zeros(shape, dtype) for shape in shapes]
    graph = ir.canonicalize(ir.capture(function, *zeros))
    (region,) = partition(graph)
    return region.extract()


@pytest.mark.parametrize(("function", "shapes", "dtype", "schedule"), _EACH)
@pytest.mark.sampled(4)
def test_rows_and_columns_of_one_walk_are_right(
    function: _Function,
    shapes: tuple[tuple[int, ...], ...],
    dtype: mx.Dtype,
    schedule: Banded,
    judge: Judge,
) -> None:
    graph = _graph(function, shapes, dtype)
    assert classify(graph).pattern is Pattern.PLANE
    evaluation = judge(Task(graph, "banded"), lower(graph, schedule))
    assert evaluation.is_correct, evaluation.summary


def test_a_row_of_a_matrix_is_read_once_for_a_norm_and_its_gradients() -> None:
    graph = _graph(_norm_backward, ((64, 64), (64,), (64, 64)), mx.float16)
    program = lower(graph, Banded(32, 4, 4, 2))
    readers = [kernel for kernel in program.kernels if "x" in kernel.inputs]
    assert len(readers) == 1


@pytest.mark.parametrize(
    ("function", "shapes", "lanes"),
    [
        (_rows_then_columns, ((64, 512, 512),), 32),
        (_norm_backward, ((8192, 2048), (2048,), (8192, 2048)), 256),
    ],
)
def test_lanes_take_a_row_in_wide_reads_first(
    function: _Function, shapes: tuple[tuple[int, ...], ...], lanes: int
) -> None:
    graph = _graph(function, shapes, mx.float16)
    first = schedules(graph, _H200)[0]
    assert isinstance(first, Banded)
    assert (first.lanes, first.vector) == (lanes, 8)
    assert parse(render(first)) == first
    assert footprint(graph, first).threadgroup_bytes <= _H200.threadgroup_bytes


@pytest.mark.parametrize("function", [_rows_then_columns, _factored])
def test_what_waits_for_columns_divides_and_roots_once_a_row_or_column(function: _Function) -> None:
    shape = (2, 40, 64) if function is _rows_then_columns else (41, 72)
    *_, last = lower(_graph(function, (shape,), mx.float16), Banded(32, 4, 3, 1)).kernels
    assert not re.search(r"/ |sqrt", last.source)


def test_a_column_of_a_column_is_another_region() -> None:
    def spread(x: mx.array) -> tuple[mx.array, mx.array]:
        centred = x - x.mean(axis=0)
        return (centred * centred).sum(axis=0), x.sum(axis=1)

    graph = ir.canonicalize(ir.capture(spread, mx.zeros((64, 64))))
    patterns = [classify(region.extract()).pattern for region in partition(graph)]
    assert Pattern.NONE not in patterns


def test_bands_of_rows_alone_are_refused() -> None:
    def centred(x: mx.array) -> mx.array:
        return x - x.sum(axis=-1, keepdims=True)

    graph = ir.canonicalize(ir.capture(centred, mx.zeros((64, 64))))
    with pytest.raises(UnsupportedError, match="rows and columns"):
        lower(graph, Banded(32, 4, 4, 1))


def test_lanes_of_several_simdgroups_take_one_row_at_a_time() -> None:
    graph = _graph(_both_norms, ((64, 64),), mx.float16)
    with pytest.raises(UnsupportedError, match="teams=1"):
        lower(graph, Banded(64, 4, 4, 1))


def test_other_families_refuse_rows_and_columns() -> None:
    graph = _graph(_both_norms, ((64, 64),), mx.float16)
    with pytest.raises(UnsupportedError, match="one set of rows"):
        lower(graph, Rowwise())
