"""Metal text becomes what clang compiles, every line where it was."""

import pytest

from kernelwright.metal.msl.rewrite import FunctionConstant, rewrite
from kernelwright.metal.msl.threadgroup_variable import NumberedVariable


def rewritten(text: str) -> str:
    return rewrite(text).edited.text


@pytest.mark.parametrize(
    ("written", "compiled"),
    [
        ("1.0", "1.0f"),
        (".5", ".5f"),
        ("1.", "1.f"),
        ("1e-5", "1e-5f"),
        ("0x1.8p-3", "0x1.8p-3f"),
        ("1.0f", "1.0f"),
        ("0xE", "0xE"),
        ("0x1h", "0x1h"),
        ("2.5h", "2.5f16"),
        ("1.0bf", "bfloat(1.0f)"),
        ("12", "12"),
        ("12u", "12u"),
        ("1'000.5", "1'000.5f"),
    ],
)
def test_literals_get_the_type_that_metal_gives_them(written: str, compiled: str) -> None:
    assert rewritten(f"auto x = {written};") == f"auto x = {compiled};"


@pytest.mark.parametrize(
    ("written", "compiled"),
    [
        ("v.xy += w;", "v->*kw_letters<0, 1>{} += w;"),
        ("p[i]->bgr >>= 1;", "p[i]->*kw_letters<2, 1, 0>{} >>= 1;"),
        ("v.x += 1; v.xy = w.zw; v.xq += 2;", "v.x += 1; v.xy = w.zw; v.xq += 2;"),
        ("struct S { float xy; }; s.xy += 1;", "struct S { float xy; }; s.xy += 1;"),
    ],
)
def test_swizzles_that_are_computed_with_become_places(written: str, compiled: str) -> None:
    assert rewritten(written) == compiled


def test_literals_of_directives_other_than_define_stay() -> None:
    assert (
        rewritten("#if X > 1.5\n#define E 1e-5\n#endif") == "#if X > 1.5\n#define E 1e-5f\n#endif"
    )


def test_a_conditional_yields_a_value() -> None:
    text = rewritten("x = a ? b ? 1 : c[i ? 2 : 3] : d; for (auto v : w) {} y = p ? q : r;")
    assert text == (
        "x = a ? (kw_rvalue, ( b ? (kw_rvalue, ( 1 )): c[i ? (kw_rvalue, ( 2 )): 3] )): d; "
        "for (auto v : w) {} y = p ? (kw_rvalue, ( q )): r;"
    )


@pytest.mark.parametrize(
    "text",
    [
        "switch (a) { case 1: b = c ? 1 : 2; default: break; }",
        "struct A : B { int x : 3; };",
        "label: x = metal::max(1, 2);",
    ],
)
def test_other_colons_are_left_alone(text: str) -> None:
    assert rewritten(text).count("kw_rvalue") == text.count("?")


def test_an_alignment_in_front_of_a_threadgroup_variable_goes() -> None:
    text = rewritten("void f() { alignas(16) threadgroup half a[64]; alignas(8) int b; }")
    assert text.startswith("void f() {  typedef half kw_threadgroup_0[64];")
    assert "alignas(8) int b;" in text


def test_threadgroup_variables_move_into_the_threadgroups_memory() -> None:
    result = rewrite("void f() {\n  threadgroup vec<T, 4> a[N][2], b;\n  int c;\n}", file="source")
    line = result.edited.text.split("\n")[1]
    assert line.startswith(
        "  typedef vec<T, 4> kw_threadgroup_0[N][2], kw_threadgroup_1; threadgroup"
    )
    assert "threadgroup kw_threadgroup_0& a = *(threadgroup kw_threadgroup_0*)" in line
    assert result.edited.text.count("\n") == 3
    variables: list[NumberedVariable] = []
    rewrite("void f() {\n  threadgroup float a[3];\n}", file="source", variables=variables)
    assert variables == [NumberedVariable("a", "source", 2, 21)]


@pytest.mark.parametrize(
    "text",
    [
        "void f(threadgroup float* p) { threadgroup float* q = p; }",
        "void f() { auto g = (threadgroup float*)p; }",
        "void f() { threadgroup float& r = *p; }",
        "template <typename T> void f(threadgroup T* p);",
    ],
)
def test_pointers_to_threadgroup_memory_are_no_variables(text: str) -> None:
    assert rewritten(text) == text


def test_a_kernel_gets_a_caller_on_its_own_last_line() -> None:
    text = rewritten(
        "kernel void f(device float* x [[buffer(1)]], constant int& n [[buffer(0)]],\n"
        "              uint2 p [[thread_position_in_grid]]) {\n}\nint after;"
    )
    lines = text.split("\n")
    assert lines[0].startswith("inline void f(device float* x [[buffer(1)]]")
    assert "f((device float *)(kw_ulong)kw_buffers[0]" in lines[2]
    assert "*(constant int *)(kw_ulong)kw_buffers[1]" in lines[2]
    assert "kw_attribute<uint2>(kw_who->position_in_grid)" in lines[2]
    assert 'KW_ENTRY(f, "f", ::f)' in lines[2]
    assert lines[3] == "int after;"


def test_a_template_is_entered_through_its_instantiations() -> None:
    text = rewritten(
        "template <typename T, int N = 4>\n[[kernel]] void f(device T* x) {}\n"
        'template [[host_name("f_half")]] [[kernel]]\n  decltype(f<half, 2>) f<half, 2>;'
    )
    assert "f<T, N>((device T *)(kw_ulong)kw_buffers[0])" in text
    assert "KW_ENTRY(" not in text
    assert text.count("\n") == 3
    assert "".join(text.split()).endswith('KW_INSTANTIATE("f_half",f,half,2)')


def test_instantiations_inside_macros_are_rewritten_in_the_macro() -> None:
    text = rewritten(
        "#define make(name, func, ...) \\\n"
        "  template [[host_name(name)]] [[kernel]] decltype(func<__VA_ARGS__>) func<__VA_ARGS__>;\n"
    )
    assert "".join(text.split()).endswith("KW_INSTANTIATE(name,func,__VA_ARGS__)")


def test_function_constants_take_their_value_from_a_macro() -> None:
    result = rewrite("constant bool has_mask [[function_constant(20)]];")
    assert result.constants == [FunctionConstant("has_mask", "bool", 20)]
    assert result.edited.text == (
        "constant bool has_mask [[function_constant(20)]] = KW_SPECIALIZED(KW_CONSTANT_20); "
        "constant bool kw_defined_has_mask = KW_SPECIALIZED(KW_CONSTANT_DEFINED_20);"
    )


def test_a_function_constant_can_be_asked_whether_it_was_given() -> None:
    assert rewritten("constant bool y = is_function_constant_defined(x) ? x : true;") == (
        "constant bool y = kw_defined_x ? (kw_rvalue, ( x )): true;"
    )


@pytest.mark.parametrize(
    ("written", "compiled"),
    [
        ("struct A { int f() const device { } };",
         "struct A { int f() const  KW_MEMBER_device { } };"),
        ("struct A { A(int x) thread : a(x) { } int a; };",
         "struct A { A(int x)  KW_MEMBER_thread : a(x) { } int a; };"),
        ("struct A { operator T() const thread noexcept { } };",
         "struct A { operator T() const  noexcept KW_MEMBER_thread { } };"),
        ("int A::f() constant { }", "int A::f()  KW_MEMBER_constant { }"),
        ("struct A { int g() const; };", "struct A { int g() const; };"),
    ],
)  # fmt: skip
def test_members_name_the_space_of_their_object(written: str, compiled: str) -> None:
    assert rewritten(written) == compiled


def test_members_that_differ_between_spaces_take_their_object() -> None:
    text = "int f(int k) const device { return k + x + this->x; } int f(int k) thread { return k; }"
    assert rewritten(f"struct A {{ int x; {text} }};") == (
        "struct A { int x; int f(this const device A& kw_self, int k)   { "
        "return k + kw_self.x + (&kw_self)->x; } "
        "template <int kw_lesser = 0> int f(int k)  KW_MEMBER_thread { return k; } };"
    )


def test_members_that_do_the_same_in_every_space_stay_one() -> None:
    text = "int f() const device { return x; } int f() const thread { return x; }"
    assert "kw_self" not in rewritten(f"struct A {{ int x; {text} }};")


def test_binding_attributes_are_hidden_from_the_macros_of_their_name() -> None:
    text = "void f(threadgroup float* t [[threadgroup(0)]]);"
    assert rewritten(text) == "void f(threadgroup float* t [[kw_threadgroup(0)]]);"


def test_an_array_parameter_of_a_kernel_is_passed_as_a_pointer() -> None:
    text = rewritten("kernel void f(constant const int64_t s[2] [[buffer(0)]]) { }")
    assert "f((constant const int64_t *)(kw_ulong)kw_buffers[0])" in text


def test_an_array_parameter_outside_thread_memory_becomes_a_pointer() -> None:
    assert rewritten("int f(constant const int s[3], thread int t[2]);") == (
        "int f(constant const int (*s), thread int t[2]);"
    )


def test_includes_are_pointed_at_their_rewritten_copies() -> None:
    text = '#include "a.h"\n#include <metal_stdlib>\n#include <b.h> // c\n'
    result = rewrite(text, include=lambda name: f"/c/{name}" if name.endswith(".h") else None)
    assert result.edited.text == (
        '#include "/c/a.h"\n#include <metal_stdlib>\n#include "/c/b.h" // c\n'
    )
    assert result.includes == ["a.h", "metal_stdlib", "b.h"]


def test_every_line_stays_where_it_was() -> None:
    text = (
        "kernel void f() {\n  // a\n  threadgroup\n    float a[2]\n    ;\n"
        "  x = 1.0 ?\n 2.0 : 3.0;\n}\n"
    )
    result = rewritten(text)
    assert result.count("\n") == text.count("\n")
    assert result.split("\n")[5].startswith("  x = 1.0f ? (kw_rvalue, (")
