"""The sanitizer is silent on MLX's own kernels, launched as MLX launches them."""

import struct
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device import simulator

_KERNELS = "mlx/backend/metal/kernels/"
Array = NDArray[np.generic] | np.generic
_RNG = np.random.default_rng(0)
_X = _RNG.standard_normal((24, 1000), dtype=np.float32)


def _sanitized(
    headers: list[str],
    instance: str,
    buffers: Mapping[str | int, Array],
    grid: tuple[int, int, int],
    threadgroup: tuple[int, int, int],
    *,
    define: str = "",
    constants: Mapping[int | str, bool] | None = None,
    fresh: str = "out",
) -> None:
    includes = "".join(f'#include "{_KERNELS}{h}"\n' for h in ["utils.h", *headers])
    library = simulator.compile(
        define + includes + f'instantiate_kernel("k", {instance})', variant="sanitize"
    )
    outcome = library.kernel("k", constants).launch(
        dict(buffers),
        grid=grid,
        threadgroup=threadgroup,
        fresh=[fresh],
        sanitize=True,
        order_seed=1,
    )
    assert outcome.reports == ()


@pytest.mark.parametrize(
    ("kernel", "threads"), [("softmax_single_row", 256), ("softmax_looped", 1024)]
)
def test_softmax(kernel: str, threads: int) -> None:
    out = np.zeros_like(_X)

    _sanitized(
        ["softmax.h"],
        f"{kernel}, float, float",
        {"in": _X, "out": out, "axis_size": np.int32(1000)},
        (24 * threads, 1, 1),
        (threads, 1, 1),
        define="#define SOFTMAX_N_READS 4\n",
    )

    e = np.exp(_X - _X.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_scan_that_loads_partial_sums_nobody_wrote() -> None:
    out = np.zeros_like(_X)

    _sanitized(
        ["binary_ops.h", "scan.h"],
        "contiguous_scan, float, float, CumSum<float>, 4, true, false",
        {"in": _X, "out": out, "axis_size": np.uint64(1000)},
        (256, 1, 24),
        (256, 1, 1),
    )

    np.testing.assert_allclose(out, _X.cumsum(1), atol=1e-3)


def test_attention_of_one_query() -> None:
    heads, length = 3, 70
    q = _RNG.standard_normal((heads, 64), dtype=np.float32)
    k, v = (_RNG.standard_normal((heads, length, 64), dtype=np.float32) for _ in range(2))
    out = np.zeros_like(q)

    _sanitized(
        ["sdpa_vector.h"],
        "sdpa_vector, float, 64, 64",
        {
            "queries": q,
            "keys": k,
            "values": v,
            "out": out,
            "gqa_factor": np.int32(1),
            "N": np.int32(length),
            "scale": np.float32(0.125),
            "k_head_stride": np.uint64(length * 64),
            "k_seq_stride": np.uint64(64),
            "v_head_stride": np.uint64(length * 64),
            "v_seq_stride": np.uint64(64),
        },
        (heads * 1024, 1, 1),
        (1024, 1, 1),
        constants=dict.fromkeys(range(20, 26), False),
    )

    scores = np.einsum("hd,hnd->hn", q, k) * 0.125
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    np.testing.assert_allclose(out, np.einsum("hn,hnd->hd", weights, v), atol=1e-5)


def test_steel_gemm() -> None:
    a = _RNG.standard_normal((128, 64)).astype(np.float16)
    b = _RNG.standard_normal((64, 128)).astype(np.float16)
    d = np.zeros((128, 128), np.float16)
    # GEMMParams of steel/gemm/params.h: sizes, strides, tiles, batch strides, swizzle, iterations.
    params = struct.pack("8i3q3i4x", 128, 128, 64, 64, 128, 128, 2, 2, 0, 0, 0, 0, 4, 1)

    _sanitized(
        ["steel/gemm/gemm.h", "steel/gemm/kernels/steel_gemm_fused.h"],
        "gemm, half, 64, 64, 16, 2, 2, false, false, float",
        {"A": a, "B": b, "D": d, "params": np.frombuffer(params, np.uint8)},
        (2 * 32, 2 * 2, 2),
        (32, 2, 2),
        constants={10: False, 100: False, 110: False, 200: True, 201: True, 202: True},
        fresh="D",
    )

    np.testing.assert_allclose(d, a.astype(np.float32) @ b.astype(np.float32), atol=0.02)
