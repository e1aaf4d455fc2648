"""What Metal refuses is refused at its place, and MLX's own headers are not."""

from pathlib import Path

import mlx
import pytest

from kernelwright.metal.msl.refuse import refuse
from kernelwright.metal.msl.rewrite import rewrite

KERNELS = Path(next(iter(mlx.__path__))) / "include/mlx/backend/metal/kernels"
POINTER = "pointer type must have explicit address space qualifier"
REFERENCE = "reference type must have explicit address space qualifier"
RECURSION = "recursive function calls are not supported in Metal"
MISPLACED = "'max_total_threads_per_threadgroup' attribute cannot be applied to types"
LIMIT = (
    "'max_total_threads_per_threadgroup' attribute parameter is out of bounds: "
    "must be between 1 and 1024"
)
SCOPE = "program scope variable must reside in constant address space"
MIXED = (
    "expecting input declarations with either all scalar types or all vector types with the "
    "same number of elements"
)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("void f() { double x = 1; }", 12, "'double' is not supported in Metal"),
        ("void f() { unsigned long long x; }", 21, "'long long' is not supported in Metal"),
        ("void f() { goto x; x: ; }", 12, "'goto' is not supported in Metal"),
        ("void f() { try { } catch (...) { } }", 12, "'try' is not supported in Metal"),
        ("void f() { thread int* p = new int; }", 28, "'new' is not supported in Metal"),
        ("struct A { virtual void f(); };", 12, "virtual functions are not supported in Metal"),
        ("void f() { static int x = 1; }", 23,
         "variables in function scope cannot be declared static"),
        ("int f(int n) { return n == 0 ? 1 : n * f(n - 1); }", 40, RECURSION),
        ("float g = 1;", 7, SCOPE),
        ("static const int n = 4;", 18, SCOPE),
        ("constant float g;", 16, "variable in constant address space must be initialized"),
        ("void f(float* x);", 13, POINTER),
        ("const float* f(thread float* x) { return x; }", 12, POINTER),
        ("void f() { for (float* p = a; p < b; p++) {} }", 22, POINTER),
        ("void f(thread int& a, const float& b) { }", 34, REFERENCE),
        ("struct A { A(const A& o) { } };", 21, REFERENCE),
        ("struct A { float4* p; };", 18, POINTER),
        ("void f() { float* p = 0; }", 17, POINTER),
        ("void f() { return (uint*)x; }", 24, POINTER),
        ("void f() { g(reinterpret_cast<half*>(x)); }", 35, POINTER),
        ("int main() { return 0; }", 5, "non-qualified function cannot be called 'main'"),
        ("kernel void [[max_total_threads_per_threadgroup(64)]] f() { }", 15, MISPLACED),
        ("kernel void f() [[max_total_threads_per_threadgroup(64)]] { }", 19, MISPLACED),
        ("kernel void f() { [[max_total_threads_per_threadgroup(64)]] int x; }", 21, MISPLACED),
        ("kernel int f() { return 0; }", 12, "invalid return type 'int' for kernel function"),
        ("kernel void f(int x) { }", 19,
         "invalid type 'int' for input declaration in a kernel function"),
        ("kernel void f(uint x [[buffer(0)]]) { }", 20,
         "type 'uint' (aka 'unsigned int') is not valid for attribute 'buffer'"),
        ("kernel void f(device int* x [[buffer(31)]]) { }", 27,
         "'buffer' attribute parameter is out of bounds: must be between 0 and 30"),
        ("kernel void f(device int* x [[buffer(-1)]]) { }", 27,
         "'buffer' attribute parameter is out of bounds: must be between 0 and 30"),
        ("kernel void f(threadgroup int* x [[threadgroup(-1)]]) { }", 32,
         "'threadgroup' attribute parameter is out of bounds: must be between 0 and 30"),
        ("constant int n [[function_constant(-1)]];", 18,
         "'function_constant' attribute parameter is out of bounds: must be between 0 and 65535"),
        ("[[max_total_threads_per_threadgroup(0)]] kernel void f() { }", 3,
         LIMIT),
        ("kernel void f(device float** p [[buffer(0)]]) { }", 30,
         "invalid address space qualification for buffer pointee type 'device float *'"),
        ("kernel void f(device int* x [[buffer(1)]], device int* y [[buffer(1)]]) { }", 56,
         "cannot reserve 'buffer' resource location at index 1"),
        ("kernel void f(threadgroup int* t [[buffer(0)]]) { }", 32,
         "invalid address space qualification for buffer pointee type 'threadgroup int'"),
        ("kernel void f(constant int x [[buffer(0)]]) { }", 28,
         "parameter may not be qualified with an address space"),
        ("kernel void f(float i [[thread_position_in_grid]]) { }", 21,
         "type 'float' is not valid for attribute 'thread_position_in_grid'"),
        ("kernel void f(constant uint& i [[thread_position_in_grid]]) { }", 30,
         "type 'constant uint &' is not valid for attribute 'thread_position_in_grid'"),
        ("kernel void f(const device uint* i [[thread_index_in_simdgroup]]) { }", 34,
         "type 'const device uint *' is not valid for attribute 'thread_index_in_simdgroup'"),
        ("kernel void f(threadgroup T& i [[threads_per_grid]]) { }", 30,
         "type 'threadgroup T &' is not valid for attribute 'threads_per_grid'"),
        ("kernel void f(thread uint3& i [[thread_position_in_grid]]) { }", 29,
         "type 'thread uint3 &' is not valid for attribute 'thread_position_in_grid'"),
        ("kernel void f(uint3 i [[thread_index_in_simdgroup]]) { }", 21,
         "type 'uint3' is not valid for attribute 'thread_index_in_simdgroup'"),
        ("kernel void f(uint i [[vertex_id]]) { }", 20,
         "invalid 'vertex_id' attribute for input declaration in a kernel function"),
        ("kernel void f(uint i [[thread_position_in_grid]], uint2 n [[threads_per_grid]]) { }", 57,
         MIXED),
        ("kernel void f(texture2d<float> t [[texture(0)]]) { }", 32,
         "textures and samplers are not supported by the simulator"),
        ("vertex float4 f(uint i [[vertex_id]]) { return float4(i); }", 1,
         ("vertex functions are not supported by the simulator; move the kernels to a file of "
         "their own")),
        ("[[fragment]] float4 f() { return float4(1); }", 3,
         ("fragment functions are not supported by the simulator; move the kernels to a file of "
         "their own")),
        ("constant int N [[function_constant(0)]] = 3;", 14,
         "'function_constant' attribute cannot be applied to a variable with an initializer"),
        ("kernel void f() { auto g = [] { threadgroup int s; s = 1; }; g(); }", 49,
         "threadgroup variable 's' must be declared in the kernel function; pass a pointer to it"),
    ],
)  # fmt: skip
def test_it_is_refused_in_apples_words(text: str, column: int, message: str) -> None:
    [found] = refuse(rewrite(f"\n{text}\n"))
    assert (found.line, found.column, found.message) == (2, column, message)


@pytest.mark.parametrize(
    "text",
    [
        "constant float a[2] = {1, 2}; static constant constexpr int n = 3;",
        "constant bool has [[function_constant(0)]];",
        "MY_CONST int n = 3; instantiate(a, float);",
        "void f(float a, float b) { float c = a * b; c = (a) * (b); uint d = uint(a) & 3u; }",
        "void f(device float* x) { auto p = x + 1; auto* q = p; auto& r = x[0]; }",
        "void f(float a[4], thread float (&b)[4]) { a[b[0] > 1 ? 0 : 1] = 0; }",
        "int f(int x) { return x; } float f(float x) { return f(int(x)); }",
        "template <int N> int f() { if constexpr (N > 0) return f<N - 1>(); return 0; }",
        "[[max_total_threads_per_threadgroup(64)]] kernel void f() { }",
        "[[kernel, max_total_threads_per_threadgroup(64)]] void f() { }",
        "kernel void f(ushort2 i [[thread_position_in_grid]], uint2 n [[threads_per_grid]]) { }",
        "kernel void f(device float* x, constant int& n) { }",
        "struct A { A() = default; A(thread A&) = delete; static constexpr constant int n = 1; };",
        "void g(thread int* a); void g(device int* a); void f(device int* p) { g(p); }",
        "void g(thread int* a); void f(device int* p) { int v = p[0]; g(&v); thread int* q = &v; }",
        "void f() { int a[3] = {1, 2, 3}; int b[2] = {a[0], a[1]}; }",
        '// double\n/* virtual */ constant char s[] = "goto";',
    ],
)  # fmt: skip
def test_what_metal_accepts_is_not_refused(text: str) -> None:
    assert refuse(rewrite(text)) == ()


@pytest.mark.parametrize(
    "name",
    ["utils.h", "complex.h", "sort.h", "steel/gemm/mma.h", "steel/attn/loader.h", "quantized.h"],
)
def test_mlx_headers_are_not_refused(name: str) -> None:
    assert refuse(rewrite((KERNELS / name).read_text())) == ()
