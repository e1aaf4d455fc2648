"""Long reductions in stages: right at every role, level, layout and dtype."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.evaluator import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Staged, parse, render
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge


def _clip(x: mx.array) -> mx.array:
    norm = mx.sqrt((x.astype(mx.float32) ** 2).sum())
    return (x * mx.minimum(1.0 / (norm + 1e-6), 1.0)).astype(x.dtype)


def _distance(x: mx.array) -> tuple[mx.array, mx.array]:
    return x * 0.5, mx.abs(x).max()


def _statistics(x: mx.array) -> tuple[mx.array, mx.array]:
    wide = x.astype(mx.float32)
    return wide.mean(axis=0), wide.var(axis=0)


def _whiten(x: mx.array) -> mx.array:
    centred = x - x.mean(axis=0)
    return centred * mx.rsqrt((centred * centred).mean(axis=0) + 1e-5)


def _group_norm(x: mx.array) -> mx.array:
    grouped = x.reshape(2, 96, 4, 8).astype(mx.float32)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    variance = grouped.var(axis=(1, 3), keepdims=True)
    return ((grouped - mean) * mx.rsqrt(variance + 1e-5)).astype(x.dtype)


def _layer_norm(x: mx.array) -> mx.array:
    return (x - x.mean(axis=-1, keepdims=True)) * mx.rsqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def _unbiased(x: mx.array) -> mx.array:
    return mx.var(x, axis=-1, ddof=1)


def _standardize(x: mx.array) -> mx.array:
    return (x - x.mean(axis=0)) / (mx.sqrt(x.var(axis=0)) + 1e-5)


_CASES: list[tuple[Callable[..., object], tuple[int, ...], int]] = [
    (_clip, (48, 40), 16),
    (_distance, (48, 40), 4),
    (_statistics, (192, 64), 12),
    (_whiten, (96, 33), 8),
    (_group_norm, (2, 96, 32), 12),
    (_layer_norm, (3, 4096), 16),
    (_unbiased, (2, 1024), 8),
    (_standardize, (96, 40), 8),
]
_DTYPES = [mx.float32, mx.float16, mx.bfloat16]


def _graph(function: Callable[..., object], shape: tuple[int, ...], dtype: mx.Dtype) -> ir.Graph:
    graph = ir.canonicalize(ir.capture(function, mx.zeros(shape, dtype)))
    (region,) = partition(graph)
    return region.extract()


# Each function meets two dtypes.
@pytest.mark.parametrize(
    ("function", "shape", "parts", "dtype"),
    [
        (*case, _DTYPES[(number + turn) % 3])
        for number, case in enumerate(_CASES)
        for turn in range(2)
    ],
)
@pytest.mark.sampled(3)
def test_stages_are_right(
    function: Callable[..., object],
    shape: tuple[int, ...],
    parts: int,
    dtype: mx.Dtype,
    judge: Judge,
) -> None:
    graph = _graph(function, shape, dtype)
    program = lower(graph, Staged(parts, 64, 4, 1))
    assert len(program.kernels) > 1
    evaluation = judge(Task(graph, "staged"), program)
    assert evaluation.is_correct, evaluation.summary


def test_runs_of_results_are_right(judge: Judge) -> None:
    graph = _graph(_statistics, (192, 64), mx.float16)
    evaluation = judge(Task(graph, "staged"), lower(graph, Staged(12, 64, 4, 4)))
    assert evaluation.is_correct, evaluation.summary


def test_a_variance_takes_one_level() -> None:
    program = lower(_graph(_layer_norm, (3, 4096), mx.float16), Staged(16, 64, 4, 1))
    # Parts, what they give together, and the outputs.
    assert len(program.kernels) == 3


def test_results_of_a_row_need_no_kernel_of_their_own() -> None:
    program = lower(_graph(_statistics, (192, 64), mx.float16), Staged(12, 64, 4, 4))
    assert len(program.kernels) == 2


def test_parts_divide_what_is_reduced() -> None:
    graph = _graph(_clip, (48, 40), mx.float16)
    with pytest.raises(UnsupportedError, match="do not divide into 7"):
        lower(graph, Staged(7, 64, 4, 1))


def test_one_long_row_is_first_tried_in_stages() -> None:
    device: DeviceInfo = open_device("simulator").info
    first = schedules(_graph(_clip, (2048, 4096), mx.float16), device)[0]
    assert isinstance(first, Staged)
    assert parse(render(first)) == first


def test_many_rows_need_no_stages() -> None:
    device = open_device("simulator").info
    found = schedules(_graph(_layer_norm, (4096, 1024), mx.float16), device)
    assert not any(isinstance(schedule, Staged) for schedule in found)


def test_stages_keep_the_precision_of_sums_between_them() -> None:
    """What stands between kernels is float32: halves would lose the sum of a long column."""
    graph = _graph(_whiten, (96, 33), mx.float16)
    program = lower(graph, Staged(8, 64, 4, 1))
    assert {t.dtype.numpy for t in program.temporaries} == {np.dtype(np.float32)}


@pytest.mark.parametrize("dtype", [mx.float16, mx.float32])
def test_what_a_row_shares_is_computed_once_a_row(dtype: mx.Dtype) -> None:
    graph = _graph(_standardize, (96, 40), dtype)
    program = lower(graph, Staged(8, 64, 4, 1))
    *_, joining, elements = program.kernels
    assert "sqrt" in joining.source
    assert "sqrt" not in elements.source
    # A float's quotient is exact; a half's is a product with the inverse.
    assert (" / " in elements.source) is (dtype is mx.float32)


def test_no_more_arrays_stand_between_stages_than_reductions() -> None:
    def shares(x: mx.array) -> mx.array:
        norm = mx.sqrt((x * x).sum(axis=0))
        return x * mx.exp(-norm) + mx.tanh(norm)

    program = lower(_graph(shares, (96, 40), mx.float32), Staged(8, 64, 4, 1))
    assert [t.name for t in program.temporaries] == ["part_1_0", "part_1_whole_0"]
