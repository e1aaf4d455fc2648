"""The sanitizer finds what a GPU hides, and is silent on correct kernels."""

import functools
import textwrap

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import Library, compiler
from kernelwright.metal.device.simulator.record import Outcome
from kernelwright.metal.diagnostic import ReportKind

# Every body runs over 128 threads in two threadgroups of 64 on `x[128]` and a fresh `y[128]`.
_SIGNATURE = """
kernel void {name}(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   device atomic_uint* n [[buffer(2)]],
                   uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]],
                   uint group [[threadgroup_position_in_grid]],
                   uint lane [[thread_index_in_simdgroup]],
                   uint sg [[simdgroup_index_in_threadgroup]]) {{
"""
_FUNCTIONS = """
struct Run {
  float values[8];
  thread float& operator[](uint i) { return values[i]; }
};
struct Pair { float4 first; float last; };
float total(const thread float* values, uint count) {
  float sum = 0;
  for (uint k = 0; k < count; ++k) sum += values[k];
  return sum;
}
void meet(threadgroup float* s, uint l) {
  s[l] += 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
float sum_of_lanes(float v) { return simd_sum(v); }
#define MEET threadgroup_barrier(mem_flags::mem_threadgroup)
#define MEET_EITHER_WAY(condition) if (condition) { MEET; } else { MEET; }
"""
_S = "threadgroup float s[64]; "
_SYNC = "threadgroup_barrier(mem_flags::mem_threadgroup); "

_BUGS: dict[ReportKind, list[str]] = {
    ReportKind.NULL_POINTER: [
        "device float* p = nullptr; if (i == 3) *p = x[i]; y[i] = 1;",
        "const device float* p = i == 3 ? nullptr : x; y[i] = p[i];",
        "threadgroup float* p = nullptr; " + _S + "if (l < 9) p = s; p[l] = x[i]; y[i] = s[l];",
        "thread float* p = nullptr; float a = 4; if (x[i] > 2) p = &a; y[i] = *p;",
    ],
    ReportKind.DEVICE_OUT_OF_BOUNDS: [
        "y[i] = x[i + 1];",
        "y[i] = x[i]; if (i == 0) y[int(i) - 1] = 0;",
        "y[i] = x[i]; y[i + 128] = 1;",
        "const device float4* v = (const device float4*)x; y[i] = v[i / 4 + 1].w;",
        "y[i] = i == 5 ? x[i - 4000000000u] : 0;",
    ],
    ReportKind.THREADGROUP_OUT_OF_BOUNDS: [
        _S + "s[l] = x[i]; " + _SYNC + "y[i] = s[l + 1];",
        _S + "threadgroup float* p = s; p[l] = x[i]; " + _SYNC + "y[i] = p[l * 2];",
        _S + "threadgroup float* p = s; p[l] = x[i]; p[l - 1] = x[i]; " + _SYNC + "y[i] = 0;",
        "threadgroup float t[8][8]; t[l / 8][l % 8] = x[i]; "
        + _SYNC
        + "y[i] = t[l / 8][l % 8 + 1];",
        _S + "threadgroup float* p = s; p[int(l) - 900000] = x[i]; y[i] = s[0];",
    ],
    ReportKind.THREAD_OUT_OF_BOUNDS: [
        "packed_float4 v; for (uint k = 0; k <= 4; ++k) v[k] = x[i] + k; y[i] = v[0] + v[3];",
        "float a[4] = {x[i], 1, 2, 3}; y[i] = a[i % 5];",
        "float a[4]; for (int k = 0; k <= 4; k++) a[k] = x[i]; y[i] = a[1];",
        "int a[3][2] = {}; a[i % 3][2 + int(x[i] > 2)] = 1; y[i] = a[0][1];",
        "float a[4] = {x[i], 1, 2, 3}; thread float* p = a; y[i] = p[i % 5];",
        "float a[4] = {x[i], 1, 2, 3}; thread float& v = a[i % 5]; y[i] = v;",
        "float a[4] = {x[i], 1, 2, 3}; y[i] = total(a, 5);",
        "Run r; for (uint k = 0; k < 9; ++k) r[k] = x[i]; y[i] = r[3];",
        (
            "Run r[2]; for (uint k = 0; k < 8; ++k) r[0][k] = r[1][k] = x[i]; float v = 0;"
            "for (uint j = 0; j < 2; ++j) for (uint k = 0; k < 9; ++k) v += r[j][k]; y[i] = v;"
        ),
        "float4 v = float4(x[i]); float s = 0; for (uint k = 0; k < 5; ++k) s += v[k]; y[i] = s;",
        "float a[4] = {x[i], 1, 2, 3}; y[i] = ((thread float4*)(a + 1))->w;",
    ],
    ReportKind.UNINITIALISED_THREADGROUP_READ: [
        _S + "if (l < 32) s[l] = x[i]; " + _SYNC + "y[i] = s[63 - l];",
        _S + "if (group == 0) s[l] = x[i]; " + _SYNC + "y[i] = s[l];",
        _S + "s[l] += x[i]; y[i] = s[l];",
        "threadgroup half h[64]; if (l % 2) h[l] = half(x[i]); " + _SYNC + "y[i] = h[l];",
        _S + "((threadgroup half*)s)[2 * l] = half(x[i]); " + _SYNC + "y[i] = s[l];",
        _S
        + "((threadgroup uchar*)s)[l] = uchar(x[i]); "
        + _SYNC
        + "y[i] = ((threadgroup uchar*)s)[l + 1];",
    ],
    ReportKind.UNINITIALISED_VARIABLE_READ: [
        "float v; if (x[i] > 3) v = 1; y[i] = v;",
        "float a[4]; for (uint k = 0; k <= i % 4; k++) a[k] = 1; y[i] = a[3];",
        "float4 v; v.xyz = x[i]; y[i] = v[i % 4];",
        "float sum; for (uint k = 0; k < 4; k++) sum += x[k]; y[i] = sum;",
        "uint m; if (i != 77) m = 2; y[i] = x[m % 128];",
        "uint m; float v = 0; for (uint k = 0; k < m; k++) v += x[k % 128] * v + k; y[i] = v;",
        "bool late; if (i == 5) late = true; y[i] = late ? 1 : 2;",
        "Run r; for (uint k = 0; k < 4; k++) r.values[k] = x[i]; y[i] = r.values[i % 8];",
        "float a, b = x[i], c; a = b; y[i] = simd_shuffle_xor(c, 1) + a;",
    ],
    ReportKind.UNINITIALISED_OUTPUT_READ: [
        "y[i] += x[i];",
        "y[i] = max(y[i], x[i]);",
        "if (i % 2) y[i] = x[i]; threadgroup_barrier(mem_flags::mem_device); y[i ^ 1] = y[i];",
        "((device ushort*)y)[2 * i] = ushort(i); y[i] += x[i];",
    ],
    ReportKind.THREADGROUP_RACE: [
        _S + "s[l] = x[i]; y[i] = s[63 - l];",
        _S + "s[l] = x[i]; " + _SYNC + "float v = s[63 - l]; s[l] = 2 * v; y[i] = v;",
        _S + "s[l / 2] = x[i]; " + _SYNC + "y[i] = s[l / 2];",
        _S + "s[l] = x[i]; threadgroup_barrier(mem_flags::mem_none); y[i] = s[l ^ 1];",
        _S + "s[l] = x[i]; simdgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[63 - l];",
        _S + "s[l] = x[i]; simdgroup_barrier(mem_flags::mem_none); y[i] = s[l ^ 1];",
        _S + "s[l] = x[i]; simdgroup_barrier(mem_flags::mem_device); y[i] = s[l ^ 1];",
        "threadgroup half h[64]; h[l] = half(x[i]); y[i] = h[l ^ 1];",
        _S
        + "s[l] = 0; "
        + _SYNC
        + "((threadgroup uchar*)s)[l / 2] = uchar(l);"
        + _SYNC
        + "y[i] = s[l / 8];",
        _S + "((threadgroup half*)s)[l] = half(x[i]); y[i] = ((threadgroup half*)s)[l ^ 1];",
    ],
    ReportKind.DEVICE_RACE: [
        "y[i / 2] = x[i]; if (i < 64) y[i + 64] = 0;",
        (
            "y[i] = x[i]; threadgroup_barrier(mem_flags::mem_device);"
            "if (l == 0) y[i] = y[(i + 64) % 128];"
        ),
        "y[i] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = x[i] + y[i ^ 1];",
        "y[l] = x[i]; y[64 + l] = 0;",
        "y[i] = x[i]; simdgroup_barrier(mem_flags::mem_threadgroup); y[i] = x[i] + y[i ^ 1];",
        "atomic_fetch_add_explicit(n, 1u, memory_order_relaxed); y[i] = ((device uint*)n)[0];",
        (
            "y[i] = x[i]; threadgroup_barrier(mem_flags::mem_device);"
            "((device uchar*)y)[4 * (i / 2)] = uchar(i);"
        ),
        (
            "device half* h = (device half*)y; h[2 * i] = half(x[i]);"
            "h[2 * i + 1] = h[(2 * i + 2) % 256];"
        ),
    ],
    ReportKind.DIVERGENT_BARRIER: [
        "if (l < 40) { " + _SYNC + "} else { " + _SYNC + "} y[i] = x[i];",
        "if (l < 40) threadgroup_barrier(mem_flags::mem_none); y[i] = x[i];",
        "y[i] = x[i]; if (l >= 40) return; threadgroup_barrier(mem_flags::mem_none);",
        (
            "y[i] = x[i]; if (l < 40) { threadgroup_barrier(mem_flags::mem_none);\n}"
            "else { threadgroup_barrier(mem_flags::mem_none); }"
        ),
        "for (uint k = 0; k < l; k++) threadgroup_barrier(mem_flags::mem_none); y[i] = x[i];",
        "y[i] = x[i]; if (lane < 7) simdgroup_barrier(mem_flags::mem_none);",
        # Of one place, in different rounds of a loop, and by different calls.
        _S + "s[l] = x[i]; for (uint k = 0; k < 4; k++) { if ((k + l) % 2) continue; " + _SYNC + "}"
        "y[i] = s[l];",
        _S + "s[l] = x[i]; uint k = 0; while (k < 4) if ((k++ + l) % 2) meet(s, l); y[i] = s[l];",
        _S + "s[l] = x[i]; for (uint j = 0; j < 4; j++) { if ((j + l) % 2) continue;"
        "for (uint k = 0; k < 2; k++) meet(s, l); } y[i] = s[l];",
        _S + "s[l] = x[i]; if (l % 2) meet(s, l); else { s[l] *= 2; meet(s, l); } y[i] = s[l];",
        _S + "s[l] = x[i]; switch (l % 2) { case 0: meet(s, l); break; default: meet(s, l); }"
        "y[i] = s[l];",
        _S + "s[l] = x[i]; MEET_EITHER_WAY(l % 2) y[i] = s[l];",
    ],
    ReportKind.DIVERGENT_SIMD_OPERATION: [
        (
            "float v = 0; for (uint k = 0; k < 4; k++)"
            "if ((k + l) % 2) v += simd_shuffle_xor(x[i], 1); y[i] = v;"
        ),
        "float v = 0; if (lane < 16) v = simd_shuffle(x[i], 20); y[i] = v;",
        (
            "float v = x[i]; if (lane < 16) v = simd_shuffle_down(v, 1);\n"
            "else v = simd_shuffle_down(v, 1); y[i] = v;"
        ),
        # Of lanes that no group has.
        "y[i] = simd_shuffle(x[i], lane + 1);",
        "y[i] = simd_shuffle_xor(x[i], 32 * (lane / 31));",
        "y[i] = quad_shuffle(x[i], 3 + lane / 31);",
        "y[i] = quad_broadcast(x[i], 4);",
    ],
    ReportKind.MISALIGNED_ACCESS: [
        "y[i] = ((const device float4*)(x + 1))[i / 8].x;",
        "((device float2*)(y + 1))[i / 4] = float2(x[i]);",
        "y[i] = *(const device float*)((const device char*)x + 2 * (i % 4));",
        "((device float4*)(y + 2))[i / 8] = float4(x[i]);",
        "float4 v = *(const device float4*)(x + 1); y[i] = v.w;",
        "float2 v = ((const device float2*)(x + 1))[i / 4]; y[i] = v.y;",
        "const float4 v(x[i]); *(device float4*)(y + 2) = v;",
        "y[i] = dot(*(const device float4*)(x + 2), float4(x[i]));",
        "using P = const device float4*; const float4 v = *P(x + 3); y[i] = v.y;",
        "half4 v = *(const device half4*)((const device half*)x + 2); y[i] = v.y;",
        "bfloat v = *(const device bfloat*)((const device uchar*)x + 1); y[i] = v;",
        "Pair v = *(const device Pair*)(x + 2); y[i] = v.last;",
        _S + "s[l] = x[i]; " + _SYNC + "float4 v = *(threadgroup float4*)(s + 1); y[i] = v.x;",
    ],
    ReportKind.WRITE_TO_INPUT: [
        "((device float*)x)[i] = 1; y[i] = 0;",
        "device float* p = (device float*)x; if (i == 3) p[i] += 1; y[i] = 0;",
        (
            "device atomic_uint* p = (device atomic_uint*)x; y[i] = 0;"
            "atomic_fetch_add_explicit(p, 1u, memory_order_relaxed);"
        ),
    ],
    ReportKind.UNWRITTEN_OUTPUT: [
        "if (l != 7) y[i] = x[i];",
        "if (i < 100) y[i] = x[i];",
        "if (i % 2 == 0) ((device half*)y)[i] = 1;",
        "((device half*)y)[2 * i] = 1;",
    ],
    ReportKind.DIVISION_BY_ZERO: [
        "y[i] = 7 / int(i % 3);",
        "y[i] = 7u % (i / 64);",
        "int d = int(x[i]); d /= d - d; y[i] = d;",
        "int4 v = int4(7) / int4(1, 2, 3, i % 2); y[i] = v.x;",
        "uint2 v = uint2(7, i); v %= uint(i / 2); y[i] = v.y;",
        "short4 v(i); v.xy /= short2(i % 3); y[i] = v.x + v.y;",
    ],
    ReportKind.SHIFT_OUT_OF_RANGE: [
        "y[i] = 1 << (i + 1);",
        "y[i] = 5u >> (32 + i % 2);",
        "y[i] = 1 << -int(i % 2);",
        "int4 v = int4(1) << int4(1, 2, 3, 31 + i % 2); y[i] = v.w;",
        "uint2 v(i, 5); v >>= uint2(0, i); y[i] = v.y;",
        "ushort3 v = ushort3(3) << ushort(i); y[i] = v.y;",
    ],
    ReportKind.MISSING_RETURN: [
        (
            "enum E { A, B }; auto f = [](E e) -> float {"
            "switch (e) { case A: return 1; case B: return 2; } }; y[i] = f(E(i % 3));"
        ),
        (
            "enum class E { A, B }; auto f = [](E e, float z) -> float2 {"
            "switch (e) { case E::A: if (z > 3) return z; case E::B: return 2; } };"
            "y[i] = f(E(i % 4), x[i]).y;"
        ),
        (
            "enum E { A = 1 }; auto f = [](E e) { switch (e) { case A: return 1; } };"
            "if (x[i] < 0 || i > 70) y[i] = f(E(i / 64)); else y[i] = f(E(i % 2));"
        ),
    ],
}

_CORRECT = {
    "packed_vectors_anywhere": (
        "packed_float4 v = *(const device packed_float4*)(x + 1 + i % 8); y[i] = v[0] + v[2];"
    ),
    "aligned_vectors": (
        "float4 v = ((const device float4*)x)[i / 4]; y[i] = dot(v, v);"
        "half4 h = *(const device half4*)((const device half*)x + 4 * (i / 4)); y[i] += h.x;"
    ),
    "aligned_structs": "Pair v = ((const device Pair*)x)[i / 32]; y[i] = v.first.x + v.last;",
    "set_in_every_branch": "float v; if (x[i] > 3) v = 1; else v = 2; y[i] = v;",
    "set_by_what_follows": "float v, w = (v = x[i]); y[i] = v + w;",
    "array_set_in_a_loop": (
        "float a[64]; for (uint k = 0; k < 64; k++) a[k] = x[k]; y[i] = a[i % 64];"
    ),
    "members_set_one_by_one": "Run r; r.values[0] = x[i]; r.values[1] = 2; y[i] = r.values[i % 2];",
    "unset_lanes_ignored": (
        "float v; if (lane < 16) v = x[i]; v = simd_shuffle_xor(v, 1); y[i] = lane < 16 ? v : 0;"
    ),
    "switch_over_an_enum": (
        "enum E { A, B }; auto f = [](E e) -> float {"
        "switch (e) { case A: return 1; case B: return 2; } }; y[i] = f(E(i % 2));"
    ),
    "copies": "y[i] = x[i];",
    "reverses": _S + "s[l] = x[i]; " + _SYNC + "y[i] = s[63 - l];",
    "tree_reduction": _S
    + "s[l] = x[i]; "
    + _SYNC
    + "for (uint k = 32; k > 0; k /= 2) { if (l < k) s[l] += s[l + k]; "
    + _SYNC
    + "} y[i] = s[0];",
    "double_buffer": "threadgroup float t[2][64]; float sum = 0;"
    "for (uint k = 0; k < 8; k++) { t[k % 2][l] = x[i] * k; "
    + _SYNC
    + "sum += t[k % 2][l ^ 33]; } y[i] = sum;",
    "simdgroup_exchange": _S
    + "s[l] = x[i]; simdgroup_barrier(mem_flags::mem_threadgroup); float v = s[l ^ 5];"
    "simdgroup_barrier(mem_flags::mem_threadgroup); s[l] = v;"
    "simdgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[l ^ 9];",
    "simd_reduction": _S
    + "float v = simd_sum(x[i]); if (lane == 0) s[sg] = v; "
    + _SYNC
    + "y[i] = s[0] + s[1];",
    "device_exchange": "y[i] = x[i]; threadgroup_barrier(mem_flags::mem_device);"
    "float v = y[i ^ 63]; threadgroup_barrier(mem_flags::mem_device); y[i] = v;",
    "atomic_count": "y[i] = x[i]; atomic_fetch_add_explicit(n, 1u, memory_order_relaxed);",
    "atomic_maximum": "y[i] = x[i]; atomic_fetch_max_explicit(n, i, memory_order_relaxed);",
    "same_value": _S + "s[0] = 3; " + _SYNC + "y[i] = s[0]; y[0] = 3;",
    "halves": "threadgroup half h[64]; h[l] = half(x[i]); " + _SYNC + "y[i] = h[l ^ 1];",
    "bytes": "((device uchar4*)y)[i] = uchar4(1, 2, 3, 4);",
    "bytes_one_by_one": "for (uint k = 0; k < 4; k++) ((device uchar*)y)[k * 128 + i] = uchar(k);",
    "halves_of_words": _S
    + "((threadgroup half*)s)[l] = half(x[i]); ((threadgroup half*)s)[64 + l] = 1; "
    + _SYNC
    + "y[i] = ((threadgroup half*)s)[l ^ 1] + s[63 - l];",
    "bits_of_a_float": "y[i] = x[i]; ((device uchar*)y)[4 * i + 3] ^= 0x80;",
    "uniform_barrier": "for (uint k = 0; k < group + 2; k++) " + _SYNC + "y[i] = 0;",
    "vectors": "if (l % 4 == 0) ((device float4*)y)[i / 4] = ((const device float4*)x)[i / 4];",
    "shifts": "y[i] = 1 << (i % 32); y[i] += int(0x80000000u) << 1;",
    "vectors_of_integers": (
        "int4 v = int4(7) / int4(1, 2, 3, 1 + i % 2); v %= 5; v = v << int4(0, 1, 31, i % 32);"
        "float2 w = float2(i) / 0; v.xy >>= 3; y[i] = v.x + v.y + (w.x > 0 ? 1 : 0);"
    ),
    "different_ways_in_equal_rounds": _S
    + "s[l] = x[i]; for (uint k = 0; k < 4; k++) { for (uint j = 0; j < l; j++) s[l] += 1;"
    "if ((k + l) % 2) s[l] += 1; else s[l] *= 2; meet(s, l); if (l % 3) continue; s[l] += 1; }"
    "y[i] = s[l];",
    "rounds_of_an_unrolled_loop": _S + "s[l] = x[i];\n#pragma clang loop unroll(full)\n"
    "for (uint k = 0; k < 4; k++) { if ((k + l) % 2) s[l] += k; meet(s, l); } y[i] = s[l];",
    "one_helper_twice": _S + "s[l] = x[i]; meet(s, l); meet(s, l); y[i] = s[l];",
    "left_from_within": _S + "s[l] = x[i]; for (uint k = 0;; k++) { meet(s, l); if (k == group) "
    "break; if (l % 2) continue; s[l] += 1; } y[i] = s[l];",
    "rounds_of_simdgroups": _S
    + "s[l] = x[i]; float v = 0; for (uint k = 0; k < 2 + sg; k++) v += sum_of_lanes(x[i]);"
    "MEET; y[i] = v + s[63 - l];",
    "branches_of_simdgroups": "y[i] = sg == 1 ? sum_of_lanes(x[i]) : -sum_of_lanes(-x[i]);",
}
# Metal Shading Language Specification 4, 6.9.2: these work on the active threads.
_ACTIVE_LANES = {
    "sums_of_branches": "y[i] = l & 1 ? simd_sum(x[l]) : -simd_sum(-x[l]);",
    "sum_in_a_branch": "float v = 0; if (l % 2) v = simd_sum(x[l]); v += simd_sum(1); y[i] = v;",
    "sum_in_the_other": "float v = 0; if (lane >= 16) v = simd_sum(x[l]); y[i] = v + simd_sum(1);",
    "first_of_a_branch": "float v = 0; if (lane > 4 && simd_is_first()) v = lane; y[i] = v;",
    "rest_after_return": "y[i] = 0; if (lane > 20) return; y[i] = simd_max(float(lane));",
    "last_round_of_few": (
        "float v = 0; for (uint k = lane; k < 40; k += 32) v += simd_sum(1.0f); y[i] = v;"
    ),
    "shuffle_in_a_branch": "float v = 0; if (lane < 16) v = simd_shuffle_xor(x[l], 1); y[i] = v;",
    "different_rounds": (
        "float v = 0; for (uint k = 0; k < 4; k++) { if ((k + l) % 2) continue;"
        "v += simd_sum(x[l]); } y[i] = v;"
    ),
    "different_calls": "y[i] = l % 2 ? sum_of_lanes(x[l]) : -sum_of_lanes(-x[l]);",
    # The helper's text stands above the branch.
    "helper_behind_a_branch": (
        "float v = 0; if (lane < 16) v = simd_sum(x[l]); y[i] = v + sum_of_lanes(v);"
    ),
    "above_an_inner_loop": (
        "float v = 0; for (uint j = 0; j < 2; j++) { v += simd_max(x[l]);\n"
        "for (uint k = lane; k < 40; k += 32) v += simd_sum(1.0f); } y[i] = v;"
    ),
}
_L = np.arange(64)
_OF_ACTIVE_LANES: dict[str, NDArray[np.generic]] = {
    "sums_of_branches": np.where(_L < 32, np.where(_L % 2, 256, 240), np.where(_L % 2, 768, 752)),
    "sum_in_a_branch": np.where(_L % 2, np.where(_L < 32, 256, 768), 0) + 32,
    "sum_in_the_other": np.where(_L % 32 < 16, 0, np.where(_L < 32, 376, 888)) + 32,
    "first_of_a_branch": np.where(_L % 32 == 5, 5, 0),
    "rest_after_return": np.where(_L % 32 <= 20, 20, 0),
    "last_round_of_few": np.where(_L % 32 < 8, 40, 32),
    "shuffle_in_a_branch": np.where(_L % 32 < 16, _L ^ 1, 0),
    "different_rounds": np.where(_L < 32, np.where(_L % 2, 512, 480), np.where(_L % 2, 1536, 1504)),
    "different_calls": np.where(_L < 32, np.where(_L % 2, 256, 240), np.where(_L % 2, 768, 752)),
    "helper_behind_a_branch": np.where(_L < 32, 120, 632) * (16 + (_L % 32 < 16)),
    "above_an_inner_loop": 2 * (np.where(_L < 32, 31, 63) + 32 + 8 * (_L % 32 < 8)),
}
_CORRECT |= _ACTIVE_LANES

# Two threads access one place, in an order or with a value that makes it right, or atomically.
_SUSPICIOUS = (
    *("simdgroup_exchange", "device_exchange", "same_value", "atomic_count", "atomic_maximum"),
    *_ACTIVE_LANES,
)


@functools.cache
def _library() -> Library:
    """Compile every body as a kernel of one text, each body from a line of its own."""
    bodies = dict(_CORRECT)
    for kind, bugs in _BUGS.items():
        bodies |= {_name(kind, i): body for i, body in enumerate(bugs)}
    kernels = "".join(
        _SIGNATURE.format(name=name) + body + "\n}\n" for name, body in bodies.items()
    )
    head = "#include <metal_stdlib>\nusing namespace metal;\n" + _FUNCTIONS
    return simulator.compile(head + kernels)


def _name(kind: ReportKind, i: int) -> str:
    return f"{kind.name.lower()}_{i}"


@pytest.fixture(params=[False, True], ids=["", "vetted"])
def vets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Vet every launch first, whatever its size, or none."""
    if request.param:
        monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
        monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", 1000)
    return bool(request.param)


def _launch(
    name: str,
    y: NDArray[np.generic] | None = None,
    order_seed: int = 0,
    *,
    sanitize: bool = True,
) -> Outcome:
    y = np.full(128, np.nan, np.float32) if y is None else y
    fresh = () if name == "same_value" else ("y",)
    return (
        _library()
        .kernel(name)
        .launch(
            {"x": np.arange(128, dtype=np.float32), "y": y, "n": np.zeros(1, np.uint32)},
            grid=(128, 1, 1),
            threadgroup=(64, 1, 1),
            fresh=fresh if sanitize else (),
            sanitize=sanitize,
            order_seed=order_seed,
        )
    )


def test_every_class_has_three_seeded_bugs() -> None:
    assert set(_BUGS) == set(ReportKind)
    assert min(map(len, _BUGS.values())) >= 3


@pytest.mark.parametrize(
    ("kind", "i"), [(kind, i) for kind, bugs in _BUGS.items() for i in range(len(bugs))]
)
@pytest.mark.sampled(100)
def test_seeded_bug_is_found(kind: ReportKind, i: int, vets: bool) -> None:
    reports = _launch(_name(kind, i)).reports

    assert kind in {r.kind for r in reports}


@pytest.mark.parametrize("name", _CORRECT)
def test_correct_kernel_is_left_to_the_sanitizer_only_where_it_may_not_be_correct(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
    monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", 1000)

    outcome = _launch(name)

    assert outcome.reports == ()
    assert outcome.vetted == (name not in _SUSPICIOUS)


@pytest.mark.parametrize("order_seed", [0, 1, 2])
@pytest.mark.parametrize("name", _CORRECT)
def test_correct_kernel_gives_no_report(name: str, order_seed: int) -> None:
    assert _launch(name, order_seed=order_seed).reports == ()


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize("name", _ACTIVE_LANES)
def test_operation_works_on_the_lanes_that_are_active(name: str, sanitize: bool) -> None:
    y = np.full(128, np.nan, np.float32)

    _launch(name, y, sanitize=sanitize)

    assert y.tolist() == np.tile(_OF_ACTIVE_LANES[name], 2).tolist()


def test_meeting_in_different_rounds_names_place_and_both_threads() -> None:
    (report,) = _launch(_name(ReportKind.DIVERGENT_BARRIER, 6)).reports

    assert report.kind is ReportKind.DIVERGENT_BARRIER
    assert report.line == report.other_line > 0
    assert report.thread is not None
    assert report.other_thread is not None
    assert (report.thread[0] + report.other_thread[0]) % 2 == 1
    assert "in another round of a loop, or by another call" in report.message


def test_a_barrier_that_a_function_does_last_has_its_own_line() -> None:
    text = textwrap.dedent("""\
        #include <metal_stdlib>
        using namespace metal;
        __attribute__((noinline)) void meet(uint l) {
          if (l < 3)
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        kernel void k(device uint* y [[buffer(0)]], uint l [[thread_index_in_threadgroup]]) {
          meet(l);
          y[l] = l;
        }
        """)
    launched = simulator.compile(text).kernel("k")
    outcome = launched.launch(
        [np.zeros(4, np.uint32)], grid=(4, 1, 1), threadgroup=(4, 1, 1), sanitize=True
    )
    assert [(r.kind, r.line) for r in outcome.reports] == [(ReportKind.DIVERGENT_BARRIER, 5)]


def test_report_names_line_variable_offset_and_thread() -> None:
    text = textwrap.dedent("""\
        #include <metal_stdlib>
        kernel void far(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                        uint2 at [[thread_position_in_grid]]) {
          uint i = at.y * 8 + at.x;
          y[i] =
            x[i + 4];
        }
        """)
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)

    outcome = (
        simulator.compile(text)
        .kernel("far")
        .launch([x, y], grid=(8, 4, 1), threadgroup=(8, 2, 1), sanitize=True)
    )

    (report,) = outcome.reports
    assert (report.file, report.line, report.variable) == ("source", 6, "x")
    assert report.offset == 128
    assert report.thread == (4, 3, 0)
    assert report.threadgroup == (0, 1, 0)
    assert report.count == 4
    assert "reads 4 bytes at byte 128 of x, which has 128" in report.message


def test_race_names_both_threads_and_lines() -> None:
    text = textwrap.dedent("""\
        #include <metal_stdlib>
        kernel void race(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                         uint i [[thread_position_in_grid]]) {
          threadgroup float shared[64];
          shared[i] = x[i];
          y[i] = shared[(i + 1) % 64];
        }
        """)
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)

    outcome = (
        simulator.compile(text)
        .kernel("race")
        .launch([x, y], grid=(64, 1, 1), threadgroup=(64, 1, 1), sanitize=True)
    )

    race = next(r for r in outcome.reports if r.kind is ReportKind.THREADGROUP_RACE)
    assert race.variable == "shared"
    assert {race.line, race.other_line} == {5, 6}
    assert race.thread != race.other_thread


@pytest.mark.parametrize("writer", range(0, 32, 5))
@pytest.mark.parametrize("order_seed", range(3))
def test_a_writer_that_read_last_is_told_of_another_reader(writer: int, order_seed: int) -> None:
    """All 32 lanes read, and then one of them writes."""
    text = textwrap.dedent(f"""\
        #include <metal_stdlib>
        using namespace metal;
        kernel void race(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {{
          threadgroup float t[32];
          t[i] = i;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          float v = t[0];
          v += simd_sum(1.0f);
          if (i == {writer}) t[0] = v + 1;
          y[i] = v;
        }}
        """)
    outcome = (
        simulator.compile(text)
        .kernel("race")
        .launch(
            [np.zeros(32, np.float32)],
            grid=(32, 1, 1),
            threadgroup=(32, 1, 1),
            sanitize=True,
            order_seed=order_seed,
        )
    )
    (race,) = outcome.reports
    assert race.thread == (writer, 0, 0)
    assert race.other_thread is not None
    assert race.other_thread != race.thread
    assert race.other_line == 7


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("if (x[i] > 3)\n s[l / 2] = 1 + i;\nelse\n s[l / 2] = 7 + i;\ny[i] = s[l];", {7, 9, 10}),
        (
            "float v;\nif (x[i] > 3)\n v = s[l ^ 1];\nelse\n v = s[l ^ 1] * 2;\ns[l] = v;",
            {8, 10, 11},
        ),
        ("if (x[i] > 3)\n y[i / 2] = i;\nelse\n y[i / 2] = i;", {7, 9}),
        ("s[l] = 1;\ny[i] = x[i] > 3 ?\n s[l ^ 1] :\n s[l ^ 2];", {6, 7, 8, 9}),
        (
            (
                "switch (l % 3) {\ncase 0: s[l / 4] = 1 + i; break;\n"
                "case 1: s[l / 4] = 2 + i; break;\ndefault: s[l / 4] = 3 + i; }"
            ),
            {7, 8, 9},
        ),
    ],
)
def test_race_of_what_branches_do_alike_has_its_lines(body: str, lines: set[int]) -> None:
    text = (
        "#include <metal_stdlib>\nusing namespace metal;\n"
        "kernel void race(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],\n"
        "uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) {\n"
        f"threadgroup float s[64];\n{body}\n}}\n"
    )

    outcome = (
        simulator.compile(text)
        .kernel("race")
        .launch(
            [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)],
            grid=(64, 1, 1),
            threadgroup=(64, 1, 1),
            sanitize=True,
        )
    )

    races = [r for r in outcome.reports if "race" in r.kind.value]
    assert races
    assert {line for r in races for line in (r.line, r.other_line)} <= lines


@pytest.mark.parametrize("order_seed", range(4))
@pytest.mark.parametrize("writer", [0, 31, 32, 63])
def test_a_simdgroup_barrier_orders_no_reader_of_another_simdgroup(
    writer: int, order_seed: int
) -> None:
    text = textwrap.dedent(f"""\
        #include <metal_stdlib>
        using namespace metal;
        kernel void again(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                          uint i [[thread_position_in_grid]]) {{
          threadgroup float shared[1];
          if (i == 0) shared[0] = x[0];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          float first = shared[0];
          simdgroup_barrier(mem_flags::mem_threadgroup);
          if (i == {writer}) shared[0] = 2 * first;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          y[i] = first + shared[0];
        }}
        """)
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)

    outcome = (
        simulator.compile(text)
        .kernel("again")
        .launch(
            [x, y], grid=(64, 1, 1), threadgroup=(64, 1, 1), sanitize=True, order_seed=order_seed
        )
    )

    assert {r.kind for r in outcome.reports} == {ReportKind.THREADGROUP_RACE}
    race = outcome.reports[0]
    assert {race.line, race.other_line} == {8, 10}
    # One of the same simdgroup, which the barrier orders, is not to blame.
    assert race.thread is not None
    assert race.other_thread is None or race.other_thread[0] // 32 != race.thread[0] // 32


def test_an_index_beyond_a_threadgroup_array_names_the_array() -> None:
    body = "threadgroup float t[8][8]; t[l / 8][l % 8 + 8] = x[i]; y[i] = 0;"
    text = _SIGNATURE.format(name="beyond") + body + "}"
    buffers = [np.ones(64, np.float32), np.zeros(64, np.float32), np.zeros(1, np.uint32)]

    outcome = (
        simulator.compile("using namespace metal;" + text)
        .kernel("beyond")
        .launch(buffers, grid=(64, 1, 1), threadgroup=(64, 1, 1), sanitize=True)
    )

    assert any("uses index 8 of t, a threadgroup float[8]" in r.message for r in outcome.reports)
    assert not any("kw_" in r.message for r in outcome.reports)


@pytest.mark.parametrize(
    ("kind", "index", "name", "type_"),
    [
        (ReportKind.DEVICE_OUT_OF_BOUNDS, "table[l]", "table", "a constant float[4]"),
        (ReportKind.THREAD_OUT_OF_BOUNDS, "x[l] + a[l % 4]", "a", "a float[3]"),
        (ReportKind.THREAD_OUT_OF_BOUNDS, "(l > 9 ? 1 : 2) + s.w[1][l % 4]", "s.w", "a float[3]"),
    ],
)  # fmt: skip
def test_an_index_out_of_bounds_names_the_variable_once(
    kind: ReportKind, index: str, name: str, type_: str
) -> None:
    header = "constant float table[4] = {1, 2, 3, 4}; struct S { float w[2][3]; };"
    body = (
        f"float a[3] = {{1, 2, 3}}; S s = {{{{{{1}}, {{2}}}}}}; a[l % 2] += x[i]; y[i] = {index};"
    )
    text = _SIGNATURE.format(name="beyond") + body + " y[i] += s.w[0][0] + a[0]; }"
    buffers = [np.ones(64, np.float32), np.zeros(64, np.float32), np.zeros(1, np.uint32)]

    outcome = (
        simulator.compile(f"using namespace metal;{header}{text}")
        .kernel("beyond")
        .launch(buffers, grid=(64, 1, 1), threadgroup=(64, 1, 1), sanitize=True)
    )

    [report] = outcome.reports
    assert (report.kind, report.variable) == (kind, name)
    assert f"of {name}, {type_}" in report.message


def test_out_of_bounds_write_reaches_no_other_buffer() -> None:
    y = np.zeros(128, np.float32)

    _launch(_name(ReportKind.DEVICE_OUT_OF_BOUNDS, 2), y)

    np.testing.assert_array_equal(y, np.arange(128, dtype=np.float32))


def test_reports_repeat_with_the_same_seed() -> None:
    name = _name(ReportKind.THREADGROUP_RACE, 0)

    assert {r.kind for r in _launch(name, order_seed=7).reports} == {
        r.kind for r in _launch(name, order_seed=7).reports
    }


def test_a_harmless_uninitialised_read_is_dropped_whatever_order_threadgroups_append_in() -> None:
    text = """
        #include <metal_stdlib>
        using namespace metal;
        kernel void append(device uint* y [[buffer(0)]], device atomic_uint* n [[buffer(1)]],
                           uint group [[threadgroup_position_in_grid]],
                           uint l [[thread_index_in_threadgroup]]) {
          threadgroup uint s[64];
          if (l < 32) s[l] = l;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          uint v = simd_shuffle_xor(s[l], 1);
          if (l < 32) y[atomic_fetch_add_explicit(n, 1, memory_order_relaxed)] = group + v;
        }"""
    kernel = simulator.compile(text).kernel("append")
    y, n = np.zeros(1 << 15, np.uint32), np.zeros(1, np.uint32)

    outcome = kernel.launch([y, n], grid=(1 << 16, 1, 1), threadgroup=(64, 1, 1), sanitize=True)

    assert n[0] == y.size
    assert outcome.reports == ()


def test_an_unset_variable_is_named_with_its_line_and_a_thread_that_reads_it() -> None:
    text = textwrap.dedent("""\
        #include <metal_stdlib>
        kernel void unset(device float* y [[buffer(0)]], uint2 at [[thread_position_in_grid]]) {
          uint i = at.y * 8 + at.x;
          float first = 1, second,
                third;
          if (i != 21) third = 2;
          second = first;
          y[i] = second + third;
        }
        """)

    outcome = (
        simulator.compile(text)
        .kernel("unset")
        .launch([np.zeros(32, np.float32)], grid=(8, 4, 1), threadgroup=(8, 2, 1), sanitize=True)
    )

    (report,) = outcome.reports
    assert (report.file, report.line, report.column, report.variable) == ("source", 5, 9, "third")
    assert report.thread == (5, 2, 0)
    assert "thread (5, 2, 0) reads third, which nothing has set" in report.message


@pytest.mark.parametrize(
    "body",
    [
        "float v; for (int q = 0; q < 4; ++q) v = min(v, x[i * 4 + q]); y[i] = v;",
        "float v; y[i] = v < 0;",
        "float v; y[i] = isnan(v);",
        "float v; y[i] = signbit(v);",
        "half v; y[i] = min(v, half(0));",
        "int v; y[i] = max(5, -v);",
        "uint v; y[i] = v >> 31;",
        "char v; y[i] = v < 0;",
        "bfloat v; y[i] = float(v) != float(v);",
        "float4 v; v.xyz = 1; y[i] = v.w < 0;",
    ],
)
@pytest.mark.parametrize("count", [64, 1 << 15])
def test_a_sign_or_no_number_that_nothing_has_set_is_a_read_too(body: str, count: int) -> None:
    text = textwrap.dedent("""\
        #include <metal_stdlib>
        using namespace metal;
        kernel void unset(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                          uint i [[thread_position_in_grid]]) { BODY }
        """).replace("BODY", body)
    x = -1 - np.arange(4 * count, dtype=np.float32)
    outcome = (
        simulator.compile(text)
        .kernel("unset")
        .launch(
            [x, np.zeros(count, np.float32)],
            grid=(count, 1, 1),
            threadgroup=(64, 1, 1),
            sanitize=True,
        )
    )
    assert [report.variable for report in outcome.reports] == ["v"]


@pytest.mark.parametrize("threads", [48, 20])
def test_a_lane_beyond_a_ragged_end_may_be_read_and_ignored(threads: int) -> None:
    text = textwrap.dedent("""\
        #include <metal_stdlib>
        using namespace metal;
        kernel void steps(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                          constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]]) {
          float next = simd_shuffle_down(x[i], 1);
          if (i % 32 == 31) next = x[min(i + 1, n - 1)];
          y[i] = i + 1 < n ? next - x[i] : 0.0f;
        }
        """)
    x, y = np.arange(threads, dtype=np.float32) ** 2, np.zeros(threads, np.float32)
    outcome = (
        simulator.compile(text)
        .kernel("steps")
        .launch(
            [x, y, np.uint32(threads)],
            grid=(threads, 1, 1),
            threadgroup=(threads, 1, 1),
            sanitize=True,
        )
    )
    assert not outcome.reports
    assert np.array_equal(y, np.append(np.diff(x), 0))
