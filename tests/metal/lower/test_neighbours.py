"""Elements that a run reads together: pixels, stencils, uneven rows and choices between arms."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.evaluator import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.lower.pointwise.kernel import threadgroup_of
from kernelwright.metal.schedule import Elementwise
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

_H200 = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="", measures_time=True)


def _gray(x: mx.array) -> mx.array:
    gray = x[..., 0] * 0.3 + x[..., 1] * 0.6 + x[..., 2] * 0.1
    return mx.abs(gray[:, 1:, 1:] - gray[:, :-1, :-1])


def _interleaved(x: mx.array) -> mx.array:
    return x[..., ::2] * 2 - x[..., 1::2]


def _odd_places(x: mx.array) -> mx.array:
    return mx.exp(x[..., 1::2]) + 1


def _stencil(x: mx.array) -> mx.array:
    padded = mx.pad(x, [(1, 1), (1, 1)])
    around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
    return x + 0.25 * (around - 4 * x)


def _shifted(x: mx.array) -> mx.array:
    return x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]


def _partial_rope(x: mx.array) -> mx.array:
    a, b, kept = x[..., :8], x[..., 8:16], x[..., 16:]
    return mx.concatenate([a * 2 - b, b * 2 + a, kept], axis=-1)


def _joined_then_scaled(x: mx.array) -> mx.array:
    return mx.tanh(mx.concatenate([x[..., :8], -x[..., :16]], axis=-1)) * 3


def _mixed(x: mx.array, mix: mx.array) -> mx.array:
    return (x[:, None] * mix[None, :, :, None]).sum(axis=2)


def _turned_pairs(x: mx.array) -> mx.array:
    even, odd = x[..., ::2], x[..., 1::2]
    return mx.stack([even * 0.8 - odd * 0.6, even * 0.6 + odd * 0.8], axis=-1).reshape(x.shape)


def _three_channels(x: mx.array) -> mx.array:
    return mx.stack([x * 0.3, mx.abs(x), x + 1], axis=-1)


_CASES: list[tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = [
    (_gray, ((2, 5, 23, 3),)),
    (_gray, ((2, 5, 17, 3),)),
    (_interleaved, ((3, 5, 48),)),
    (_interleaved, ((7, 70),)),
    (_odd_places, ((3, 5, 64),)),
    (_stencil, ((6, 40),)),
    (_stencil, ((5, 33),)),
    (_shifted, ((4, 66),)),
    (_shifted, ((4, 51),)),
    (_partial_rope, ((3, 5, 40),)),
    (_joined_then_scaled, ((3, 4, 32),)),
    (_mixed, ((6, 4, 48), (4, 4))),
    (_turned_pairs, ((3, 5, 32),)),
    (_turned_pairs, ((3, 26),)),
    (_three_channels, ((3, 40),)),
]
_DTYPES = [mx.float32, mx.float16, mx.bfloat16]


def _graph(
    function: Callable[..., object], shapes: tuple[tuple[int, ...], ...], dtype: mx.Dtype
) -> ir.Graph:
    graph = ir.canonicalize(ir.capture(function, *(mx.zeros(s, dtype) for s in shapes)))
    (region,) = partition(graph)
    return region.extract()


# Each function meets each dtype, and each width.
@pytest.mark.parametrize(
    ("function", "shapes", "dtype", "vector"),
    [
        (*case, dtype, (4, 8)[(number + place) % 2])
        for number, case in enumerate(_CASES)
        for place, dtype in enumerate(_DTYPES)
    ],
)
@pytest.mark.sampled(6)
def test_what_is_read_together_is_right(
    function: Callable[..., object],
    shapes: tuple[tuple[int, ...], ...],
    dtype: mx.Dtype,
    vector: int,
    judge: Judge,
) -> None:
    graph = _graph(function, shapes, dtype)
    evaluation = judge(Task(graph, "neighbours"), lower(graph, Elementwise(vector, 64)))
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("rows", [2, 4])
def test_rows_that_read_the_same_are_computed_together(rows: int, judge: Judge) -> None:
    graph = _graph(_mixed, ((6, 4, 48), (4, 4)), mx.float16)
    evaluation = judge(Task(graph, "rows"), lower(graph, Elementwise(8, 64, rows=rows)))
    assert evaluation.is_correct, evaluation.summary


def test_rows_of_a_plane_are_tried_together_where_all_read_the_same() -> None:
    found = schedules(_graph(_mixed, ((4096, 4, 2048), (4, 4)), mx.float16), _H200)
    assert any(isinstance(s, Elementwise) and s.rows == 4 for s in found[:3])


def _only_kernel(function: Callable[..., object], shape: tuple[int, ...], vector: int) -> Kernel:
    graph = _graph(function, (shape,), mx.float16)
    (kernel,) = lower(graph, Elementwise(vector, 256)).kernels
    return kernel


def test_pixels_are_read_in_one_access() -> None:
    source = _only_kernel(_gray, (2, 64, 65, 3), 4).source
    assert source.count("load_run<packed_many<half, 15>>") == 0
    assert source.count("load_run<packed_many<half, 12>>") == 2


@pytest.mark.parametrize(("function", "width"), [(_turned_pairs, 16), (_three_channels, 24)])
def test_what_alternates_is_written_in_one_access(
    function: Callable[..., object], width: int
) -> None:
    source = _only_kernel(function, (64, 512), 8).source
    assert f"*(device packed_many<half, {width}>*)(out " in source
    assert "out[" not in source


def test_what_leaves_gaps_is_written_one_by_one() -> None:
    def edges(x: mx.array) -> mx.array:
        return mx.stack([x, x * 2, x * 3, x * 4, x * 5], axis=-1)

    assert "out[" in _only_kernel(edges, (64, 512), 8).source


def test_a_stencil_reads_its_row_once_around_an_aligned_run() -> None:
    assert "load_around<1, 8, 10>" in _only_kernel(_stencil, (64, 128), 8).source


def test_a_run_chooses_its_arm_once() -> None:
    source = _only_kernel(_partial_rope, (64, 64, 40), 8).source
    assert source.count("if (first <") == 2
    assert "float element;" not in source


def test_a_guarded_read_takes_one_run_a_thread() -> None:
    """NVIDIA's assembler moved such a read above its guard where a thread took several runs."""
    found = schedules(_graph(_stencil, ((4096, 4096),), mx.float16), _H200)
    assert {s.unroll for s in found if isinstance(s, Elementwise)} == {1}


@pytest.mark.parametrize("grid", [(10, 32, 16384), (1, 32, 131072), (2, 3, 64), (320, 7, 5)])
def test_few_lanes_idle(grid: tuple[int, int, int]) -> None:
    x, y, z = (int(side) for side in threadgroup_of(grid, Elementwise(8, 256)))
    groups = np.prod([-(-extent // side) for extent, side in zip(grid, (x, y, z), strict=True)])
    assert x * y * z == 256
    assert groups * x * y * z / np.prod(grid) < 4


def _nearest(x: mx.array, c: mx.array) -> mx.array:
    return ((x[:, None] - c[None]) ** 2).sum(axis=-1).min(axis=1)


@pytest.mark.parametrize(("dtype", "width"), [(mx.float16, "packed_eight"), (mx.float32, "float4")])
def test_a_small_vector_is_read_at_once(dtype: mx.Dtype, width: str) -> None:
    inputs = [mx.zeros((96, 8), dtype), mx.zeros((24, 8), dtype)]
    graph = ir.canonicalize(ir.capture(_nearest, *inputs))
    program = lower(graph, schedules(graph, _H200)[0])
    (kernel,) = program.kernels
    reads = [line for line in kernel.source.splitlines() if "load_run" in line]
    assert len(reads) == (2 if dtype == mx.float16 else 4)
    assert all(width in line for line in reads)


def test_vectors_of_odd_length_are_read_one_by_one() -> None:
    inputs = [mx.zeros((96, 3), mx.float16), mx.zeros((24, 3), mx.float16)]
    graph = ir.canonicalize(ir.capture(_nearest, *inputs))
    program = lower(graph, schedules(graph, _H200)[0])
    assert "load_run" not in program.kernels[0].source
