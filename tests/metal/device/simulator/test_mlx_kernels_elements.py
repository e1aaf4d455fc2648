"""MLX's own elementwise, copying and indexing kernels against MLX on the CPU."""

from collections.abc import Callable

import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest

from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import Library, SimulatedKernel

Load = Callable[..., SimulatedKernel]
LoadAll = Callable[..., Library]
Unary = Callable[[mx.array], mx.array]
Binary = Callable[[mx.array, mx.array], mx.array]


def _cpu(array: mx.array) -> Array:
    with mx.stream(mx.cpu):
        wide = array.astype(mx.float32) if array.dtype == mx.bfloat16 else array
        mx.eval(wide)
    return np.array(wide)


def _mlx(array: Array) -> mx.array:
    wide = array.dtype == ml_dtypes.bfloat16
    return mx.array(array.astype(np.float32)).astype(mx.bfloat16) if wide else mx.array(array)


UNARY: dict[str, Unary] = {
    "Abs": mx.abs,
    "ArcCos": mx.arccos,
    "ArcSin": mx.arcsin,
    "ArcSinh": mx.arcsinh,
    "ArcTan": mx.arctan,
    "ArcTanh": mx.arctanh,
    "Ceil": mx.ceil,
    "Cos": mx.cos,
    "Cosh": mx.cosh,
    "Erf": mx.erf,
    "ErfInv": mx.erfinv,
    "Exp": mx.exp,
    "Expm1": mx.expm1,
    "Floor": mx.floor,
    "Log": lambda x: mx.log(mx.abs(x)),
    "Log1p": mx.log1p,
    "Negative": mx.negative,
    "Round": mx.round,
    "Sigmoid": mx.sigmoid,
    "Sign": mx.sign,
    "Sin": mx.sin,
    "Sinh": mx.sinh,
    "Square": mx.square,
    "Sqrt": mx.sqrt,
    "Rsqrt": mx.rsqrt,
    "Tan": mx.tan,
    "Tanh": mx.tanh,
}
POSITIVE = ("Log", "Sqrt", "Rsqrt", "Log1p")


@pytest.mark.parametrize(
    ("dtype", "metal", "tolerance"),
    [
        (np.float32, "float", 3e-6),
        (np.float16, "half", 2e-3),
        (ml_dtypes.bfloat16, "bfloat16_t", 1e-2),
    ],
)
@pytest.mark.sampled(2)
def test_unary_operations(
    mlx_library: LoadAll, dtype: type[np.generic], metal: str, tolerance: float
) -> None:
    kernels = {op: ("unary_v", f"{metal}, {metal}, {op}") for op in UNARY}
    library = mlx_library(["unary_ops.h", "unary.h"], kernels)
    signed = np.random.default_rng(1).uniform(-0.95, 0.95, 203).astype(dtype)
    for op, reference in UNARY.items():
        x = np.abs(signed) if op in POSITIVE else signed
        out = np.zeros(203, dtype)
        library.kernel(op).launch([x, out, 203], grid=(102, 1, 1), threadgroup=(64, 1, 1))
        np.testing.assert_allclose(
            out.astype(np.float64),
            _cpu(reference(_mlx(x))).astype(np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=op,
        )


def test_complex_unary_operations(mlx_library: LoadAll) -> None:
    references: dict[str, Unary] = {
        "Exp": mx.exp,
        "Sqrt": mx.sqrt,
        "Abs": mx.abs,
        "Log": mx.log,
        "Sin": mx.sin,
        "Tanh": mx.tanh,
        "Square": mx.square,
    }
    kernels = {op: ("unary_v", f"complex64_t, complex64_t, {op}") for op in references}
    library = mlx_library(["unary_ops.h", "unary.h"], kernels)
    rng = np.random.default_rng(2)
    x = (rng.uniform(-2, 2, 64) + 1j * rng.uniform(-2, 2, 64)).astype(np.complex64)
    for op, reference in references.items():
        out = np.zeros(64, np.complex64)
        library.kernel(op).launch([x, out, 64], grid=(64, 1, 1), threadgroup=(64, 1, 1))
        expected = _cpu(reference(mx.array(x)))
        np.testing.assert_allclose(out, expected.astype(np.complex64), rtol=1e-5, err_msg=op)


def test_unary_over_strides(mlx_kernel: Load) -> None:
    x = np.random.default_rng(3).standard_normal((4, 6, 10)).astype(np.float32)
    out = np.zeros((10, 4, 6), np.float32)
    kernel = mlx_kernel(["unary_ops.h", "unary.h"], "unary_g", ["float", "float", "Exp", 2, "int"])
    shape, strides = np.array([10, 4, 6], np.int32), np.array([1, 60, 10], np.int64)
    kernel.launch(
        [x, out, shape, strides, np.array([3], np.int32)], grid=(3, 4, 10), threadgroup=(3, 4, 10)
    )
    np.testing.assert_allclose(out, np.exp(x).transpose(2, 0, 1), rtol=1e-6)


BINARY: dict[str, Binary] = {
    "Add": mx.add,
    "Divide": mx.divide,
    "Remainder": mx.remainder,
    "LogAddExp": mx.logaddexp,
    "Maximum": mx.maximum,
    "Minimum": mx.minimum,
    "Multiply": mx.multiply,
    "Power": mx.power,
    "Subtract": mx.subtract,
    "ArcTan2": mx.arctan2,
}


@pytest.mark.parametrize(
    ("dtype", "metal", "tolerance"),
    [(np.float32, "float", 2e-6), (ml_dtypes.bfloat16, "bfloat16_t", 1e-2), (np.int32, "int", 0)],
)
def test_binary_operations(
    mlx_library: LoadAll, dtype: type[np.generic], metal: str, tolerance: float
) -> None:
    skipped = ("Power", "LogAddExp", "ArcTan2", "Divide") if dtype == np.int32 else ()
    names = [op for op in BINARY if op not in skipped]
    kernels = {op: ("binary_vv", f"{metal}, {metal}, {op}") for op in names}
    library = mlx_library(["binary_ops.h", "binary.h"], kernels)
    rng = np.random.default_rng(4)
    scale = 9 if dtype == np.int32 else 2
    a, b = ((rng.uniform(0.5, scale, 101) + 1).astype(dtype) for _ in range(2))
    for op in names:
        out = np.zeros(101, dtype)
        library.kernel(op).launch([a, b, out, 101], grid=(64, 1, 1), threadgroup=(64, 1, 1))
        expected = _cpu(BINARY[op](_mlx(a), _mlx(b)))
        np.testing.assert_allclose(
            out.astype(np.float64),
            expected.astype(np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=op,
        )


def test_binary_comparisons_broadcast_over_strides(mlx_kernel: Load) -> None:
    a, b = np.arange(24, dtype=np.float32).reshape(4, 6), np.full(6, 11, np.float32)
    out = np.zeros((4, 6), np.bool_)
    kernel = mlx_kernel(["binary_ops.h", "binary.h"], "binary_g_nd2", ["float", "bool", "Less"])
    strides = np.array([6, 1], np.int64), np.array([0, 1], np.int64)
    kernel.launch([a, b, out, *strides], grid=(6, 4, 1), threadgroup=(6, 4, 1))
    np.testing.assert_array_equal(out, a < b)


def test_divmod_writes_two_outputs(mlx_kernel: Load) -> None:
    a, b = np.arange(-20, 20, dtype=np.int32), np.full(40, 7, np.int32)
    quotient, remainder = np.zeros((2, 40), np.int32)
    kernel = mlx_kernel(["binary_ops.h", "binary_two.h"], "binary_vv", ["int", "int", "DivMod"])
    kernel.launch([a, b, quotient, remainder, 40], grid=(20, 1, 1), threadgroup=(20, 1, 1))
    expected = mx.divmod(mx.array(a), mx.array(b))
    np.testing.assert_array_equal(quotient, _cpu(expected[0]))
    np.testing.assert_array_equal(remainder, _cpu(expected[1]))


def test_select(mlx_kernel: Load) -> None:
    condition = np.arange(50) % 3 == 0
    b, c = np.arange(50, dtype=np.float32), np.full(50, -1, np.float32)
    out = np.zeros(50, np.float32)
    arguments = ["float", "Select", False, False]
    kernel = mlx_kernel(["ternary_ops.h", "ternary.h"], "ternary_v", arguments)
    kernel.launch([condition, b, c, out, 50], grid=(25, 1, 1), threadgroup=(25, 1, 1))
    np.testing.assert_array_equal(out, np.where(condition, b, c))


@pytest.mark.parametrize(
    ("source", "target", "metal"),
    [
        (np.float32, ml_dtypes.bfloat16, "float, bfloat16_t"),
        (np.float32, np.bool_, "float, bool"),
        (np.uint8, np.float16, "uint8_t, half"),
        (np.float32, np.complex64, "float, complex64_t"),
        (ml_dtypes.bfloat16, np.float16, "bfloat16_t, half"),
    ],
)
@pytest.mark.sampled(3)
def test_copies_convert_and_transpose(
    mlx_kernel: Load, source: type[np.generic], target: type[np.generic], metal: str
) -> None:
    x = np.random.default_rng(5).integers(0, 3, (5, 7, 3)).astype(source)
    out = np.zeros((3, 5, 7), target)
    shape, strides = np.array([3, 5, 7], np.int32), np.array([1, 21, 3], np.int64)
    kernel = mlx_kernel(["copy.h"], "copy_g", [*metal.split(", "), 1, "int"])
    kernel.launch([x, out, shape, strides, 3], grid=(7, 5, 3), threadgroup=(7, 5, 3))
    np.testing.assert_array_equal(out, x.transpose(2, 0, 1).astype(target))


def test_arange(mlx_kernel: Load) -> None:
    out = np.zeros(100, np.float32)
    kernel = mlx_kernel(["arange.h"], "arange", ["float"])
    kernel.launch([np.float32(2), np.float32(0.5), out], grid=(100, 1, 1), threadgroup=(32, 1, 1))
    np.testing.assert_array_equal(out, _cpu(mx.arange(2, 52, 0.5)))


def test_gather_axis(mlx_kernel: Load) -> None:
    x = np.random.default_rng(6).standard_normal((4, 9, 5)).astype(np.float32)
    index = np.random.default_rng(7).integers(-9, 9, (4, 3, 5)).astype(np.int32)
    out = np.zeros((4, 3, 5), np.float32)
    kernel = mlx_kernel(
        ["indexing/gather_axis.h"], "gather_axis", ["float", "int", "int", True, True]
    )
    one = np.zeros(2, np.int64)
    kernel.launch(
        [x, index, out, np.array([4, 5], np.int32), one, one, 2, 1, 9, 5, 5],
        grid=(5, 3, 4),
        threadgroup=(5, 3, 4),
    )
    expected = mx.take_along_axis(mx.array(x), mx.array(index), axis=1)
    np.testing.assert_array_equal(out, _cpu(expected))


def test_searchsorted(mlx_kernel: Load) -> None:
    a = np.sort(np.random.default_rng(8).standard_normal(50)).astype(np.float32)
    v = np.random.default_rng(9).standard_normal(40).astype(np.float32)
    out = np.zeros(40, np.uint32)
    kernel = mlx_kernel(["sort.h", "searchsorted.h"], "searchsorted", ["float", False])
    kernel.launch([a, v, out, 50, 1], grid=(40, 1, 1), threadgroup=(40, 1, 1))
    np.testing.assert_array_equal(out, np.searchsorted(a, v))


SCATTER = """
[[kernel]] void scatter_add(
    const device float* updates [[buffer(0)]], device mlx_atomic<float>* out [[buffer(1)]],
    const constant int* upd_shape [[buffer(2)]], const constant int64_t* upd_strides [[buffer(3)]],
    const constant size_t& upd_ndim [[buffer(4)]], const constant size_t& upd_size [[buffer(5)]],
    const constant int* out_shape [[buffer(6)]], const constant int64_t* out_strides [[buffer(7)]],
    const constant size_t& out_ndim [[buffer(8)]], const constant int* axes [[buffer(9)]],
    const constant int* shapes [[buffer(10)]], const constant int64_t* strides [[buffer(11)]],
    const constant int& idx_ndim [[buffer(12)]], const constant size_t& idx_size [[buffer(13)]],
    const constant bool* row_contiguous [[buffer(14)]], const device int* idx0 [[buffer(20)]],
    uint2 gid [[thread_position_in_grid]]) {
  Indices<int, 1> idxs{{{idx0}}, shapes, strides, row_contiguous, idx_ndim};
  scatter_impl<float, int, Sum<float>, 1, true, 2, int>(
      updates, out, upd_shape, upd_strides, upd_ndim, upd_size, out_shape, out_strides, out_ndim,
      axes, idx_size, idxs, gid);
}
"""


def test_scatter_adds_atomically(mlx_library: LoadAll) -> None:
    rng = np.random.default_rng(10)
    index = rng.integers(-8, 8, 300).astype(np.int32)
    updates = rng.integers(0, 9, (300, 6)).astype(np.float32)
    out = np.zeros((8, 6), np.float32)
    headers = ["atomic.h", "reduction/ops.h", "indexing/scatter.h"]
    shape, strides = np.array([300, 1, 6], np.int32), np.array([6, 6, 1], np.int64)
    kernel = mlx_library(headers, {}, SCATTER).kernel("scatter_add")
    kernel.launch(
        {
            0: updates,
            1: out,
            2: shape,
            3: strides,
            4: 3,
            5: 6,
            6: np.array([8, 6], np.int32),
            7: np.array([6, 1], np.int64),
            8: 2,
            9: np.array([0], np.int32),
            10: np.array([300], np.int32),
            11: np.array([1], np.int64),
            12: 1,
            13: 300,
            14: np.array([True]),
            20: index,
        },
        grid=(6, 150, 1),
        threadgroup=(6, 30, 1),
    )
    expected = mx.zeros((8, 6)).at[mx.array(index)].add(mx.array(updates))
    np.testing.assert_array_equal(out, _cpu(expected))
