"""MLX's own row-wise kernels, unmodified from its headers, against MLX on the CPU."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import Argument, SimulatedKernel

Load = Callable[..., SimulatedKernel]
METAL = {np.float32: "float", np.float16: "half"}


def _cpu(array: mx.array) -> Array:
    with mx.stream(mx.cpu):
        mx.eval(array)
    return np.array(array)


def _random(
    *shape: int, dtype: type[np.floating] = np.float32, seed: int = 0
) -> NDArray[np.floating]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _close(found: Array, expected: Array, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("kernel", "size"), [("softmax_single_row", 300), ("softmax_looped", 5000)]
)
@pytest.mark.sampled(2)
def test_softmax(mlx_kernel: Load, kernel: str, size: int, dtype: type[np.floating]) -> None:
    x, out = _random(3, size, dtype=dtype), np.zeros((3, size), dtype)
    threads = 96 if size == 300 else 1024
    mlx_kernel(["softmax.h"], kernel, [METAL[dtype], "float"]).launch(
        [x, out, size], grid=(3 * threads, 1, 1), threadgroup=(threads, 1, 1)
    )
    _close(
        out,
        _cpu(mx.softmax(mx.array(x), axis=-1, precise=True)),
        1e-3 if dtype == np.float16 else 1e-6,
    )


@pytest.mark.parametrize(("kernel", "size"), [("logsumexp", 300), ("logsumexp_looped", 5000)])
def test_logsumexp(mlx_kernel: Load, kernel: str, size: int) -> None:
    x, out = _random(3, size), np.zeros(3, np.float32)
    threads = 96 if size == 300 else 1024
    mlx_kernel(["logsumexp.h"], kernel, ["float"]).launch(
        [x, out, size], grid=(3 * threads, 1, 1), threadgroup=(threads, 1, 1)
    )
    _close(out, _cpu(mx.logsumexp(mx.array(x), axis=-1)))


REDUCE = ["atomic.h", "reduction/ops.h", "reduce.h"]


@pytest.mark.parametrize(("op", "reference"), [("Sum", mx.sum), ("Max", mx.max), ("Prod", mx.prod)])
@pytest.mark.sampled(1)
def test_all_reduce(mlx_kernel: Load, op: str, reference: Callable[[mx.array], mx.array]) -> None:
    x, out = _random(1000) * 0.1 + 1, np.zeros(1, np.float32)
    mlx_kernel(REDUCE, "all_reduce", ["float", "float", f"{op}<float>"]).launch(
        [x, out, 1000, 1000], grid=(256, 1, 1), threadgroup=(256, 1, 1)
    )
    _close(out, _cpu(reference(mx.array(x))).reshape(1), 1e-5)


def test_row_reduce_simple(mlx_kernel: Load) -> None:
    x, out = _random(10, 700), np.zeros(10, np.float32)
    mlx_kernel(REDUCE, "row_reduce_simple", ["float", "float", "Sum<float>"]).launch(
        [x, out, 700, 10], grid=(64, 3, 1), threadgroup=(64, 1, 1)
    )
    _close(out, _cpu(mx.sum(mx.array(x), axis=1)), 1e-5)


def test_row_reduce_looped_over_two_axes(mlx_kernel: Load) -> None:
    x, out = _random(4, 5, 600), np.full(5, np.nan, np.float32)
    mlx_kernel(REDUCE, "row_reduce_looped", ["float", "float", "Min<float>", "int", 1]).launch(
        [
            x,
            out,
            600,
            4,
            np.array([5], np.int32),
            np.array([600], np.int64),
            1,
            np.array([4], np.int32),
            np.array([3000], np.int64),
            1,
        ],
        grid=(160, 5, 1),
        threadgroup=(160, 1, 1),
    )
    _close(out, _cpu(mx.min(mx.array(x), axis=(0, 2))))


@pytest.mark.parametrize(
    ("kernel", "arguments", "grid", "threadgroup"),
    [
        ("col_reduce_small", ["int", 1], (8, 3, 1), (8, 1, 1)),
        ("col_reduce_looped", ["int", 1, 32, 32], (256, 3, 1), (256, 1, 1)),
    ],
)
@pytest.mark.sampled(1)
def test_column_reductions(
    mlx_kernel: Load,
    kernel: str,
    arguments: list[object],
    grid: tuple[int, int, int],
    threadgroup: tuple[int, int, int],
) -> None:
    x, out = _random(3, 40, 32), np.zeros((3, 32), np.float32)
    buffers: list[Argument] = [
        x,
        out,
        40,
        32,
        np.array([3], np.int32),
        np.array([1280], np.int64),
        1,
        np.array([40], np.int32),
        np.array([32], np.int64),
        1,
        1,
    ]
    if kernel == "col_reduce_looped":
        buffers.append(0)
    mlx_kernel(REDUCE, kernel, ["float", "float", "Sum<float>", *arguments]).launch(
        buffers, grid=grid, threadgroup=threadgroup
    )
    _close(out, _cpu(mx.sum(mx.array(x), axis=1)), 1e-5)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.sampled(2)
def test_contiguous_scan(mlx_kernel: Load, inclusive: bool, reverse: bool) -> None:
    x, out = _random(3, 1000), np.zeros((3, 1000), np.float32)
    arguments = ["float", "float", "CumSum<float>", 4, inclusive, reverse]
    mlx_kernel(["scan.h"], "contiguous_scan", arguments).launch(
        [x, out, 1000], grid=(256, 3, 1), threadgroup=(256, 1, 1)
    )
    expected = mx.cumsum(mx.array(x), axis=1, reverse=reverse, inclusive=inclusive)
    _close(out, _cpu(expected), 2e-5)


def test_strided_scan(mlx_kernel: Load) -> None:
    x, out = _random(2, 70, 64), np.zeros((2, 70, 64), np.float32)
    arguments = ["float", "float", "CumMax<float>", 4, True, False]
    mlx_kernel(["scan.h"], "strided_scan", arguments).launch(
        [x, out, 70, 64, 2], grid=(256, 4, 1), threadgroup=(256, 1, 1)
    )
    _close(out, _cpu(mx.cummax(mx.array(x), axis=1)))


@pytest.mark.parametrize("is_argsort", [False, True])
@pytest.mark.sampled(1)
def test_block_sort(mlx_kernel: Load, is_argsort: bool) -> None:
    x = np.random.default_rng(1).permutation(3 * 400).reshape(3, 400).astype(np.float32)
    out = np.zeros((3, 400), np.uint32 if is_argsort else np.float32)
    arguments = ["float", "uint" if is_argsort else "float", is_argsort, 64, 8]
    mlx_kernel(["sort.h"], "block_sort", arguments).launch(
        [x, out, 400, 1, 1, 400, 400], grid=(64, 3, 1), threadgroup=(64, 1, 1)
    )
    reference = mx.argsort if is_argsort else mx.sort
    np.testing.assert_array_equal(out, _cpu(reference(mx.array(x), axis=1)))
