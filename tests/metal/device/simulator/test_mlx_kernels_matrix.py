"""MLX's own matrix kernels, quantized ones and transforms, against MLX on the CPU."""

import struct
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import Argument, SimulatedKernel
from kernelwright.metal.diagnostic import ReportKind, SanitizerReport

Load = Callable[..., SimulatedKernel]
Floats = NDArray[np.floating]
METAL = {np.float32: "float", np.float16: "half"}
NO_BATCH = np.zeros(1, np.int64)
ONE = np.ones(1, np.int32)


def _cpu(array: mx.array) -> Array:
    with mx.stream(mx.cpu):
        mx.eval(array)
    return np.array(array)


def _random(
    *shape: int, dtype: type[np.float32 | np.float16] = np.float32, seed: int = 0
) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _close(found: Array, expected: Array, tolerance: float) -> None:
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gemv(mlx_kernel: Load, dtype: type[np.float32 | np.float16]) -> None:
    m, v = _random(50, 300, dtype=dtype), _random(300, dtype=dtype, seed=1)
    bias, out = _random(50, dtype=dtype, seed=2), np.zeros(50, dtype)
    arguments = [METAL[dtype], 4, 1, 1, 32, 4, 4, False, True]
    mlx_kernel(["gemv.h"], "gemv", arguments).launch(
        [m, v, bias, out, 300, 50, 300, 2.0, 0.5, 1, ONE, NO_BATCH, NO_BATCH, NO_BATCH, 1],
        grid=(4 * 32, 1, 4),
        threadgroup=(32, 1, 4),
    )
    expected = 2 * (m.astype(np.float64) @ v) + 0.5 * bias
    _close(out, expected, 2e-2 if dtype == np.float16 else 1e-5)


def test_gemv_transposed(mlx_kernel: Load) -> None:
    m, v, out = _random(90, 64), _random(90, seed=1), np.zeros(64, np.float32)
    arguments = ["float", 1, 2, 8, 4, 4, 4, False, False]
    mlx_kernel(["gemv.h"], "gemv_t", arguments).launch(
        [m, v, v, out, 90, 64, 64, 1.0, 0.0, 1, ONE, NO_BATCH, NO_BATCH, NO_BATCH, 1],
        grid=(2 * 32, 2, 1),
        threadgroup=(32, 2, 1),
    )
    _close(out, _cpu(mx.array(v) @ mx.array(m)), 1e-5)


@pytest.mark.parametrize(
    ("dtype", "m", "n", "k", "ta", "tb"),
    [
        pytest.param(np.float32, 64, 64, 32, False, False, marks=pytest.mark.slow),
        (np.float32, 45, 70, 27, True, False),
        (np.float16, 33, 64, 48, False, True),
        pytest.param(np.float16, 64, 40, 40, True, True, marks=pytest.mark.slow),
    ],
)
@pytest.mark.sampled(1)
def test_steel_gemm(
    mlx_kernel: Load,
    dtype: type[np.float32 | np.float16],
    m: int,
    n: int,
    k: int,
    ta: bool,
    tb: bool,
) -> None:
    a = _random(2, *((k, m) if ta else (m, k)), dtype=dtype)
    b = _random(2, *((n, k) if tb else (k, n)), dtype=dtype, seed=1)
    out = np.zeros((2, m, n), dtype)
    tiles_n, tiles_m = -(-n // 32), -(-m // 32)
    parameters = struct.pack(
        "8i3q3i4x",
        m,
        n,
        k,
        a.shape[2],
        b.shape[2],
        n,
        tiles_n,
        tiles_m,
        m * k,
        k * n,
        m * n,
        0,
        k // 16,
        1,
    )
    constants = {
        "has_batch": False,
        "use_out_source": False,
        "do_axpby": False,
        "align_M": m % 32 == 0,
        "align_N": n % 32 == 0,
        "align_K": k % 16 == 0,
    }
    headers = ["steel/gemm/gemm.h", "steel/gemm/kernels/steel_gemm_fused.h"]
    kernel = mlx_kernel(headers, "gemm", [METAL[dtype], 32, 32, 16, 2, 2, ta, tb], constants)
    kernel.launch(
        {0: a, 1: b, 3: out, 4: parameters},
        grid=(tiles_n * 32, tiles_m * 2, 2 * 2),
        threadgroup=(32, 2, 2),
    )
    left, right = a.swapaxes(1, 2) if ta else a, b.swapaxes(1, 2) if tb else b
    expected = left.astype(np.float64) @ right.astype(np.float64)
    _close(out, expected, 2e-2 if dtype == np.float16 else 1e-5)


QUANTIZED = ["steel/gemm/gemm.h", "quantized_utils.h", "quantized.h"]


def _quantized(n: int, k: int, group: int, bits: int) -> tuple[Array, Array, Array]:
    w, scales, biases = mx.quantize(mx.array(_random(n, k)), group_size=group, bits=bits)
    return _cpu(w), _cpu(scales), _cpu(biases)


@pytest.mark.parametrize(
    ("kernel", "k", "group", "bits"),
    [
        ("affine_qmv_fast", 512, 64, 4),
        ("affine_qmv", 192, 64, 4),
        ("affine_qmv_fast", 512, 32, 8),
        ("affine_qmv", 128, 64, 3),
    ],
)
@pytest.mark.sampled(1)
def test_quantized_matrix_vector(
    mlx_kernel: Load, kernel: str, k: int, group: int, bits: int
) -> None:
    n = 24
    w, scales, biases = _quantized(n, k, group, bits)
    x, out = _random(2, k, seed=3), np.zeros((2, n), np.float32)
    batch: list[Argument] = [0, ONE, NO_BATCH, 0, ONE, NO_BATCH, NO_BATCH, NO_BATCH]
    mlx_kernel(QUANTIZED, kernel, ["float", group, bits, False]).launch(
        [w, scales, biases, x, out, k, n, *batch], grid=(2 * 32, 3 * 2, 1), threadgroup=(32, 2, 1)
    )
    a, b, c, d = (mx.array(each) for each in (x, w, scales, biases))
    _close(out, _cpu(mx.quantized_matmul(a, b, c, d, group_size=group, bits=bits)), 2e-5)


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.sampled(1)
def test_quantized_matrix_matrix(mlx_kernel: Load, transposed: bool) -> None:
    m, n, k = 40, 64, 128
    w, scales, biases = _quantized(*((n, k) if transposed else (k, n)), 64, 4)
    x, out = _random(m, k, seed=3), np.zeros((m, n), np.float32)
    batch: list[Argument] = [0, ONE, NO_BATCH, 0, ONE, NO_BATCH, NO_BATCH, NO_BATCH]
    arguments = ["float", 64, 4, True, False] if transposed else ["float", 64, 4, False]
    mlx_kernel(QUANTIZED, f"affine_qmm_{'t' if transposed else 'n'}", arguments).launch(
        [w, scales, biases, x, out, k, n, m, *batch],
        grid=(2 * 32, 2 * 2, 2),
        threadgroup=(32, 2, 2),
    )
    a, b, c, d = (mx.array(each) for each in (x, w, scales, biases))
    expected = mx.quantized_matmul(a, b, c, d, transpose=transposed, group_size=64, bits=4)
    _close(out, _cpu(expected), 2e-5)


def test_quantize_as_mlx_does(mlx_kernel: Load) -> None:
    x = _random(8, 128)
    w, scales, biases = np.zeros((8, 16), np.uint32), *np.zeros((2, 8, 2), np.float32)
    mlx_kernel(QUANTIZED, "affine_quantize", ["float", 64, 4]).launch(
        [x, w.view(np.uint8), scales, biases], grid=(512, 1, 1), threadgroup=(64, 1, 1)
    )
    a, b, c = (mx.array(each) for each in (w, scales, biases))
    found = mx.dequantize(a, b, c, group_size=64, bits=4)
    a, b, c = mx.quantize(mx.array(x), group_size=64, bits=4)
    expected = mx.dequantize(a, b, c, group_size=64, bits=4)
    _close(_cpu(found), _cpu(expected), 1e-5)


def _convolve(
    kernel: SimulatedKernel, o: int, stride: int, padding: int, dilation: int, *, sanitize: bool
) -> tuple[SanitizerReport, ...]:
    """Compare a convolution of `o` output channels with MLX's, in tiles of 32."""
    n, h, w, c, f = 2, 12, 11, 32, 3
    x, weight = _random(n, h, w, c), _random(o, f, f, c, seed=1)
    oh, ow = ((s + 2 * padding - dilation * (f - 1) - 1) // stride + 1 for s in (h, w))
    out = np.zeros((n, oh, ow, o), np.float32)
    strides = [*(s // 4 for a in (x, weight, out) for s in a.strides)]
    convolution = struct.pack(
        "17i4x12qi?3x",
        n,
        c,
        o,
        h,
        w,
        f,
        f,
        oh,
        ow,
        *[stride] * 2,
        *[padding] * 2,
        *[dilation] * 2,
        1,
        1,
        *strides,
        1,
        False,
    )
    m, k = n * oh * ow, f * f * c
    jump_w, jump_h = c * dilation, w * c * dilation
    gemm = struct.pack(
        "10i",
        m,
        o,
        k,
        f * f * 2,
        jump_w,
        jump_h - (f - 1) * jump_w,
        16 - (f - 1) * jump_h - (f - 1) * jump_w,
        -(-o // 32),
        -(-m // 32),
        0,
    )
    outcome = kernel.launch(
        [x, weight, out, convolution, gemm],
        grid=(-(-o // 32) * 32, -(-m // 32) * 2, 2),
        threadgroup=(32, 2, 2),
        sanitize=sanitize,
    )
    expected = mx.conv2d(mx.array(x), mx.array(weight), stride, padding, dilation)
    _close(out, _cpu(expected), 2e-5)
    return outcome.reports


CONVOLUTION = ["steel/gemm/gemm.h", "steel/conv/conv.h", "steel/conv/kernels/steel_conv.h"]
TILES = ["float", 32, 32, 16, 2, 2, 0, True]


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 1, 1), (2, 0, 2)])
def test_implicit_gemm_convolution(
    mlx_kernel: Load, stride: int, padding: int, dilation: int
) -> None:
    kernel = mlx_kernel(CONVOLUTION, "implicit_gemm_conv_2d", TILES)
    _convolve(kernel, 64, stride, padding, dilation, sanitize=False)


def test_convolution_reads_beyond_the_weights_of_a_ragged_tile(mlx_kernel: Load) -> None:
    """Its loader of weights checks no row; what it reads there is never stored."""
    kernel = mlx_kernel(CONVOLUTION, "implicit_gemm_conv_2d", TILES)
    reports = _convolve(_unwatched(kernel), 40, 1, 1, 1, sanitize=True)
    assert {(r.kind, r.variable) for r in reports} == {(ReportKind.DEVICE_OUT_OF_BOUNDS, "B")}


def test_hadamard(mlx_kernel: Load) -> None:
    x, out = _random(3, 128), np.zeros((3, 128), np.float32)
    kernel = mlx_kernel(["steel/defines.h", "hadamard.h"], "hadamard_n", ["float", 128, 16, 4])
    kernel.launch([x, out, 128**-0.5], grid=(8, 3, 1), threadgroup=(8, 1, 1))
    _close(out, _cpu(mx.hadamard_transform(mx.array(x))), 1e-6)


RADIX_CONSTANT = {13: 4, 11: 5, 8: 6, 7: 7, 6: 8, 5: 9, 4: 10, 3: 11, 2: 12}


def _fft_kernel(
    load: Load, n: int, radices: list[int], per_thread: int, *, inverse: bool = False
) -> SimulatedKernel:
    constants: dict[int, int] = dict.fromkeys(range(22), 0)
    constants |= {0: int(inverse), 1: int(n & (n - 1) == 0), 2: per_thread, 3: n}
    for radix in radices:
        constants[RADIX_CONSTANT[radix]] += 1
    return load(["fft.h"], "fft", [256, "float2", "float2"], constants)


def _transform(
    kernel: SimulatedKernel,
    x: NDArray[np.complex64],
    per_thread: int,
    *,
    inverse: bool = False,
    sanitize: bool = False,
) -> tuple[SanitizerReport, ...]:
    """Compare the transforms of rows with MLX's, as many in a threadgroup as MLX puts there."""
    rows, n = x.shape
    out = np.zeros_like(x)
    threads, batch = -(-n // per_thread), 256 // n
    grid = (-(-rows // batch), batch, threads)
    outcome = kernel.launch(
        [x, out, n, rows], grid=grid, threadgroup=(1, batch, threads), sanitize=sanitize
    )
    reference = mx.fft.ifft if inverse else mx.fft.fft
    np.testing.assert_allclose(
        out, _cpu(reference(mx.array(x))).astype(np.complex64), rtol=2e-5, atol=2e-5
    )
    return outcome.reports


def _waves(rows: int, n: int) -> NDArray[np.complex64]:
    return (_random(rows, n) + 1j * _random(rows, n, seed=1)).astype(np.complex64)


@pytest.mark.parametrize(
    ("n", "radices", "per_thread", "inverse"),
    [
        (64, [4, 4, 4], 4, False),
        (60, [6, 5, 2], 5, True),
        (77, [11, 7], 7, False),
        pytest.param(64, [4, 4, 4], 4, True, marks=pytest.mark.slow),
        pytest.param(60, [6, 5, 2], 5, False, marks=pytest.mark.slow),
        pytest.param(77, [11, 7], 7, True, marks=pytest.mark.slow),
    ],
)
@pytest.mark.sampled(1)
def test_fft(mlx_kernel: Load, n: int, radices: list[int], per_thread: int, inverse: bool) -> None:
    kernel = _fft_kernel(mlx_kernel, n, radices, per_thread, inverse=inverse)
    _transform(kernel, _waves(2 * (256 // n), n), per_thread, inverse=inverse)


def test_fft_of_a_ragged_batch_returns_before_its_barriers(mlx_kernel: Load) -> None:
    """Metal asks all threads of a threadgroup to reach a barrier, those without a row too."""
    kernel = _unwatched(_fft_kernel(mlx_kernel, 64, [4, 4, 4], 4))
    reports = _transform(kernel, _waves(5, 64), 4, sanitize=True)
    assert {r.kind for r in reports} == {ReportKind.DIVERGENT_BARRIER}


def _unwatched(kernel: SimulatedKernel) -> SimulatedKernel:
    """Return a kernel that is launched once, with whatever there is to report."""
    return SimulatedKernel(kernel.library, kernel.name, kernel.constants)
