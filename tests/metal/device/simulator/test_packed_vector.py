"""Packed vectors in Metal's functions: alone as other vectors are, beside them not at all."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.diagnostic import CompileError

_HEAD = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* y [[buffer(0)]], constant packed_float3& p [[buffer(1)]],
    constant packed_float3& q [[buffer(2)]]) {
  float3 a = p, b = q;
  packed_half4 h(1, 2, 3, 4);
"""

_SAME = (
    ("length(p)", "length(a)"),
    ("length_squared(q)", "length_squared(b)"),
    ("normalize(p).y", "normalize(a).y"),
    ("distance(p, q)", "distance(a, b)"),
    ("distance_squared(p, q)", "distance_squared(a, b)"),
    ("reflect(p, q).z", "reflect(a, b).z"),
    ("refract(p, q, 0.5f).x", "refract(a, b, 0.5f).x"),
    ("faceforward(p, q, p).x", "faceforward(a, b, a).x"),
    ("cross(p, q).x", "cross(a, b).x"),
    ("dot(p, q)", "dot(a, b)"),
    ("fast::length(p)", "fast::length(a)"),
    ("float(length(h))", "float(length(half4(h)))"),
    ("max(p, q).x + clamp(p, 0.0f, 1.0f).y + mix(p, q, 0.5f).z",
     "max(a, b).x + clamp(a, 0.0f, 1.0f).y + mix(a, b, 0.5f).z"),
    ("select(p, q, p < q).x", "select(a, b, a < b).x"),
)  # fmt: skip


def _vector(*elements: float) -> Array:
    return np.array(elements, np.float32)


@pytest.mark.parametrize(("packed", "unpacked"), _SAME)
def test_packed_vectors_give_what_others_give(packed: str, unpacked: str) -> None:
    y = np.zeros(2, np.float32)
    library = simulator.compile(f"{_HEAD} y[0] = {packed}; y[1] = {unpacked}; }}")
    library.kernel("k").launch(
        {"y": y, "p": _vector(1, -2, 3), "q": _vector(0, 0.6, 0.8)},
        grid=(1, 1, 1), threadgroup=(1, 1, 1),
    )  # fmt: skip
    assert y[0] == y[1] != 0


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("dot(p, b)", "dot"),
        ("distance(a, q)", "distance"),
        ("cross(a, q).x", "cross"),
        ("reflect(p, b).x", "reflect"),
        ("max(p, b).x", "max"),
        ("mix(p, b, 0.5f).x", "mix"),
        ("clamp(a, q, b).x", "clamp"),
        ("select(p, b, a < b).x", "select"),
        ("pow(p, b).x", "pow"),
        ("distance(a, 1.0f)", "distance"),
        ("length(1.0f)", "length"),
    ],
)
def test_packed_beside_other_vectors_matches_no_function(call: str, function: str) -> None:
    with pytest.raises(CompileError, match=f"no matching function for call to '{function}'"):
        simulator.compile(f"{_HEAD} y[0] = {call}; }}")
