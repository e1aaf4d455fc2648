"""Arrays lie where NumPy puts them, and kernels find them where their types allow."""

import numpy as np
import pytest

from kernelwright.metal import simulator

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_BUILDS = ["plain", "sanitize", "count"]


def _array(dtype: type[np.generic], count: int, offset: int) -> np.ndarray:
    """Return an array that begins `offset` bytes behind a multiple of 256."""
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + 512, np.uint8)
    start = -raw.ctypes.data % 256 + offset
    return raw[start : start + size].view(dtype)


@pytest.mark.parametrize("build", _BUILDS)
@pytest.mark.parametrize("offset", [0, 8, 16, 32])
@pytest.mark.parametrize(
    ("type_", "pointee", "dtype"),
    [
        ("long4", "long4", np.int64),
        ("ulong3", "ulong3", np.uint64),
        ("float4", "float4", np.float32),
        ("half4", "half4", np.float16),
        ("long4", "long", np.int64),
        ("S", "S", np.int64),
    ],
)
@pytest.mark.sampled(30)
def test_an_array_is_aligned_for_its_type(
    type_: str, pointee: str, dtype: type[np.generic], offset: int, build: str
) -> None:
    text = (
        "struct S { long4 v; S operator*(S o) const { S r; r.v = v * o.v; return r; } };\n"
        "inline void take(device const T* x, device T* o, uint i) { o[i] = x[i] * x[i]; }\n"
        f"kernel void k(device const {pointee}* x, device {pointee}* o,\n"
        "  uint i [[thread_position_in_grid]]) { take((device const T*)x, (device T*)o, i); }\n"
    )
    text = text.replace("inline void", f"typedef {type_} T;\ninline void")
    x, o = _array(dtype, 96 * 4, offset), _array(dtype, 96 * 4, offset)
    x[:] = np.arange(x.size) % 5
    kernel = simulator.compile(_HEAD + text).kernel("k")
    outcome = kernel.launch(
        [x, o],
        grid=(96, 1, 1),
        threadgroup=(32, 1, 1),
        sanitize=build == "sanitize",
        count=build == "count",
    )
    assert not outcome.reports
    lanes = 3 if type_ == "ulong3" else 4
    assert (o.reshape(-1, 4)[:, :lanes] == (x * x).reshape(-1, 4)[:, :lanes]).all()


def test_a_kernels_own_misaligned_access_is_reported() -> None:
    text = (
        "kernel void k(device const float* x, device float* o) {\n"
        "  float4 v = *(device const float4*)(x + 1);\n  o[0] = v.x;\n}\n"
    )
    x, o = np.zeros(16, np.float32), np.zeros(1, np.float32)
    outcome = (
        simulator.compile(_HEAD + text)
        .kernel("k")
        .launch([x, o], grid=(1, 1, 1), threadgroup=(1, 1, 1), sanitize=True)
    )
    assert [r.kind for r in outcome.reports] == ["misaligned access"]
