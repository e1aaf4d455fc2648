"""Simdgroup, quadgroup, atomic and simdgroup_matrix functions against NumPy."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device.executable import Array

Probe = Callable[..., dict[str, Array]]
Floats = NDArray[np.float32]
LANES = np.arange(32)


def _groups(width: int, f: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """Apply a function to each group of lanes along the last axis."""
    return lambda x: np.concatenate(
        [np.broadcast_to(f(part), part.shape) for part in np.split(x, x.shape[-1] // width, -1)], -1
    )


def _reduction(f: Callable[..., Floats], width: int) -> Callable[[Floats], Floats]:
    return _groups(width, lambda x: f(x, axis=-1, keepdims=True))


def _exclusive(f: Callable[..., Floats], start: float) -> Callable[[Floats], Floats]:
    return lambda x: np.concatenate([np.full_like(x[:, :1], start), f(x, axis=-1)[:, :-1]], -1)


def _from(lane: Array) -> Callable[[Floats], Floats]:
    return lambda x: x[:, lane]


def _filled(step: int, modulo: int) -> Callable[[Floats], Floats]:
    place = LANES % modulo + step
    source = LANES // modulo * modulo + place % modulo
    outside = (place < 0) | (place >= modulo)
    return lambda x: np.where(outside, 100 + source, x[:, source])


def _neighbour(step: int, width: int) -> Array:
    place = LANES % width + step
    return np.where((place < 0) | (place >= width), LANES, LANES + step)


FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "simd_sum(v)": _reduction(np.sum, 32),
    "simd_product(v)": _reduction(np.prod, 32),
    "simd_max(v)": _reduction(np.max, 32),
    "simd_min(v)": _reduction(np.min, 32),
    "quad_sum(v)": _reduction(np.sum, 4),
    "quad_product(v)": _reduction(np.prod, 4),
    "quad_max(v)": _reduction(np.max, 4),
    "quad_min(v)": _reduction(np.min, 4),
    "simd_prefix_inclusive_sum(v)": lambda x: np.cumsum(x, -1),
    "simd_prefix_exclusive_sum(v)": _exclusive(np.cumsum, 0),
    "simd_prefix_inclusive_product(v)": lambda x: np.cumprod(x, -1),
    "simd_prefix_exclusive_product(v)": _exclusive(np.cumprod, 1),
    "quad_prefix_inclusive_sum(v)": _groups(4, lambda x: np.cumsum(x, -1)),
    "quad_prefix_exclusive_sum(v)": _groups(4, _exclusive(np.cumsum, 0)),
    "simd_broadcast(v, 5)": _from(np.full(32, 5)),
    "simd_broadcast_first(v)": _from(np.zeros(32, int)),
    "quad_broadcast(v, 2)": _from(LANES // 4 * 4 + 2),
    "quad_broadcast_first(v)": _from(LANES // 4 * 4),
    "simd_shuffle(v, (lane * 7) % 32)": _from(LANES * 7 % 32),
    "quad_shuffle(v, 3 - lane % 4)": _from(LANES // 4 * 4 + 3 - LANES % 4),
    "simd_shuffle_xor(v, 9)": _from(LANES ^ 9),
    "quad_shuffle_xor(v, 3)": _from(LANES ^ 3),
    "simd_shuffle_down(v, 3)": _from(_neighbour(3, 32)),
    "simd_shuffle_up(v, 3)": _from(_neighbour(-3, 32)),
    "quad_shuffle_down(v, 1)": _from(_neighbour(1, 4)),
    "quad_shuffle_up(v, 2)": _from(_neighbour(-2, 4)),
    "simd_shuffle_rotate_down(v, 5)": _from((LANES + 5) % 32),
    "simd_shuffle_rotate_up(v, 5)": _from((LANES - 5) % 32),
    "quad_shuffle_rotate_down(v, 1)": _from(LANES // 4 * 4 + (LANES + 1) % 4),
    "simd_shuffle_and_fill_down(v, filling, 3)": _filled(3, 32),
    "simd_shuffle_and_fill_up(v, filling, 3)": _filled(-3, 32),
    "simd_shuffle_and_fill_down(v, filling, 3, 8)": _filled(3, 8),
    "simd_shuffle_and_fill_up(v, filling, 3, 16)": _filled(-3, 16),
    "quad_shuffle_and_fill_down(v, filling, 1)": _filled(1, 4),
    "simd_sum(float3(v, 1, -v)).z": lambda x: -_reduction(np.sum, 32)(x),
    "simd_shuffle_down(float4(0, 0, v, 0), 1).z": _from(_neighbour(1, 32)),
    "float(simd_sum(int(lane)))": lambda x: np.full_like(x, 496),
    "float(simd_and(~(1u << lane)))": lambda x: np.zeros_like(x),
    "float(simd_or(lane & 6))": lambda x: np.full_like(x, 6),
    "float(simd_xor(lane))": lambda x: np.zeros_like(x),
    "float(quad_or(lane & 1))": lambda x: np.ones_like(x),
    "float(simd_max(half(v)))": lambda x: _reduction(np.max, 32)(x.astype(np.float16)),
    "float(simd_min(bfloat(v)))": lambda x: _reduction(np.min, 32)(x.astype(ml_dtypes.bfloat16)),
    "float(simd_all(v > 0))": lambda x: np.ones_like(x),
    "float(simd_any(v > 9))": lambda x: np.zeros_like(x),
    "float(ulong(simd_vote::vote_t(simd_ballot(lane % 8 == 1))))": lambda x: np.full_like(
        x, 0x02020202
    ),
    "float(ushort(quad_vote::vote_t(quad_ballot(lane % 4 == 2))))": lambda x: np.full_like(x, 4),
    "float(simd_is_first())": lambda x: np.broadcast_to(LANES == 0, x.shape),
    "float(quad_is_first())": lambda x: np.broadcast_to(LANES % 4 == 0, x.shape),
    "float(simd_active_threads_mask().all())": lambda x: np.ones_like(x),
}


def test_lanes_exchange_what_metal_says(probe: Probe) -> None:
    x = np.random.default_rng(1).uniform(0.5, 1.5, (3, 32)).astype(np.float32)
    body = "float v = x[i], filling = 100 + lane;\n" + "\n".join(
        f"y[{row} * 96 + i] = {text};" for row, text in enumerate(FUNCTIONS)
    )
    out = {"y": np.zeros((len(FUNCTIONS), 3, 32), np.float32)}
    found = probe(body, inputs={"x": x}, outputs=out, threads=96)["y"]
    for row, (text, reference) in enumerate(FUNCTIONS.items()):
        expected = reference(x).astype(np.float64)
        np.testing.assert_allclose(found[row].astype(np.float64), expected, rtol=1e-5, err_msg=text)


def test_a_partial_simdgroup_reduces_over_the_lanes_it_has(probe: Probe) -> None:
    x = np.arange(1, 45, dtype=np.float32)
    body = """
    y[6 * i] = simd_sum(x[i]); y[6 * i + 1] = simd_min(x[i]);
    y[6 * i + 2] = simd_product(x[i] / 20);
    y[6 * i + 3] = simd_all(x[i] > 32); y[6 * i + 4] = simd_shuffle_down(x[i], 1);
    y[6 * i + 5] = float(ulong(simd_vote::vote_t(simd_active_threads_mask())));
    """
    out = {"y": np.zeros((44, 6), np.float32)}
    found = probe(body, inputs={"x": x}, outputs=out, threads=44)["y"]
    first, rest = x[:32], x[32:]
    np.testing.assert_allclose(found[:32, 0].astype(np.float64), first.sum())
    np.testing.assert_allclose(found[32:, 0].astype(np.float64), rest.sum())
    np.testing.assert_array_equal(found[32:, 1], rest.min())
    np.testing.assert_allclose(found[32:, 2].astype(np.float64), (rest / 20).prod(), rtol=1e-5)
    np.testing.assert_array_equal(found[:, 3], np.repeat([0, 1], [32, 12]))
    np.testing.assert_array_equal(found[32:43, 4], x[33:])
    assert np.isnan(found[43, 4].astype(np.float32)), "lane 12 is not there"
    np.testing.assert_array_equal(found[:, 5], np.repeat([2.0**32, 4095], [32, 12]))


@pytest.mark.parametrize("space", ["device", "threadgroup"])
def test_atomics_hold_across_threads(probe: Probe, space: str) -> None:
    n = 2048 if space == "device" else 256
    shared = "threadgroup atomic_int a[8]; if (t < 8) { atomic_store_explicit(&a[t], b[t], memory_order_relaxed); }"  # noqa: E501
    body = f"""
    {shared if space == "threadgroup" else "device atomic_int* a = (device atomic_int*)y;"}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int v = x[i];
    atomic_fetch_add_explicit(&a[0], v, memory_order_relaxed);
    atomic_fetch_sub_explicit(&a[1], v, memory_order_relaxed);
    atomic_fetch_max_explicit(&a[2], v, memory_order_relaxed);
    atomic_fetch_min_explicit(&a[3], v, memory_order_relaxed);
    atomic_fetch_and_explicit(&a[4], ~(1 << (v & 15)), memory_order_relaxed);
    atomic_fetch_or_explicit(&a[5], 1 << (v & 15), memory_order_relaxed);
    atomic_fetch_xor_explicit(&a[6], v, memory_order_relaxed);
    int old = atomic_load_explicit(&a[7], memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &a[7], &old, old + 2, memory_order_relaxed, memory_order_relaxed)) {{}}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    {"if (t < 8) y[t] = atomic_load_explicit(&a[t], memory_order_relaxed);" if space == "threadgroup" else ""}
    """  # noqa: E501
    x = np.random.default_rng(5).integers(-999, 999, n).astype(np.int32)
    start = np.array([0, 0, -5000, 5000, -1, 0, 0, 0], np.int32)
    found = probe(body, inputs={"x": x, "b": start}, outputs={"y": start}, threads=n)["y"]
    bits = x & 15
    expected = [
        x.sum(), -x.sum(), x.max(), x.min(), ~np.bitwise_or.reduce(1 << bits),
        np.bitwise_or.reduce(1 << bits), np.bitwise_xor.reduce(x), 2 * n,
    ]  # fmt: skip
    np.testing.assert_array_equal(found, np.array(expected, np.int32))


def test_float_and_64_bit_atomics(probe: Probe) -> None:
    x = np.random.default_rng(6).integers(0, 100, 1024).astype(np.float32)
    body = """
    atomic_fetch_add_explicit((device atomic_float*)y, x[i], memory_order_relaxed);
    atomic_max_explicit((device atomic_ulong*)z, ulong(x[i]) << 40, memory_order_relaxed);
    if (atomic_exchange_explicit((device atomic_uint*)w, 7u, memory_order_relaxed) == 0)
      atomic_fetch_add_explicit((device atomic_uint*)w + 1, 1, memory_order_relaxed);
    """
    outputs = {
        "y": np.zeros(1, np.float32),
        "z": np.zeros(1, np.uint64),
        "w": np.zeros(2, np.uint32),
    }
    found = probe(body, inputs={"x": x}, outputs=outputs, threads=1024)
    assert found["y"][0] == x.sum()
    assert found["z"][0] == int(x.max()) << 40
    np.testing.assert_array_equal(found["w"], [7, 1])


@pytest.mark.parametrize(
    ("metal", "dtype", "tolerance"),
    [("float", np.float32, 1e-5), ("half", np.float16, 5e-3), ("bfloat", ml_dtypes.bfloat16, 5e-2)],
)
def test_matrices_of_a_simdgroup_multiply(
    probe: Probe, metal: str, dtype: type[np.generic], tolerance: float
) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.uniform(-1, 1, (24, 24)).astype(dtype) for _ in range(2))
    body = f"""
    simdgroup_{metal}8x8 p, q;
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8>(1.0f);
    for (ulong k = 0; k < 24; k += 8) {{
      simdgroup_load(p, a, 24, ulong2(k, 8));
      simdgroup_load(q, b + 24 * k + 16, 24, ulong2(0), true);
      simdgroup_multiply_accumulate(sum, p, q, sum);
    }}
    threadgroup float shared[64];
    simdgroup_store(sum, shared, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    y[t] = shared[t]; y[t + 32] = shared[t + 32];
    simdgroup_store(sum, y + 64, 8, ulong2(0), true);
    simdgroup_multiply(sum, p, simdgroup_{metal}8x8(2));
    simdgroup_store(sum, y + 128, 8);
    auto product = p * simdgroup_{metal}8x8(2);
    threadgroup {metal} products[64];
    simdgroup_store(product, products, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    y[256 + t] = float(products[t]); y[288 + t] = float(products[t + 32]);
    simdgroup_load(p, a);
    y[192 + 2 * lane] = float(p.thread_elements()[0]);
    y[193 + 2 * lane] = float(p.thread_elements()[1]);
    """
    out = {"y": np.zeros((5, 8, 8), np.float32)}
    found = probe(body, inputs={"a": a, "b": b}, outputs=out, threads=32)["y"].astype(np.float64)
    left, right = a.astype(np.float64)[8:16], b.astype(np.float64)
    expected = np.ones((8, 8))
    for k in (0, 8, 16):
        expected += left[:, k : k + 8] @ right[k : k + 8, 16:].T
    np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[1], expected.T, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[2], 2 * left[:, 16:], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[4], 2 * left[:, 16:], rtol=tolerance, atol=tolerance)
    flat = a.astype(np.float64).reshape(-1)[:64].reshape(8, 8)
    row = (LANES // 4 & 4) + LANES // 2 % 4
    column = (LANES // 4 & 2) * 2 + LANES % 2 * 2
    np.testing.assert_array_equal(found[3].reshape(32, 2)[:, 0], flat[row, column])
    np.testing.assert_array_equal(found[3].reshape(32, 2)[:, 1], flat[row, column + 1])
