"""Metal text becomes CUDA text token by token, and every line stays where it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.metal.device.cuda.rewrite import (
    gather_body,
    mentions,
    rewrite_body,
    rewrite_header,
)


@pytest.mark.parametrize(
    ("metal", "cuda"),
    [
        ("threadgroup float tile[8][9];", "__shared__ float tile[8][9];"),
        ("threadgroup float* p = tile;", " float* p = tile;"),
        (
            "threadgroup float a[9], *p = a, b;",
            "__shared__ float a[9]; float *p = a; __shared__ float b;",
        ),
        ("threadgroup half *p, a[9];", " half *p; __shared__ half a[9];"),
        ("for (;;) { threadgroup half4 a[2]; }", "for (;;) { __shared__ half4 a[2]; }"),
        ("const device float* p = x;", "const  float* p = x;"),
        ("auto y = x * 2.0 + 1e-3;", "auto y = x * 2.0f + 1e-3f;"),
        ("half h = 1.5h;", "half h = metal::half(1.5f);"),
        ("int i = 0x1f + 3;", "int i = 0x1f + 3;"),
        ("float2 a = v.zx;", "float2 a = v.template kw_read<2, 0>();"),
        ("v.xy = a;", "v.template kw_write<0, 1>() = a;"),
        ("v.rg += a;", "v.template kw_write<0, 1>() += a;"),
        ("b = v.xy == a;", "b = v.template kw_read<0, 1>() == a;"),
        ("p->xyz;", "p->template kw_read<0, 1, 2>();"),
        ("v.x = v.w;", "v.x = v.w;"),
        (
            "*(device packed_half4*)(y + i) = *(const device packed_half4*)(x + i);",
            "*( packed_half4*)(y + i) = *(const  packed_half4*)(x + i);",
        ),
        ("((device float4*)y)[i] = v;", "(( float4*)y)[i] = v;"),
        ("struct S { int xy; } s; s.xy = 1;", "struct S { int xy; } s; kw_place_xy(s, 0) = 1;"),
        (
            "struct S { int xy; } s; a = p->b.xy;",
            "struct S { int xy; } s; a = kw_member_xy(p->b, 0);",
        ),
        ("int xy = 1; v.xy = w;", "int xy = 1; v.template kw_write<0, 1>() = w;"),
        ("v.zw++;", "v.template kw_write<2, 3>()++;"),
    ],
)
def test_statement_is_rewritten(metal: str, cuda: str) -> None:
    assert rewrite_body(metal) == cuda


@pytest.mark.parametrize(
    ("metal", "cuda"),
    [
        (
            "inline float f(float x) { return x; }",
            "__device__ inline float f(float x) { return x; }",
        ),
        (
            "template <typename T> T g(const device T* p) { return *p; }",
            "template <typename T> __device__ T g(const  T* p) { return *p; }",
        ),
        (
            "struct P { float x; float n() const thread { return x; } };",
            "struct P { float x; __device__ float n() const  { return x; } };",
        ),
        ("constant float table[2] = {1.0, 2};", "__constant__ const float table[2] = {1.0f, 2};"),
        ("constant int width = 32;", "constexpr int width = 32;"),
        ("constant constexpr int width = 32;", " constexpr int width = 32;"),
        ("typedef float (*fp)(int);", "typedef float (*fp)(int);"),
        ("using V = float4;", "using V = float4;"),
        ("[[max_total_threads_per_threadgroup(64)]] void f() {}", None),
    ],
)
def test_declaration_is_rewritten(metal: str, cuda: str | None) -> None:
    rewritten = rewrite_header(metal)
    if cuda is None:
        assert "[[" not in rewritten
    else:
        assert rewritten == cuda


def test_overloads_by_address_space_become_one_function() -> None:
    text = "\n".join(
        f"template <typename T>\ninline T f(const {space} T* p) {{ return *p; }}"
        for space in ("device", "constant", "threadgroup")
    )
    rewritten = rewrite_header(f"{text}\ninline int f(int i) {{ return i; }}")
    assert rewritten.count("__device__") == 2
    assert rewritten.count("\n") == text.count("\n") + 1


def test_overloads_with_bodies_of_their_own_choose_at_run_time() -> None:
    rewritten = rewrite_header(
        "template <typename T> inline T f(const device T* p, uint i) { return p[i]; }\n"
        "template <typename T> inline T f(const threadgroup T* p, uint i) { return p[i ^ 1]; }"
    )
    first, second = rewritten.split("\n")
    assert "kw_device_f(const  T* p, uint i)" in first
    assert "kw_threadgroup_f(const  T* p, uint i)" in second
    assert second.endswith(
        "{ return __isShared(p) ? kw_threadgroup_f<T>(p, i) : kw_device_f<T>(p, i); }"
    )
    assert first.startswith("template < typename T > __device__ inline T f(")


def test_references_choose_by_their_address() -> None:
    text = "float f(thread float& a) { return a; } float f(device float& a) { return -a; }"
    assert "{ return __isLocal(&a) ? kw_thread_f(a) : kw_device_f(a); }" in rewrite_header(text)


def test_an_attribute_of_a_function_that_is_no_kernel_leaves_nothing() -> None:
    text = "[[max_total_threads_per_threadgroup(64)]] inline float h(float x) { return x; }"
    assert rewrite_header(text).split() == rewrite_header(text.split("]] ")[1]).split()


def test_metal_includes_are_dropped_and_others_kept() -> None:
    text = "#include <metal_stdlib>\n#define W 2.0\nusing namespace metal;\n"
    assert rewrite_header(text).split("\n")[0].strip() == ""
    assert "#define W 2.0f" in rewrite_header(text)


@given(st.text("ab.(){};<>[]\n /*x1.0hdevice\"'#", max_size=60))
def test_lines_stay_where_they_were(text: str) -> None:
    spliced = "\\\n" in text
    assert spliced or rewrite_body(text).count("\n") == text.count("\n")


def test_mentions_sees_identifiers_not_substrings() -> None:
    assert mentions("uint i = grid_size.x;", "grid_size")
    assert not mentions("uint my_grid_size; // grid_size", "grid_size")


def test_arrays_of_a_body_are_gathered_one_behind_the_other() -> None:
    gathered = gather_body(
        "threadgroup float a[8][N < 4 ? 1 : 2], b;\nthreadgroup vec<half, 4> c[3];"
    )
    assert gathered.arrays == 3
    first, second = gathered.text.split("\n")
    assert first.startswith("typedef float kw_array_0[8][N < 4 ? 1 : 2], kw_array_1; ")
    assert "constexpr uint kw_at_1 = kw_place(kw_end_1);" in first
    assert first.endswith("kw_array_1& b = *(kw_array_1*)(kw_shared + kw_at_1);")
    assert second.startswith("typedef vec<half, 4> kw_array_2[3]; ")


@pytest.mark.parametrize(
    "text",
    [
        "{ threadgroup float a[8]; }",
        "for (;;) { threadgroup float a[8]; }",
        "#ifdef A\nthreadgroup float a[8];\n#endif",
        "#define TILE threadgroup float a[8]\nTILE;",
        "threadgroup struct { float x; } a;",
        "threadgroup float* p = q;",
    ],
)
def test_what_has_no_place_of_its_own_is_not_gathered(text: str) -> None:
    gathered = gather_body(text)
    assert gathered.arrays == 0
    assert gathered.text == rewrite_body(text)
