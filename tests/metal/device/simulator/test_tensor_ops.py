"""Tensor operations of M5: products of cooperative tensors and of tensors in memory."""

import struct
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator.library import SimulatedKernel

Load = Callable[..., SimulatedKernel]
Halves = NDArray[np.float16]
_NAX = ["steel/gemm/gemm_nax.h"]


def _random(*shape: int, seed: int) -> Halves:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def _product(a: Halves, b: Halves, ta: bool, tb: bool) -> NDArray[np.float64]:
    left, right = (x.astype(np.float64) for x in (a, b))
    return (left.T if ta else left) @ (right.T if tb else right)


def _parameters(m: int, n: int, k: int, a: Halves, b: Halves, tiles: int, steps: int) -> bytes:
    counts = (tiles, 1, m * k, k * n, m * n, 0, steps, 1)
    return struct.pack("8i3q3i4x", m, n, k, a.shape[1], b.shape[1], n, *counts)


def test_mlx_gemm_for_neural_accelerators(mlx_kernel: Load) -> None:
    m, n, k, ta, tb = 20, 25, 40, False, True
    a, b = _random(m, k, seed=0), _random(n, k, seed=1)
    out = np.zeros((m, n), np.float16)
    flags = dict.fromkeys(("has_batch", "use_out_source", "do_axpby"), False)
    aligned = {"align_M": m % 32 == 0, "align_N": n % 32 == 0, "align_K": k % 32 == 0}
    headers = [*_NAX, "steel/gemm/kernels/steel_gemm_fused_nax.h"]
    kernel = mlx_kernel(headers, "gemm", ["half", 32, 32, 32, 1, 1, ta, tb], flags | aligned)
    kernel.launch(
        {0: a, 1: b, 3: out, 4: _parameters(m, n, k, a, b, 1, k // 32)},
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
    )
    np.testing.assert_allclose(out, _product(a, b, ta, tb), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(("m", "n", "k", "tb"), [(16, 32, 64, True), (13, 40, 80, False)])
@pytest.mark.sampled(1)
def test_mlx_thin_gemm_reads_tensors_in_memory(
    mlx_kernel: Load, m: int, n: int, k: int, tb: bool
) -> None:
    a, b = _random(m, k, seed=0), _random(*((n, k) if tb else (k, n)), seed=1)
    out = np.zeros((m, n), np.float16)
    flags = dict.fromkeys(("use_out_source", "do_axpby"), False)
    aligned = {"align_M": m % 16 == 0, "align_N": n % 32 == 0, "align_K": k % 64 == 0}
    headers = [*_NAX, "steel/gemm/kernels/steel_gemm_thin_nax.h"]
    arguments = ["half", 1, 2, 1, 1, 2, tb]
    columns = -(-n // 32)
    mlx_kernel(headers, "gemm_thin_nax", arguments, flags | aligned).launch(
        {0: a, 1: b, 3: out, 4: _parameters(m, n, k, a, b, columns, 1)},
        grid=(64 * columns, 1, 1),
        threadgroup=(64, 1, 1),
    )
    np.testing.assert_allclose(out, _product(a, b, False, tb), rtol=2e-2, atol=2e-2)


_TEXT = """#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
using sizes = dextents<int32_t, 2>;
kernel void k(device half* a [[buffer(0)]], device half* b [[buffer(1)]],
    device float* c [[buffer(2)]]) {{
  constexpr auto desc = matmul2d_descriptor(16, 32, dynamic_length_v<int>, {ta}, {tb}, false,
      matmul2d_descriptor::mode::{mode});
  matmul2d<desc, execution_simdgroup> op;
  auto A = tensor<device half, sizes, tensor_inline>(a, sizes({wa}));
  auto B = tensor<device half, sizes, tensor_inline>(b, sizes({wb}));
  auto C = tensor<device float, sizes, tensor_inline>(c, sizes(30, 16), array<int, 2>{{1, 32}});
  op.run(A, B, C);
}}
"""


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("mode", ["multiply", "multiply_accumulate"])
@pytest.mark.sampled(4)
def test_tensors_are_multiplied_up_to_their_edges(ta: bool, tb: bool, mode: str) -> None:
    a = _random(*((40, 16) if ta else (16, 40)), seed=2)
    b = _random(*((32, 40) if tb else (40, 32)), seed=3)
    c = np.ones((16, 32), np.float32)
    text = _TEXT.format(
        ta=str(ta).lower(), tb=str(tb).lower(), mode=mode,
        wa="16, 40" if ta else "40, 16", wb="40, 32" if tb else "32, 40",
    )  # fmt: skip
    outcome = (
        simulator.compile(text)
        .kernel("k")
        .launch({"a": a, "b": b, "c": c}, grid=(32, 1, 1), threadgroup=(32, 1, 1), sanitize=True)
    )
    assert outcome.reports == ()
    expected = _product(a, b, ta, tb) + (mode != "multiply")
    expected[:, 30:] = 1
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


_SLICED = """
  auto A = tensor<device half, sizes, tensor_inline>(a, sizes(32, 32));
  auto B = tensor<device half, sizes, tensor_inline>(b, sizes(64, 32));
  auto C = tensor<device float, sizes, tensor_inline>(c, sizes(64, 32));
  auto sa = A.slice(0, tg.y * 16);
  auto sb = B.slice(tg.x * 32, 0);
  auto sc = C.slice(tg.x * 32, tg.y * 16);
  op.run(sa, sb, sc);
}
"""


def test_a_slice_without_sizes_goes_on_to_the_end() -> None:
    text = _TEXT.format(ta="false", tb="false", mode="multiply", wa="32, 32", wb="64, 32")
    head = text.replace(
        "[[buffer(2)]])", "[[buffer(2)]], uint2 tg [[threadgroup_position_in_grid]])"
    )
    a, b = _random(32, 32, seed=4), _random(32, 64, seed=5)
    c = np.zeros((32, 64), np.float32)
    kernel = simulator.compile(head[: head.index("  auto A")] + _SLICED).kernel("k")
    kernel.launch({"a": a, "b": b, "c": c}, grid=(64, 2, 1), threadgroup=(32, 1, 1))
    np.testing.assert_allclose(c, _product(a, b, False, False), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "accelerated"), [(np.float16, 32), (np.float32, 0)])
def test_products_are_counted(dtype: type[np.generic], accelerated: int) -> None:
    text = _TEXT.format(ta="false", tb="true", mode="multiply", wa="32, 16", wb="32, 32")
    text = text if dtype is np.float16 else text.replace("device half", "device float")
    outcome = simulator.compile(text).kernel("k").launch(
        {
            "a": _random(16, 32, seed=0).astype(dtype),
            "b": _random(32, 32, seed=1).astype(dtype),
            "c": np.zeros((16, 32), np.float32),
        },
        grid=(32, 1, 1), threadgroup=(32, 1, 1), count=True,
    )  # fmt: skip
    assert outcome.counters is not None
    assert outcome.counters.matrix_operations == 2 * 4 * 4
    assert outcome.counters.tensor_operations == accelerated
