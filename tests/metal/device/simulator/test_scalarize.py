"""Vectors taken apart and conditional stores made plain compute, bit for bit, what fibers do."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.device.simulator.library import Library
from kernelwright.metal.device.simulator.wide.assembly import Function, Module
from kernelwright.metal.device.simulator.wide.flatten import flattened
from kernelwright.metal.device.simulator.wide.scalarize import Scalarizer

_BODIES = {
    "arithmetic": """
  float4 v = *(const device float4*)(x + 4 * (i / 4)), w = v.wzyx * 0.5f + float4(1, 2, 3, 4);
  v = fma(v, w, -v) / (1.0f + abs(w)); sum = simd_sum(v.x) + dot(v, w) + v[3];""",
    "a_vector_across_rounds": """
  float2 a = float2(x[i], 1); for (uint k = 0; k < 5; k++) {
    a = a * simd_shuffle_xor(a.y, 1) + a.yx; shared[l] = a.x; } sum = a.x - a.y;""",
    "conditions": """
  float3 a = float3(x[i], x[i] * 2, simd_sum(x[i])); bool3 big = a > 0.25f;
  sum = any(big) + 2 * all(big) + select(a, -a, big).y + (big.z ? length(a) : 7);""",
    "halves": """
  half4 h = half4(x[i], 1, 2, simd_max(x[i])); h = exp(h * 0.25h) + h.zwxy; h.xy *= 2;
  sum = float(h.x) + float(h.w) + float(clamp(h, 0.5h, 3.0h).y);""",
    "integers": """
  uint4 u = uint4(i, l, 3, as_type<uint>(x[i])); u = (u << 3) ^ (u >> uint4(1, 2, 3, 4)) & ~u.yzwx;
  int2 s = int2(u.xy) % 7; char4 c = as_type<char4>(u.w + simd_sum(1u));
  sum = s.x - s.y + c.x + c.w;
  sum += popcount(u).z + max(u, 5u).x % 100;""",
    "rounding": """
  float4 v = float4(x[i] * 3) + float4(0.1f, 0.4f, 0.5f, 0.9f); v = floor(v) + fract(v) * rint(v);
  v = mix(v, ceil(v), 0.5f); sum = simd_sum(v.x) + v.y + v.z * v.w + sqrt(abs(v)).x + sign(v).w;""",
    "packed": """
  packed_float3 p = packed_float3(x[i], 2, simd_min(x[i])); p[1] += 1; float3 q = p; q *= q;
  sum = q.x + q.y + float3(p).z + cross(q, float3(p)).y;""",
    "matrices": """
  float4x4 m = float4x4(x[i]); m[1] = float4(simd_sum(x[i]), 2, 3, 4); float4 v = m * m[1] + m[0];
  sum = v.x + v.y + determinant(float2x2(m[1].xy, m[1].zw)) + transpose(m)[0].y;""",
    "bits": """
  half4 h = half4(x[i], 1, 2, simd_max(x[i])); float2 f = as_type<float2>(h); uchar4 c =
  as_type<uchar4>(x[i]); ushort4 u = as_type<ushort4>(f); float g = as_type<float>(c.wxyz);
  bool2 b = int2(l, i) < int3(*(const device packed_int3*)(x + l)).yx;
  sum = u.x + c.y + float(as_type<half2>(as_type<uint>(g) & 0x3fff3fff).y) + (all(b) ? 1 : 2);""",
    "elements_by_a_number": """
  float4 v = *(const device float4*)(x + 4 * (i / 4)); uint k = as_type<uint>(x[i]) >> 7 & 3;
  v[k] = x[l] * 2; uint2 u = uint2(i, l); u[k & 1] += 7; half3 h = half3(v.xyz);
  sum = v[i & 3] + v[(k + 1) & 3] * 3 + u[l & 1] + float(h[k % 3]) + simd_sum(v[k]);""",
    "stores_of_constants": """
  float3 rows[3] = { float3(-1, 0, 1), float3(-2, 0, 2), float3(x[i]) }; uint k = i % 3;
  rows[k] = float3(4, 5, 6); sum = simd_sum(rows[(i + l) % 3].y) + rows[k].z + rows[0].x;""",
    "fillings": """
  sum = simd_shuffle_and_fill_up(x[i], 7.0f, 3) + simd_shuffle_and_fill_down(half(x[i]), 2.0h, 9)
  + float(simd_shuffle_and_fill_up(uint2(i, l), uint2(5, 6), 1, 8).y)
  + simd_shuffle_and_fill_down(float3(x[i], 1, 2), float3(l), 4).x;""",
    "exchanges": """
  shared[l] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint s = 1; s < 64; s *= 2) {
    if ((l & s) == 0 && (l | s) < 64) {
      float p = shared[l], q = shared[l | s]; int way = 0;
      if (p > q) { shared[l] = q; shared[l | s] = p; way = 1; }
      sum += way;
    } threadgroup_barrier(mem_flags::mem_threadgroup); } sum += shared[l] * 3;""",
    "stores_with_others_between": """
  shared[l] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup);
  float p = shared[l]; shared[l] = p * 2; if (p < 0.5f) { shared[l] = p - 1; }
  float q = shared[l]; if (q < 0) { y[i] = q; shared[l] = q + 1; shared[l] = 5 * q; }
  sum = simd_sum(shared[l]) + shared[l];""",
}
_TEXT = """#include <metal_stdlib>
using namespace metal;
""" + "".join(
    f"""kernel void {name}(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
  uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) {{
  threadgroup float shared[64]; float sum = 0; {body}
  threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = sum; }}
"""
    for name, body in _BODIES.items()
)


@pytest.fixture(scope="module")
def library() -> Library:
    return simulator.compile(_TEXT)


def _launch(library: Library, name: str) -> Array:
    x = np.random.default_rng(0).standard_normal(192).astype(np.float32)
    y = np.full(192, np.nan, np.float32)
    library.kernel(name).launch([x, y], grid=(192, 1, 1), threadgroup=(64, 1, 1))
    return y


@pytest.mark.parametrize("name", _BODIES)
@pytest.mark.sampled(7)
def test_lanes_compute_what_fibers_compute(
    library: Library, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _launch(library, name)
    monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", len(_BODIES))
    monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    found = _launch(library, name)
    assert name in {e.name for e in library.image("wide").entries}
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def _function(body: str) -> Function:
    listing = f"define void @f(ptr %0, i1 %1) {{\n{body}\n}}\n"
    return Module.read(listing).function("@f")


def _texts(function: Function) -> list[str]:
    return [i.text for b in function.blocks for i in b.instructions]


def test_no_vector_is_left() -> None:
    scalarizer = Scalarizer()
    text = """  %3 = load <2 x float>, ptr %0, align 8
  %4 = call <2 x float> @llvm.fma.v2f32(<2 x float> %3, <2 x float> splat (float 2.0), <2 x float> <float 1.0, float 3.0>)
  %5 = fcmp olt <2 x float> %4, zeroinitializer
  %6 = bitcast <2 x i1> %5 to i2
  %7 = zext i1 %1 to i64
  %8 = insertelement <2 x float> %4, float 5.0, i64 %7
  %9 = extractelement <2 x float> %8, i64 %7
  store <2 x float> %8, ptr %0, align 8
  ret void"""  # noqa: E501 (LLVM's own lines)
    found = _texts(scalarizer.apply(_function(text)))
    assert not any("<" in line for line in found)
    assert "load float, ptr %3.at1, align 4" in found
    assert "call float @llvm.fma.f32(float %3.e1, float 2.0, float 3.0)" in found
    assert "select i1 %9.is1, float %8.e1, float %8.e0" in found
    assert list(scalarizer.declarations) == ["@llvm.fma.f32"]


@pytest.mark.parametrize(
    "line",
    [
        "%3 = call float @llvm.vector.reduce.fadd.v2f32(float 0.0, <2 x float> zeroinitializer)",
    ],
)
def test_what_is_not_read_leaves_the_function_as_it_is(line: str) -> None:
    function = _function(f"  {line}\n  ret void")
    scalarizer = Scalarizer()
    assert scalarizer.apply(function) is function
    assert scalarizer.declarations == {}


_CONDITIONAL = """  %3 = call ptr @{memory}(i32 0, i64 64, i64 4)
  %4 = getelementptr inbounds i32, ptr %3, i64 3
  %5 = load i32, ptr %4, align 4
{between}  br i1 %1, label %6, label %7

6:
  store i32 9, ptr %4, align 4
  br label %7

7:
  %8 = phi i32 [ 1, %6 ], [ 2, %2 ]
  ret void"""


def test_a_conditional_store_of_what_was_read_becomes_a_choice() -> None:
    text = _CONDITIONAL.format(memory="kw_threadgroup_alloc", between="")
    found = _texts(flattened(_function(text)))
    assert "select i1 %1, i32 9, i32 %5" in found
    assert "phi i32 [ %8.joined.6, %2 ]" in found
    assert not any(line.startswith("br i1") for line in found)


@pytest.mark.parametrize(
    ("memory", "between"),
    [
        ("device_memory", ""),
        ("kw_threadgroup_alloc", "  store i32 1, ptr %3, align 4\n"),
        ("kw_threadgroup_alloc", "  call void @kw_barrier(i32 2, i32 1)\n"),
    ],
)
def test_a_store_that_others_could_see_keeps_its_condition(memory: str, between: str) -> None:
    found = _texts(flattened(_function(_CONDITIONAL.format(memory=memory, between=between))))
    assert any(line.startswith("br i1") for line in found)
