"""MLX's own attention kernels against MLX on the CPU."""

import struct
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device.simulator.library import SimulatedKernel

Load = Callable[..., SimulatedKernel]
Floats = NDArray[np.floating]
METAL = {np.float32: "float", np.float16: "half"}
SDPA = {
    "has_mask": False,
    "query_transposed": False,
    "bool_mask": False,
    "float_mask": False,
    "has_sinks": False,
}


def _random(*shape: int, dtype: type[np.float32 | np.float16], seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _expected(q: Floats, k: Floats, v: Floats, scale: float, mask: str | None) -> Floats:
    with mx.stream(mx.cpu):
        arrays = (mx.array(a.astype(np.float32)) for a in (q, k, v))
        result = mx.fast.scaled_dot_product_attention(*arrays, scale=scale, mask=mask)
        mx.eval(result)
    return np.array(result)


@pytest.mark.parametrize(
    ("dtype", "causal", "tolerance"), [(np.float32, False, 2e-6), (np.float16, True, 3e-3)]
)
@pytest.mark.sampled(1)
def test_attention_of_few_queries(
    mlx_kernel: Load, dtype: type[np.float32 | np.float16], causal: bool, tolerance: float
) -> None:
    heads, groups, queries, keys, width, scale = 4, 2, 3, 70, 64, 0.125
    q = _random(1, heads, queries, width, dtype=dtype, seed=1)
    k, v = (_random(1, heads // groups, keys, width, dtype=dtype, seed=s) for s in (2, 3))
    out = np.zeros_like(q)
    kernel = mlx_kernel(
        ["sdpa_vector.h"], "sdpa_vector", [METAL[dtype], width], SDPA | {"do_causal": causal}
    )
    strides = [keys * width, width, keys * width, width]
    kernel.launch(
        dict(enumerate([q, k, v, out, groups, keys, *strides, scale])),
        grid=(heads * 1024, queries, 1),
        threadgroup=(1024, 1, 1),
    )
    expected = _expected(q, k, v, scale, "causal" if causal else None)
    np.testing.assert_allclose(out.astype(np.float32), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "length", "causal", "tolerance"),
    [(np.float32, 64, False, 2e-6), (np.float16, 45, True, 3e-3)],
)
@pytest.mark.sampled(1)
def test_steel_attention(
    mlx_kernel: Load,
    dtype: type[np.float32 | np.float16],
    length: int,
    causal: bool,
    tolerance: float,
) -> None:
    batch, heads, width, scale = 1, 2, 64, 0.125
    q, k, v = (_random(batch, heads, length, width, dtype=dtype, seed=s) for s in (1, 2, 3))
    out = np.zeros_like(q)
    bq, bk = 32, 16
    nq, nk = -(-length // bq), -(-length // bk)
    strides = [heads * length * width, length * width, width] * 4
    parameters = struct.pack(
        "6if7i12q",
        batch,
        heads,
        width,
        length,
        length,
        1,
        scale,
        nq,
        nk,
        length // bq,
        length // bk,
        length % bq,
        length % bk,
        0,
        *strides,
    )
    constants = {
        "align_Q": length % bq == 0,
        "align_K": length % bk == 0,
        "has_mask": False,
        "do_causal": causal,
        "has_sinks": False,
        "save_lse": False,
    }
    arguments = [METAL[dtype], bq, bk, width, width, 4, 1]
    kernel = mlx_kernel(["steel/attn/kernels/steel_attention.h"], "attention", arguments, constants)
    kernel.launch(
        {0: q, 1: k, 2: v, 3: out, 4: parameters},
        grid=(nq * 32, heads * 4, batch),
        threadgroup=(32, 4, 1),
    )
    expected = _expected(q, k, v, scale, "causal" if causal else None)
    np.testing.assert_allclose(out.astype(np.float32), expected, rtol=tolerance, atol=tolerance)
